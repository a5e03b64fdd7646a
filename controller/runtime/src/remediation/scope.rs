//! One remediation: the services that its parts use, and what is known of it.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::remediation::Shell;

use super::{
    Context, observe::snapshot::Snapshot, record::remediation_state::Record,
    tasks::wakeup::WatchInterest,
};
use crate::store::{object::Key, remediation::RemediationId};

/// The remediation, and the services that its parts use.
pub(super) struct Scope {
    pub(super) context: Arc<Context>,
    pub(super) id: RemediationId,
    pub(super) uid: String,
    pub(super) interest: Arc<Mutex<WatchInterest>>,
}

impl Scope {
    pub(super) fn emit_event(&self, warning: bool, reason: &'static str, message: &str) {
        tracing::info!(remediation = %self.id, reason, "{message}");
        self.context.metrics.count_event(reason);
        if let Some(entry) = self.context.index.request(&self.id) {
            self.context
                .events
                .send(&entry.object, warning, reason, message);
        }
    }
}

/// What was decided, what was observed last, and what is recorded.
pub(super) struct Memory {
    /// What is remembered between observations.
    pub(super) shell: Shell,
    /// The objects that the current decision is based on.
    pub(super) snapshot: Snapshot,
    /// The RemediationState.
    pub(super) record: Record,
    /// The Machine, Node and hold key as last observed, for the status and the escalation.
    pub(super) machine: Option<Key>,
    pub(super) node: Option<String>,
    pub(super) held: bool,
}

impl Memory {
    pub(super) fn new(uid: String) -> Self {
        Self {
            shell: Shell::new(uid),
            snapshot: Snapshot::default(),
            record: Record::default(),
            machine: None,
            node: None,
            held: false,
        }
    }

    /// When the object was created.
    pub(super) fn created(&self) -> Option<Timestamp> {
        let entry = self.snapshot.request.as_ref()?;
        Some(entry.object.metadata.creation_timestamp.as_ref()?.0)
    }
}
