//! One remediation: the services of the part that works on it, and what is known of it.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::remediation::{Note, Shell, is_event};
use serde_json::Value;

use super::{
    RemediationMetrics, endpoint::KeptEndpoint, observe::snapshot::Snapshot,
    record::remediation_state::Record, tasks::wakeup::WatchInterest,
};
use crate::{
    leader::events::Events,
    store::{index::Index, object::Key, remediation::RemediationId},
};

/// Sends Events about remediations.
pub(crate) struct Reporter {
    pub(crate) index: Arc<Index>,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<RemediationMetrics>,
}

/// A remediation, and the services `C` of the part that works on it. Each part can report to people.
pub(super) struct Scope<C> {
    pub(super) context: Arc<C>,
    pub(super) id: RemediationId,
    pub(super) uid: String,
    pub(super) interest: Arc<Mutex<WatchInterest>>,
    reporter: Arc<Reporter>,
}

impl<C> Scope<C> {
    pub(super) fn new(
        context: Arc<C>,
        (id, uid): (RemediationId, String),
        interest: Arc<Mutex<WatchInterest>>,
        reporter: Arc<Reporter>,
    ) -> Self {
        Self {
            context,
            id,
            uid,
            interest,
            reporter,
        }
    }

    /// The same remediation for another part.
    pub(super) fn with<D>(&self, context: Arc<D>) -> Scope<D> {
        Scope {
            context,
            id: self.id.clone(),
            uid: self.uid.clone(),
            interest: self.interest.clone(),
            reporter: self.reporter.clone(),
        }
    }

    /// Reports to the log, to the metrics, and as an Event.
    pub(super) fn emit_event(&self, warning: bool, reason: &'static str, message: &str) {
        self.log_progress(reason, message);
        let Reporter { index, events, .. } = &*self.reporter;
        if let Some(entry) = index.remediation(&self.id) {
            events.send(&entry.object, warning, reason, message);
        }
    }

    /// Reports to the log and to the metrics what has an Event before or after it.
    pub(super) fn log_progress(&self, reason: &'static str, message: &str) {
        tracing::info!(remediation = %self.id, reason, "{message}");
        self.reporter.metrics.count_event(reason);
    }

    /// Reports what was decided, as an Event where people look for one. `took`: what is added to its message.
    pub(super) fn tell(&self, note: &Note, took: &str) {
        let message = format!("{}{took}", note.message);
        match is_event(note) {
            true => self.emit_event(note.warning, note.reason, &message),
            false => self.log_progress(note.reason, &message),
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
    /// The copy of the end that is written with the removal of our finalizer.
    pub(super) copy_for_the_end: Option<Value>,
    /// Address and credentials of the BMC as read last.
    pub(super) endpoint: Option<KeptEndpoint>,
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
            copy_for_the_end: None,
            endpoint: None,
        }
    }

    /// When the object was created.
    pub(super) fn created(&self) -> Option<Timestamp> {
        let entry = self.snapshot.object.as_ref()?;
        Some(entry.object.metadata.creation_timestamp.as_ref()?.0)
    }
}
