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
mod policy;
mod record;
mod scope;
mod tasks;

use std::{collections::BTreeSet, sync::Arc};

use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub(crate) use live_facts::LiveFacts;
pub(crate) use metrics::RemediationMetrics;
pub(crate) use observe::power_policy::attempts_of;
pub(crate) use record::remediation_state::recorded_state;

use crate::{
    agents::{AgentCommands, AgentConnections, AgentHolds, AgentQueries},
    clusters::{LeaseObservations, NodeComparisons, Workloads},
    config::Config,
    history::Histories,
    hosts::ActiveRemediations,
    leader::{events::Events, writer::Writer},
    store::{
        index::{ChangeQueue, Index},
        object::Served,
        remediation::RemediationId,
    },
};

/// Dependencies of every remediation.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) queries: AgentQueries,
    pub(crate) commands: AgentCommands,
    pub(crate) holds: AgentHolds,
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
    pub(crate) unevaluated: Mutex<BTreeSet<RemediationId>>,
    /// The inputs of the last decision of each remediation.
    pub(crate) live: Arc<LiveFacts>,
    /// What each did is written into the history of its host.
    pub(crate) histories: Arc<Histories>,
    /// Compares the Nodes of clusters with live lists.
    pub(crate) comparisons: NodeComparisons,
    /// What was observed of the Leases of Nodes.
    pub(crate) leases: LeaseObservations,
}

/// Runs every remediation, and deletes the records of deleted ones, until `cancel`. `of_causes` receives
/// the changes that concern shared causes; `listed` is cancelled once the remediations were listed.
pub(crate) async fn run(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    of_causes: Arc<ChangeQueue>,
    listed: CancellationToken,
    cancel: CancellationToken,
) {
    tokio::join!(
        tasks::run(context.clone(), inbox, of_causes, listed, cancel.clone()),
        record::remediation_state::delete_unneeded(context, cancel),
    );
}
