//! Runs remediations, one task per object: observe, decide in the core, carry out.

pub(crate) mod act;
mod context;
mod endpoint;
mod engine;
#[cfg(test)]
mod fixture;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod live_facts;
mod metrics;
pub(crate) mod observe;
mod policy;
pub(crate) mod record;
mod scope;
mod tasks;

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub(crate) use context::Dependencies;
pub(crate) use endpoint::Endpoints;
pub(crate) use live_facts::LiveFacts;
pub(crate) use metrics::RemediationMetrics;
pub(crate) use observe::power_policy::attempts_of;
pub(crate) use record::remediation_state::recorded_state;
pub(crate) use scope::Reporter;
pub(crate) use tasks::claim::Claims;

use crate::{
    hosts::ActiveRemediations,
    leader::events::Events,
    store::index::{ChangeQueue, Index},
};

/// What the tasks of remediations and their loops need, and the parts that the loops join.
pub(crate) struct Context {
    pub(crate) observe: Arc<observe::Context>,
    pub(crate) act: Arc<act::Context>,
    pub(crate) record: Arc<record::Context>,
    pub(crate) claims: Claims,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) index: Arc<Index>,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<RemediationMetrics>,
    pub(crate) active: Arc<ActiveRemediations>,
    pub(crate) unevaluated: Arc<observe::Unevaluated>,
    /// UIDs of remediations that are gone and had begun nothing, while their records are deleted: that lets nobody begin.
    pub(crate) unbegun: Mutex<BTreeSet<String>>,
    /// The inputs of the last decision of each remediation.
    pub(crate) live: Arc<LiveFacts>,
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
    let (records, namespace) = (
        context.claims.records.clone(),
        context.claims.namespace.clone(),
    );
    tokio::join!(
        tasks::run(context, inbox, of_causes, listed, cancel.clone()),
        records.sweep(namespace.as_deref(), &cancel),
    );
}
