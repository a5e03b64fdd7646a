//! The power button of a BMC that has no other command to switch its host on, or to shut it down.
//!
//! The effect of a press depends on the power state, which a BMC may report late: a press on a stale reading
//! undoes the previous press. So the first press requires a fresh reading, the second requires readings that have
//! been equal for longer than the BMC may be late, and there is no third.

use std::time::Duration;

use super::{OneTimeCommand, Operation, Phase};
use crate::{ErrorKind, PowerCommand, PowerState, operation::CallFailure};

/// Maximum number of presses of one operation.
const MOST: u32 = 2;

/// Presses of the power button by one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Button {
    /// Presses that were sent and may have had an effect.
    presses: u32,
}

impl Button {
    fn undo(&mut self) {
        self.presses = self.presses.saturating_sub(1);
    }
}

/// Whether the BMC answered in a way that may mean that it pressed nevertheless.
fn may_have_pressed(failed: &CallFailure) -> bool {
    failed.maybe_sent || matches!(failed.kind, ErrorKind::Refused | ErrorKind::Protocol)
}

impl Operation {
    /// The presses so far, the state that a press ends in this phase, and the command that sends it.
    fn press(&self) -> Option<(Button, PowerState, PowerCommand)> {
        let button = self.button?;
        match self.phase {
            Phase::On => Some((button, PowerState::Off, PowerCommand::OnByButton)),
            Phase::Soft => Some((button, PowerState::On, PowerCommand::SoftOffByButton)),
            Phase::Off | Phase::Hold(_) | Phase::OneTimeCommand(_) => None,
        }
    }

    /// The command, or the press of the button that replaces it, and the time at which it may be sent.
    pub(super) fn command_or_press(
        &self,
        state: PowerState,
        (due, command): (Duration, PowerCommand),
    ) -> Option<(Duration, PowerCommand)> {
        let Some((button, from, press)) = self.press() else {
            return Some((due, command));
        };
        let timing = &self.request.timing;
        let trusted = match button.presses {
            0 => timing.button_after,
            1..MOST => {
                let lag = timing.state_lag.saturating_add(Duration::from_millis(1));
                self.same_since.saturating_add(lag)
            }
            _ => return None,
        };
        (state == from).then_some((self.next_send.max(trusted), press))
    }

    /// Counts a press before it is sent.
    pub(super) fn count_press(&mut self) {
        if self.press().is_some()
            && let Some(button) = &mut self.button
        {
            button.presses += 1;
        }
    }

    /// Takes back a press that was not sent.
    pub(super) fn undo_press(&mut self) {
        if self.press().is_some()
            && let Some(button) = &mut self.button
        {
            button.undo();
        }
    }

    /// Takes back a press that was not sent, and switches to the button if the BMC offers nothing else. `true`:
    /// the failed call sent nothing, and the next command is a press.
    pub(super) fn turns_to_button(&mut self, now: Duration, failed: &CallFailure) -> bool {
        if self.press().is_some() && !may_have_pressed(failed) {
            self.undo_press();
        }
        let is_possible = matches!(self.phase, Phase::On | Phase::Soft) && self.button.is_none();
        if failed.kind != ErrorKind::ButtonOnly || failed.maybe_sent || !is_possible {
            return false;
        }
        self.button = Some(Button::default());
        self.sends = self.sends.saturating_sub(1);
        self.once = OneTimeCommand::NotSent;
        self.sent_at = None;
        self.next_read = now;
        true
    }
}
