//! A backup of the etcd of the management cluster, and its restore.
//!
//! As docs/lifecycle.md says: the controllers are stopped before the restore, and what acts without Rackhand,
//! the hold key and the taint, is removed before they start again. The Node is as its kubelet reports it.

use std::time::Duration;

use rackhand_core::remediation::{State, Taint};

use crate::{
    copy_on_write::CopyOnWrite,
    world::{Object, World},
};

/// What can be restored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Backup {
    /// No backup is made in this world.
    #[default]
    Never,
    /// None was made so far.
    Due,
    /// The remediation object as it was.
    Made(CopyOnWrite<Object>),
    /// It was restored.
    Restored,
}

/// The start of an attempt is the present in every state, so that attempts of different runs are alike. A
/// restore makes it a time that has passed: what begins anew after it is another attempt.
const ATTEMPT_AGE: Duration = Duration::from_secs(1);

fn age_attempt(state: &mut State) {
    if let Ok(earlier) = state.attempt_started.checked_sub(ATTEMPT_AGE) {
        state.attempt_started = earlier;
    }
}

impl World {
    /// Whether a backup shows more than those before it would.
    pub(crate) fn can_back_up(&self) -> bool {
        self.backup == Backup::Due && self.budget > 0 && self.done.is_none()
    }

    /// A backup is made.
    pub(crate) fn back_up(&mut self) {
        self.backup = Backup::Made(self.object.clone());
    }

    /// Whether the object is not as it was at the time of the backup. A restore takes longer than an
    /// operation, which has a deadline.
    pub(crate) fn can_restore(&self) -> bool {
        self.agent.runs.is_empty()
            && matches!(&self.backup, Backup::Made(object) if self.done.is_some() || *object != self.object)
    }

    /// The backup is restored, and another process leads.
    pub(crate) fn restore(&mut self) {
        let Backup::Made(object) = std::mem::replace(&mut self.backup, Backup::Restored) else {
            return;
        };
        self.object = object;
        if let Some(state) = &mut self.object.state {
            age_attempt(state);
        }
        self.agent.age_attempts(ATTEMPT_AGE);
        self.late = None;
        self.done = None;
        self.hold = self.hold.map(|_| false);
        if self.node.taint == Taint::Ours {
            self.node.taint = Taint::Absent;
        }
        self.new_leader();
    }
}
