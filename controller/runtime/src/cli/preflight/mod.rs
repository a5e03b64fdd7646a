//! The facts that a preflight evaluates, read with the rights of the caller.
//!
//! Invariant: nothing here changes an object or decides. A fact that cannot be read becomes a row with the cause.

mod access;
mod checks;
mod cluster;
mod persons;
mod racks;
mod watches;

use std::sync::Arc;

use jiff::Timestamp;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use rackhand_api::names::{GROUP, HOLD_ANNOTATION_VALUE, groups, hold_annotation, kinds};
use rackhand_core::preflight::{
    ClusterFacts, Facts, HoldTrial, KindFacts, Report, WatchFacts, evaluate,
};
use serde_json::json;

use crate::{
    config::Config,
    store::{
        api::{ClientError, call, management_client, words},
        index::Index,
        object::{Key, Kind, Served, api},
    },
};

use access::RightsGatherer;
use racks::RackGatherer;

/// Maximum number of concurrent connections and calls.
const CONCURRENT: usize = 16;

/// Checks a cluster and its racks.
///
/// # Errors
/// There is no connection to the management cluster.
pub async fn preflight(config: &Config) -> Result<Report, ClientError> {
    let client = management_client(config.kubeconfig.as_deref()).await?;
    let gatherer = Gatherer {
        client,
        config,
        served: Served::default(),
        index: Arc::new(Index::new(Vec::new())),
    };
    let facts = gatherer.gather().await;
    Ok(evaluate(&facts, Timestamp::now()))
}

/// Collects facts about a cluster with the rights of whoever runs the preflight.
struct Gatherer<'a> {
    client: Client,
    config: &'a Config,
    served: Served,
    /// The objects of the management cluster and the Nodes of all clusters.
    index: Arc<Index>,
}

/// The versions in which a kind is read.
fn readable(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Cluster
        | Kind::Machine
        | Kind::MachineHealthCheck
        | Kind::Metal3Machine
        | Kind::Metal3Remediation => &["v1beta1", "v1beta2"],
        Kind::OpenShiftMachine | Kind::OpenShiftCheck => &["v1beta1"],
        Kind::BareMetalHost
        | Kind::NodeHealthCheck
        | Kind::PowerRemediation
        | Kind::PowerPolicy
        | Kind::RemediationTrigger
        | Kind::HostMaintenance
        | Kind::RackAgent
        | Kind::RemediationState => &["v1alpha1"],
    }
}

/// Kinds that are not watched: name, group and versions.
const UNWATCHED: [(&str, &str, &[&str]); 3] = [
    (kinds::POWER_REMEDIATION_TEMPLATE, GROUP, &["v1alpha1"]),
    (kinds::HOST_HISTORY, GROUP, &["v1alpha1"]),
    (
        kinds::METAL3_REMEDIATION_TEMPLATE,
        groups::INFRASTRUCTURE,
        &["v1beta1", "v1beta2"],
    ),
];

impl Gatherer<'_> {
    async fn gather(&self) -> Facts {
        let mut facts = Facts {
            leader: cluster::leader(&self.client, self.config).await,
            words: self.config.words_of_persons,
            ..Facts::default()
        };
        let (kinds, api_clock, policy) = tokio::join!(
            self.kinds(),
            cluster::api_server_clock(&self.client),
            persons::policy(&self.client, &self.served)
        );
        facts.kinds = kinds;
        facts.clocks.push(api_clock);
        facts.persons_policy = policy;
        facts.watches = self.watches().await;
        facts.managers = cluster::managers(&self.client).await;
        facts.hold = self.try_hold().await;
        facts.checks = self.checks().await;
        let (clusters, trials) = self.clusters(&facts).await;
        facts.clusters = clusters;
        facts.watches.extend(trials);
        let (client, config, index) = (&self.client, self.config, &*self.index);
        let rights = RightsGatherer {
            client,
            config,
            index,
        };
        facts.rights = rights.gather().await;
        let racks = RackGatherer {
            client,
            config,
            index,
        };
        racks.gather(&mut facts).await;
        facts
    }

    /// A dry run of a hold on one BareMetalHost that baremetal-operator manages.
    async fn try_hold(&self) -> Option<(String, HoldTrial)> {
        let mut keys = self.index.keys(Kind::BareMetalHost).into_iter();
        let is_managed = |key: &Key| {
            let view = self.index.host(key).and_then(|entry| entry.view.ok());
            view.is_some_and(|view| !view.is_detached())
        };
        let key = keys.find(is_managed)?;
        let found = self.served.find(
            &self.client,
            Kind::BareMetalHost.group(),
            Kind::BareMetalHost.kind(),
        );
        let resource = found.await.ok().flatten()?;
        let hosts = api(&self.client, &resource, &key.namespace);
        let name = hold_annotation("preflight");
        let body = json!({ "metadata": { "annotations": { name: HOLD_ANNOTATION_VALUE } } });
        let dry_run = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(body);
        let tried = call("a hold", hosts.patch(&key.name, &dry_run, &patch)).await;
        let trial = match tried {
            Ok(_) => HoldTrial::Accepted,
            Err(error) if error.is_forbidden() => HoldTrial::Forbidden,
            Err(error) => HoldTrial::Refused(error.to_string()),
        };
        Some((key.to_string(), trial))
    }

    async fn kinds(&self) -> Vec<KindFacts> {
        let watched = Kind::ALL.map(|kind| (kind.kind(), kind.group(), readable(kind)));
        let mut all = Vec::new();
        for (kind, group, readable) in watched.into_iter().chain(UNWATCHED) {
            // As the controller finds it.
            let found = self.served.find(&self.client, group, kind).await;
            all.push(KindFacts {
                kind,
                group,
                own: group == GROUP,
                readable,
                served: found
                    .map(|resource| resource.map(|resource| resource.version))
                    .map_err(|error| words(&error)),
            });
        }
        all
    }

    /// The management cluster and every workload cluster.
    async fn clusters(&self, facts: &Facts) -> (Vec<ClusterFacts>, Vec<WatchFacts>) {
        use rackhand_core::preflight::CheckKind;
        let local = facts.evaluates(CheckKind::Medik8s) || facts.evaluates(CheckKind::OpenShift);
        let keys = self.index.clusters().into_iter().map(|key| (key, true));
        let (mut all, mut trials) = (Vec::new(), Vec::new());
        for (key, has_nodes) in std::iter::once((Key::local(), local)).chain(keys) {
            let read = cluster::facts(&self.client, &self.index, &key, has_nodes, &mut trials);
            all.push(read.await);
        }
        (all, trials)
    }
}

#[cfg(test)]
mod tests;
