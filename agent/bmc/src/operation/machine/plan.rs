//! Due times of the next reading and the next command.

use std::time::Duration;

use super::{OneTimeCommand, Operation, Phase};
use crate::{PowerCommand, PowerState, operation::Goal};

impl Operation {
    /// End of the time limit for a shutdown. While off is being confirmed, the limit does not
    /// apply.
    pub(super) fn limit_at(&self) -> Option<Duration> {
        let (Phase::Soft, Goal::SoftOff { limit, .. }) = (self.phase, &self.request.goal) else {
            return None;
        };
        let since = self.patient_since?;
        self.confirmed
            .is_none()
            .then(|| since.saturating_add(*limit))
    }

    /// Whether a reading is still due exactly at the end of the time limit.
    pub(super) fn looks_at_limit(&self) -> bool {
        self.fresh && self.limit_at().is_some_and(|limit| self.looked < limit)
    }

    fn grace_end(&self) -> Option<Duration> {
        match self.request.goal {
            Goal::Off { command_after, .. } if !self.off_taken => Some(command_after),
            _ => None,
        }
    }

    pub(super) fn read_at(&self) -> Duration {
        if let Phase::StayOff(until) = self.phase {
            return until;
        }
        if self.looks_at_limit()
            && let Some(limit) = self.limit_at()
        {
            return self.next_read.min(limit);
        }
        // Read once exactly at the end of the grace period, so that no time is lost.
        let looked = self.seen.map(|(_, at)| at.max(self.looked));
        match self.grace_end() {
            Some(end) if looked.is_some_and(|at| at < end) => self.next_read.min(end),
            _ => self.next_read,
        }
    }

    /// The next command and its due time, according to the last reading; `None`: no command is
    /// needed.
    pub(super) fn send_at(&self) -> Option<(Duration, PowerCommand)> {
        if !self.fresh || self.refused.is_some() {
            return None;
        }
        let (state, _) = self.seen?;
        match self.phase {
            Phase::StayOff(_) => None,
            // A second press of the button could cancel the first, or force the host off.
            Phase::Soft | Phase::OneTimeCommand(_) if self.once != OneTimeCommand::NotSent => None,
            // A press of the button switches on a host that is off, and forces off one that is
            // starting.
            Phase::Soft if state == PowerState::On => {
                self.command_or_press(state, (self.next_send, PowerCommand::SoftOff))
            }
            Phase::Soft => None,
            Phase::OneTimeCommand(command) => {
                matches!(state, PowerState::On | PowerState::PoweringOn)
                    .then_some((self.next_send, command))
            }
            Phase::Off => {
                // Some BMCs report off for a running host after a reset of their own.
                if state == PowerState::Off {
                    return (!self.off_taken).then_some((self.next_send, PowerCommand::Off));
                }
                let due = self.repeat_at(state, PowerState::Off)?;
                let due = due.max(self.grace_end().unwrap_or_default());
                Some((due, PowerCommand::Off))
            }
            Phase::On => {
                let due = self.repeat_at(state, PowerState::On)?;
                self.command_or_press(state, (due, PowerCommand::On))
            }
        }
    }

    /// The command, or the press of the button that replaces it, and the time at which it may be sent.
    fn command_or_press(
        &self,
        state: PowerState,
        (due, command): (Duration, PowerCommand),
    ) -> Option<(Duration, PowerCommand)> {
        let Some(press) = self.button.press(self.phase) else {
            return Some((due, command));
        };
        let trusted = self
            .button
            .trusted_at(&self.request.timing, self.same_since)?;
        (state == press.from).then_some((self.next_send.max(trusted), press.command))
    }

    /// Due time of a command that may be repeated in this state.
    fn repeat_at(&self, state: PowerState, wanted: PowerState) -> Option<Duration> {
        let settling = self.request.timing.resend_settling;
        match (wanted, state) {
            (wanted, state) if wanted == state => None,
            (PowerState::Off, PowerState::PoweringOff)
            | (PowerState::On, PowerState::PoweringOn | PowerState::PoweringOff)
                if let Some(at) = self.sent_at =>
            {
                Some(self.next_send.max(at.saturating_add(settling)))
            }
            (PowerState::On, PowerState::PoweringOn) => Some(settling),
            _ => Some(self.next_send),
        }
    }

    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        self.fresh
            && self.seen.is_some_and(|(_, at)| {
                let fresh = self.request.timing.fresh;
                now <= self.update_check.ages_from(at, fresh).saturating_add(fresh)
            })
    }
}
