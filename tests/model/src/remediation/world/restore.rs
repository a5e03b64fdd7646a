//! A backup of the etcd of the management cluster, and its restore.
//!
//! As docs/lifecycle.md says: the controllers are stopped before the restore, and what acts without Rackhand,
//! the hold key and the taint, is removed before they start again. The Node is as its kubelet reports it. A remediation
//! that ends without knowing of its hold at the agent leaves it to the controller's comparison of holds.

use std::time::Duration;

use rackhand_core::remediation::{LeftHoldAction, State, Taint, left_hold};

use crate::{
    copy_on_write::CopyOnWrite,
    remediation::{
        breakage::Breakage,
        observe::policy,
        world::{Object, UID, World, operation::is_for_left_hold},
    },
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
    if let Ok(earlier) = state.attempt.started.checked_sub(ATTEMPT_AGE) {
        state.attempt.started = earlier;
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

    /// Whether a remediation that was set back has ended without knowing of the hold that it had at the agent.
    /// The controller compares the holds of agents with the remediations that exist.
    pub(crate) fn has_left_hold(&self) -> bool {
        self.done.is_some() && self.backup == Backup::Restored && self.agent.holds()
    }

    fn left_hold(&self) -> LeftHoldAction {
        left_hold(UID, &[self.agent.history()], |_| self.outlets.is_some())
    }

    /// How often it was tried to switch on the outlets of such a hold.
    pub(crate) fn left_hold_tries(&self) -> u32 {
        let operations = self.agent.ledger.operations.keys();
        let tries = operations.filter(|id| is_for_left_hold(id)).count();
        u32::try_from(tries).unwrap_or(u32::MAX)
    }

    /// Whether the controller can do something about such a hold now.
    pub(crate) fn can_end_left_hold(&self) -> bool {
        self.claimed && self.has_left_hold() && self.left_hold() != LeftHoldAction::Wait
    }

    /// The controller does what there is to do about such a hold.
    pub(crate) fn ends_left_hold(&mut self, breakage: Option<Breakage>) {
        let sent = self.next_call();
        let action = match breakage {
            Some(Breakage::LeftOutletsForgotten) => LeftHoldAction::Release,
            _ => self.left_hold(),
        };
        match action {
            LeftHoldAction::Wait => {}
            LeftHoldAction::SwitchOutletsOn { id, .. } => {
                let limit = policy(self).power_on_timeout;
                self.agent.begin(sent, (&id, true), Duration::ZERO, limit);
            }
            LeftHoldAction::Release => {
                self.agent.release(sent);
                self.judge_left();
                self.judge_outlets_left();
            }
        }
    }
}
