//! The power button of a BMC that has no other command to switch its host on, or to shut it down.
//!
//! What a press does depends on the power state, and a BMC may report that late: a press on a stale
//! reading undoes the one before. So the first is sent on a fresh reading, the second only once the
//! readings have been the same for longer than the BMC may be late, and there is no third.

use std::time::Duration;

use super::{OneTimeCommand, Operation, Phase};
use crate::{ErrorKind, PowerCommand, PowerState, operation::CallFailure};

/// Maximum number of presses of one operation.
const MOST: u32 = 2;

/// Presses of the power button by one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Button {
    /// Those that were sent, and may have had an effect.
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
    /// The command that the button stands for in this phase, and the state that a press of it ends.
    fn press(&self) -> Option<(Button, PowerState, PowerCommand)> {
        let button = self.button?;
        match self.phase {
            Phase::On => Some((button, PowerState::Off, PowerCommand::OnByButton)),
            Phase::Soft => Some((button, PowerState::On, PowerCommand::SoftOffByButton)),
            Phase::Off | Phase::Hold(_) | Phase::OneTimeCommand(_) => None,
        }
    }

    /// `command`, or the press of the button instead of it, and when it may be sent.
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

    /// Handles the failure of a command, as far as it is about the button. Returns whether that was all:
    /// nothing was sent, and the next command is a press.
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
