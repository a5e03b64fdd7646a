//! Runs remediations, one task per object: observe, decide in the core, carry out.

mod act;
mod engine;
#[cfg(test)]
mod fixture;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod live_facts;
mod metrics;
mod observe;
mod orphaned_holds;
mod policy;
mod record;
mod scope;
mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::Client;
use parking_lot::Mutex;
use rackhand_core::remediation::{LeaseMemory, LeaseRenewals};
use tokio_util::sync::CancellationToken;

pub(crate) use live_facts::LiveFacts;
pub(crate) use metrics::RemediationMetrics;
pub(crate) use observe::power_policy::attempts_of;

use crate::{
    agents::Agents,
    clusters::{NodeComparisons, Workloads},
    config::Config,
    history::Histories,
    hosts::ActiveRemediations,
    leader::{events::Events, writer::Writer},
    store::{
        index::{ChangeQueue, Index},
        object::{Key, Served},
        request::RequestId,
    },
};

/// Dependencies of every remediation.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<RemediationMetrics>,
    pub(crate) config: Config,
    /// The identity of this process in the leader Lease, which no other process has.
    pub(crate) identity: String,
    /// For the concurrency check (F6).
    pub(crate) active: Arc<ActiveRemediations>,
    /// Remediations that are not in `active`, because this process has not evaluated them yet, or they are of
    /// another shard. Locked after `active`.
    pub(crate) unevaluated: Mutex<BTreeSet<RequestId>>,
    /// The inputs of the last decision of each remediation.
    pub(crate) live: Arc<LiveFacts>,
    /// What each did is written into the history of its host.
    pub(crate) histories: Arc<Histories>,
    /// Compares the Nodes of clusters with live lists.
    pub(crate) comparisons: NodeComparisons,
    /// The Leases of other Nodes that may run on hosts, by cluster.
    pub(crate) renewals: Mutex<BTreeMap<Key, Arc<Mutex<LeaseRenewals>>>>,
    /// Since when the Lease of each Node has been observed unchanged, by cluster.
    pub(crate) leases: Mutex<BTreeMap<Key, Arc<Mutex<LeaseMemory>>>>,
}

impl Context {
    pub(crate) fn lease_renewals(&self, cluster: &Key) -> Arc<Mutex<LeaseRenewals>> {
        self.renewals
            .lock()
            .entry(cluster.clone())
            .or_default()
            .clone()
    }

    pub(crate) fn lease_memory(&self, cluster: &Key) -> Arc<Mutex<LeaseMemory>> {
        self.leases
            .lock()
            .entry(cluster.clone())
            .or_default()
            .clone()
    }
}

/// Runs every remediation, releases holds that earlier ones left at agents, keeps the status of power
/// policies, and writes the histories of hosts, until `cancel`. `of_causes` receives the changes that concern
/// shared causes.
pub(crate) async fn run(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    of_causes: Arc<ChangeQueue>,
    listed: CancellationToken,
    cancel: CancellationToken,
) {
    tokio::join!(
        tasks::run(context.clone(), inbox, of_causes, listed, cancel.clone()),
        orphaned_holds::run(context.clone(), cancel.clone()),
        record::remediation_state::delete_unneeded(context.clone(), cancel.clone()),
        observe::power_policy::status::run(context, cancel),
    );
}
