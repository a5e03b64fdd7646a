//! What is written about a remediation: its state, its status, Events and metrics.
//!
//! Invariant: nothing here changes a host, a Node or a Machine.

pub(super) mod displayed_state;
pub(super) mod history;
mod outcome_metrics;
pub(super) mod remediation_state;
pub(super) mod report;
mod state_format;
pub(super) mod status;
mod store;

use std::sync::Arc;

use super::{RemediationMetrics, scope};
use crate::{
    history::{Histories, History},
    hosts::ActiveRemediations,
    shared_causes::SharedCauses,
    store::index::Index,
};
use displayed_state::RecordedStatus;
use outcome_metrics::OutcomeMetrics;
pub(crate) use store::RecordStore;

/// What the record of a remediation needs. It reaches neither agents nor workload clusters.
pub(crate) struct Context {
    pub(crate) records: Arc<RecordStore>,
    pub(crate) index: Arc<Index>,
    pub(crate) metrics: Arc<RemediationMetrics>,
    /// What people are shown of remediations.
    pub(crate) history: Arc<History>,
    pub(crate) histories: Arc<Histories>,
    pub(crate) causes: Arc<SharedCauses>,
    /// How many remediations have begun tells how long a copy may wait.
    pub(crate) active: Arc<ActiveRemediations>,
}

/// A remediation that is recorded.
pub(super) type Scope = scope::Scope<Context>;

/// Writes state, reason and outcome of one remediation, each once.
#[derive(Default)]
pub(super) struct StateRecorder {
    /// Reason and status in the object.
    pub(super) recorded: RecordedStatus,
    pub(super) outcome_metrics: OutcomeMetrics,
    /// A reason is not reported yet, because remediations are being created or deleted.
    pub(super) is_put_off: bool,
}
