//! Remediations that a label on a Node makes.
//!
//! `rackhand_core::triggers` decides; this folder observes by the index, reads live before a remediation is made and
//! before a label changes (F12), and carries out one write for a Node at a time. The decisions rest on the
//! remediations themselves, so nothing is kept over a restart.

mod act;
mod metrics;
mod observe;
mod status;
mod template;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use parking_lot::Mutex;
use rackhand_api::kinds::remediation_trigger::AnsweredLabel;
use rackhand_core::triggers::{Decision, next_time};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    clusters::Workloads,
    leader::{events::Events, writer::Writer},
    store::{
        api::{ApiError, call},
        index::{Change, ChangeQueue, Index, SeenNode},
        object::{Key, Kind, Served},
        remediation::RemediationId,
        time_slice::{beside, beside_all},
        watch::pause,
    },
};
use act::Deed;
pub(crate) use metrics::TriggerMetrics;
use observe::{TriggerView, Watched};
use template::Templates;

/// Least time between two passes.
const PACE: Duration = Duration::from_millis(250);
/// Longest time between two passes: for templates, whose changes are not watched.
const INTERVAL: Duration = Duration::from_secs(5);
/// New remediations of one trigger in one pass. The others follow in the next one.
const PER_PASS: usize = 50;
/// Writes in flight. The writer has a limit of its own.
const CONCURRENT: usize = 16;
/// Pause after the API server has refused a remediation.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Most Nodes in one response of a list.
const LIST_PAGE: u32 = 500;

/// Identifies a Node for which a trigger acts: the trigger, and the UID of the Node.
type Place = (Key, String);

/// Makes and deletes the remediations of triggers, and answers their labels.
pub(crate) struct Triggers {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    /// In the lane of checks.
    pub(crate) writer: Writer,
    /// In the lane of reports.
    pub(crate) reports: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<TriggerMetrics>,
    /// Whether labels make remediations. Those that exist are ended in any case.
    pub(crate) enabled: bool,
    /// The value of `cluster.x-k8s.io/watch-filter` that triggers must have.
    pub(crate) watch_filter: Option<String>,
    pub(crate) memory: Mutex<Memory>,
}

/// What this process remembers between two passes. Nothing depends on it after a restart.
#[derive(Default)]
pub(crate) struct Memory {
    /// Remediations whose label is not answered: if one is gone, it was aborted.
    unanswered: BTreeMap<Place, RemediationId>,
    /// What the API server has refused, and when.
    refused: BTreeMap<Place, (Instant, String)>,
    /// The clusters of which the Nodes with a label were read after the label was kept.
    listed: BTreeSet<(Key, String)>,
    templates: Templates,
    /// Ends that are not in a status yet.
    ended: BTreeMap<Key, Vec<AnsweredLabel>>,
}

/// Whether a change concerns the Nodes and remediations of triggers.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Object(kind, _) => matches!(
            kind,
            Kind::RemediationTrigger
                | Kind::PowerRemediation
                | Kind::Metal3Remediation
                | Kind::RemediationState
                | Kind::Machine
                | Kind::Cluster
        ),
        Change::Node(..) | Change::Workload(_) => true,
        Change::Agent(_) => false,
    }
}

/// Evaluates the triggers when something about them changes, and now and then, until `cancel`.
pub(crate) async fn run(
    triggers: Arc<Triggers>,
    inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
) {
    loop {
        let passed = cancel.run_until_cancelled(Box::pin(pass(&triggers)));
        let Some(until) = passed.await else { return };
        let due = until.map_or(INTERVAL, |until| {
            let left = until.duration_since(Timestamp::now());
            Duration::try_from(left).unwrap_or_default().min(INTERVAL)
        });
        if pause(&cancel, PACE).await {
            return;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            changes = inbox.take() => beside(changes.len(), || drop(changes)),
            () = tokio::time::sleep(due) => {}
        }
    }
}

/// One look at all triggers. Returns when something is due although nothing changes.
async fn pass(triggers: &Arc<Triggers>) -> Option<Timestamp> {
    let watched = triggers.watched();
    let local = watched.iter().any(|of| of.cluster == Key::local());
    triggers
        .index
        .watch_own_nodes(Kind::RemediationTrigger, local);
    triggers.read_labels(&watched).await;
    template::refresh(triggers, &watched).await;
    let views = beside_all(|| observe::all(triggers, &watched));
    let now = Timestamp::now();
    let mut due = None;
    let mut deeds = Vec::new();
    for view in &views {
        let decisions = view.decisions(PER_PASS, now);
        due = [due, next_time(&decisions)].into_iter().flatten().min();
        deeds.extend(view.deeds(&decisions));
        status::report(triggers, view, &decisions, now).await;
    }
    for orphan in observe::orphans(triggers, &watched) {
        deeds.extend(orphan);
    }
    triggers.metrics.show(&views);
    let carried_out = stream::iter(deeds).map(|deed| {
        let triggers = triggers.clone();
        async move {
            let what = deed.what();
            if let Err(error) = act::carry_out(&triggers, deed).await {
                tracing::warn!(what, %error, "a write of a RemediationTrigger failed; trying again");
            }
        }
    });
    carried_out
        .buffer_unordered(CONCURRENT)
        .collect::<Vec<()>>()
        .await;
    due
}

impl Triggers {
    /// The triggers that this controller works on.
    fn watched(&self) -> Vec<Watched> {
        let all = self.index.triggers().into_iter();
        all.filter_map(|(key, entry)| Watched::of(key, &entry, self.watch_filter.as_deref()))
            .collect()
    }

    /// Keeps the labels of the triggers in the index, and reads once the Nodes of workload clusters that have a label
    /// which was not kept before.
    async fn read_labels(&self, watched: &[Watched]) {
        let keys: BTreeSet<String> = watched.iter().map(|of| of.spec.label.clone()).collect();
        let wanted: BTreeSet<(Key, String)> = watched
            .iter()
            .map(|of| (of.cluster.clone(), of.spec.label.clone()))
            .collect();
        self.index.keep_labels(keys);
        self.memory.lock().listed.retain(|of| wanted.contains(of));
        for (cluster, key) in wanted {
            let place = (cluster, key);
            if self.memory.lock().listed.contains(&place) {
                continue;
            }
            let (cluster, key) = &place;
            // All labels of Nodes of the management cluster are kept.
            let is_read = *cluster == Key::local()
                || match self.list_labelled(cluster, key).await {
                    Ok(read) => read,
                    Err(error) => {
                        tracing::warn!(%cluster, label = key, %error, "Nodes with the label are not listed");
                        false
                    }
                };
            if is_read {
                self.memory.lock().listed.insert(place);
            }
        }
    }

    /// Lists the Nodes that have a label into the index. `false`: the cluster is not connected.
    async fn list_labelled(&self, cluster: &Key, key: &str) -> Result<bool, ApiError> {
        let Some(client) = self.workloads.client(cluster) else {
            return Ok(false);
        };
        let nodes: Api<SeenNode> = Api::all(client);
        let mut page = ListParams::default().labels(key).limit(LIST_PAGE);
        loop {
            let what = format!("Nodes of cluster {cluster} with label {key}");
            let listed = call(what, nodes.list(&page)).await?;
            for node in listed.items {
                self.index.apply_seen_node(cluster, node);
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(true),
            }
        }
    }

    /// The Nodes of a cluster; `None` while it is not connected.
    fn nodes(&self, cluster: &Key) -> Option<Api<Node>> {
        Some(Api::all(self.workloads.client(cluster)?))
    }

    /// Forgets what was refused some time ago, and returns why something was refused lately.
    fn refused(&self, place: &Place) -> Option<String> {
        let mut memory = self.memory.lock();
        memory
            .refused
            .retain(|_, (at, _)| at.elapsed() < REFUSED_FOR);
        memory.refused.get(place).map(|(_, why)| why.clone())
    }
}

impl TriggerView {
    /// What is to be written for these decisions.
    fn deeds<'a>(&'a self, decisions: &'a [Decision]) -> impl Iterator<Item = Deed> + 'a {
        let nodes = self.nodes.iter().zip(decisions);
        nodes.filter_map(|(node, decision)| Deed::of(self, node, decision))
    }
}

#[cfg(test)]
mod tests;
