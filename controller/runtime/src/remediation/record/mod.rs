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

use displayed_state::RecordedStatus;
use outcome_metrics::OutcomeMetrics;

/// Writes state, reason and outcome of one remediation, each once.
#[derive(Default)]
pub(super) struct StateRecorder {
    /// Reason and status in the object.
    pub(super) recorded: RecordedStatus,
    pub(super) outcome_metrics: OutcomeMetrics,
}
