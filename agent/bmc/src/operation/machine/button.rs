//! The power button of a BMC that has no other command to switch its host on, or to shut it down.
//!
//! The effect of a press depends on the power state, which a BMC may report late: a press on a stale reading
//! undoes the previous press. So the first press requires a fresh reading, the second requires readings that have
//! been equal for longer than the BMC may be late, and there is no third.

use std::time::Duration;

use super::Phase;
use crate::{
    ErrorKind, PowerCommand, PowerState,
    operation::{CallFailure, Timing},
};

/// Maximum number of presses of one operation.
const MOST: u32 = 2;

/// The power button of the host, as one operation uses it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Button {
    /// Whether the operation knows that the BMC offers nothing else.
    is_needed: bool,
    /// Presses that were sent and may have had an effect.
    presses: u32,
}

/// A press that replaces the command of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Press {
    /// The power state that it ends.
    pub(super) from: PowerState,
    pub(super) command: PowerCommand,
}

impl Press {
    fn of(phase: Phase) -> Option<Self> {
        let (from, command) = match phase {
            Phase::On => (PowerState::Off, PowerCommand::OnByButton),
            Phase::Soft => (PowerState::On, PowerCommand::SoftOffByButton),
            Phase::Off | Phase::StayOff(_) | Phase::OneTimeCommand(_) => return None,
        };
        Some(Self { from, command })
    }
}

impl Button {
    /// The press that replaces the command of this phase; `None`: the command itself is sent.
    pub(super) fn press(self, phase: Phase) -> Option<Press> {
        Press::of(phase).filter(|_| self.is_needed)
    }

    /// Time from which the reported state can be trusted for the next press, if the readings have been equal since
    /// `same_since`; `None`: there is no further press.
    pub(super) fn trusted_at(self, timing: &Timing, same_since: Duration) -> Option<Duration> {
        match self.presses {
            0 => Some(timing.button_after),
            1..MOST => {
                let lag = timing.state_lag.saturating_add(Duration::from_millis(1));
                Some(same_since.saturating_add(lag))
            }
            _ => None,
        }
    }

    /// Counts a press before it is sent.
    pub(super) fn count(&mut self, phase: Phase) {
        if self.press(phase).is_some() {
            self.presses += 1;
        }
    }

    /// Takes back a press that was not sent.
    pub(super) fn undo(&mut self, phase: Phase) {
        if self.press(phase).is_some() {
            self.presses = self.presses.saturating_sub(1);
        }
    }

    /// Takes back a press that the failed call did not send. `true`: the call has shown that the BMC needs the
    /// button; it sent nothing, and the next command is a press.
    pub(super) fn becomes_needed(&mut self, phase: Phase, failed: &CallFailure) -> bool {
        if !may_have_pressed(failed) {
            self.undo(phase);
        }
        let is_possible = Press::of(phase).is_some() && !self.is_needed;
        if failed.kind != ErrorKind::ButtonOnly || failed.maybe_sent || !is_possible {
            return false;
        }
        self.is_needed = true;
        true
    }
}

/// Whether the BMC answered in a way that may mean that it pressed nevertheless.
fn may_have_pressed(failed: &CallFailure) -> bool {
    failed.maybe_sent || matches!(failed.kind, ErrorKind::Refused | ErrorKind::Protocol)
}
