//! One power operation, decided.
//!
//! Owns: what to ask of the BMC next, and when an operation is over and how. Must never: read a
//! clock (every `now` is the time since the operation began), do I/O, take anything but exactly
//! off for off (F1), or command a host whose last answer was not checked for identity (F5).

mod ending;

use std::time::Duration;

use rackhand_bmc::{ErrorKind, PowerState, SystemIdentity};

pub use ending::{Ending, Expected, Mismatch, state_word};

/// A power command. Both may be repeated: doing one twice is doing it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Hard power-off.
    Off,
    /// Power-on.
    On,
}

/// What the host shall be, and how sure we must be of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Hard off, read often enough.
    Off {
        /// How many readings of exactly off, one after the other, end the operation.
        confirmations: u32,
        /// At least this long from the end of one confirming reading to the begin of the next.
        confirm_interval: Duration,
        /// Only look until then: someone else was asked to switch off.
        command_after: Duration,
    },
    /// On, read once.
    On,
}

impl Goal {
    fn command(&self) -> Command {
        match self {
            Self::Off { .. } => Command::Off,
            Self::On => Command::On,
        }
    }

    fn state(&self) -> PowerState {
        match self {
            Self::Off { .. } => PowerState::Off,
            Self::On => PowerState::On,
        }
    }
}

/// How fast to go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pace {
    /// First wait between two readings; each further one is half as long again.
    pub poll_first: Duration,
    /// Longest wait between two readings. BMCs have been crashed by faster polling.
    pub poll_max: Duration,
    /// A command that was taken is repeated when the host still does not follow after this.
    pub resend_after: Duration,
    /// The same while the host says that it is on its way down.
    pub resend_settling: Duration,
    /// A command that failed is repeated after this, or later where the BMC says so.
    pub retry_after: Duration,
    /// Wait before a refused password is tried again: BMCs start up refusing everybody.
    pub auth_retry: Duration,
    /// How many refusals of the password end the operation. More would lock the account.
    pub auth_tries: u32,
    /// A command goes out only on a reading that is not older.
    pub fresh: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll_first: Duration::from_millis(150),
            poll_max: Duration::from_secs(2),
            resend_after: Duration::from_secs(10),
            resend_settling: Duration::from_secs(30),
            retry_after: Duration::from_secs(2),
            auth_retry: Duration::from_secs(5),
            auth_tries: 2,
            fresh: Duration::from_secs(1),
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// To become what.
    pub goal: Goal,
    /// The operation is over then, however it stands.
    pub deadline: Duration,
    /// Whom the BMC must manage.
    pub expected: Expected,
    /// How fast.
    pub pace: Pace,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// Read power and identity.
    Read,
    /// Send this command.
    Send(Command),
    /// Nothing until then.
    Wait(Duration),
    /// It is over.
    Done(Ending),
}

/// What matters of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The state.
    pub state: PowerState,
    /// Who it is.
    pub identity: SystemIdentity,
}

/// What matters of a failed call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failed {
    /// Its kind.
    pub kind: ErrorKind,
    /// The BMC asked for this much patience.
    pub retry_after: Option<Duration>,
}

/// A power operation between two events.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation {
    asked: Asked,
    cancelled: bool,
    ended: Option<Ending>,
    /// The last good reading, and when it was complete.
    seen: Option<(PowerState, Duration)>,
    /// Whether the last call was that reading.
    fresh: bool,
    /// Consecutive confirming readings: how many, and the end of the last that counted.
    confirmed: Option<(u32, Duration)>,
    next_read: Duration,
    poll: Duration,
    sends: u32,
    /// Not before this is the next command sent.
    next_send: Duration,
    sent_at: Option<Duration>,
    auth_failures: u32,
}

impl Operation {
    /// Nothing done yet.
    pub fn new(asked: Asked) -> Self {
        let poll = asked.pace.poll_first;
        Self {
            asked,
            cancelled: false,
            ended: None,
            seen: None,
            fresh: false,
            confirmed: None,
            next_read: Duration::ZERO,
            poll,
            sends: 0,
            next_send: Duration::ZERO,
            sent_at: None,
            auth_failures: 0,
        }
    }

    /// Commands sent so far.
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// Confirming readings so far, one after the other.
    pub fn confirmations(&self) -> u32 {
        self.confirmed.map_or(0, |(count, _)| count)
    }

    /// When it is over at the latest.
    pub fn deadline(&self) -> Duration {
        self.asked.deadline
    }

    /// What to do at `now`.
    pub fn next(&self, now: Duration) -> Next {
        if let Some(ending) = &self.ended {
            return Next::Done(ending.clone());
        }
        if self.cancelled {
            return Next::Done(Ending::Cancelled);
        }
        if now >= self.asked.deadline {
            return Next::Done(Ending::Unconfirmed {
                wanted: self.asked.goal.state(),
                last: self.seen.map(|(state, _)| state),
                after: self.asked.deadline,
            });
        }
        let read_at = self.read_at();
        if let Some(send_at) = self.send_at() {
            if now >= send_at {
                return if self.is_fresh(now) {
                    Next::Send(self.asked.goal.command())
                } else {
                    Next::Read
                };
            }
            if now < read_at {
                return Next::Wait(read_at.min(send_at).min(self.asked.deadline));
            }
        }
        if now >= read_at {
            Next::Read
        } else {
            Next::Wait(read_at.min(self.asked.deadline))
        }
    }

    /// A reading was begun at `begun` and is complete at `now`.
    pub fn read(&mut self, begun: Duration, now: Duration, result: Result<Seen, Failed>) {
        if self.ended.is_some() {
            return;
        }
        let seen = match result {
            Ok(seen) => seen,
            Err(failed) => return self.read_failed(now, &failed),
        };
        self.auth_failures = 0;
        if let Some(mismatch) = self.asked.expected.mismatch(&seen.identity) {
            self.fresh = false;
            self.confirmed = None;
            self.ended = Some(Ending::IdentityMismatch(mismatch));
            return;
        }
        if self.seen.is_none_or(|(before, _)| before != seen.state) {
            self.poll = self.asked.pace.poll_first;
        }
        self.seen = Some((seen.state, now));
        self.fresh = true;
        self.next_read = now + self.poll;
        self.poll = slower(self.poll, self.asked.pace.poll_max);
        // A reading that came in after the deadline proves nothing to a caller that has gone.
        if now <= self.asked.deadline && !self.cancelled {
            self.count(begun, now, seen.state);
        }
    }

    /// The caller is about to send; to be told before the first byte leaves.
    pub fn sending(&mut self, now: Duration) {
        self.sends += 1;
        self.fresh = false;
        self.confirmed = None;
        self.sent_at = Some(now);
    }

    /// The command was answered, or not.
    pub fn sent(&mut self, now: Duration, result: Result<(), Failed>) {
        if self.ended.is_some() {
            return;
        }
        let pace = &self.asked.pace;
        self.poll = pace.poll_first;
        self.next_read = now + pace.poll_first;
        match result {
            Ok(()) => self.next_send = now + pace.resend_after,
            Err(failed) => {
                let wait = pace.retry_after.max(failed.retry_after.unwrap_or_default());
                self.next_send = now + wait;
                if failed.retry_after.is_some() {
                    self.next_read = now + wait;
                }
                self.permanent(now, &failed);
            }
        }
    }

    /// Stops before the next command.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    fn count(&mut self, begun: Duration, now: Duration, state: PowerState) {
        let (needed, interval) = match self.asked.goal {
            Goal::Off {
                confirmations,
                confirm_interval,
                ..
            } => (confirmations.max(1), confirm_interval),
            Goal::On => (1, Duration::ZERO),
        };
        if state != self.asked.goal.state() {
            self.confirmed = None;
            return;
        }
        let (count, last) = match self.confirmed {
            None => (1, now),
            Some((count, last)) if begun >= last + interval => (count + 1, now),
            Some(too_soon) => too_soon,
        };
        self.confirmed = Some((count, last));
        self.next_read = last + interval;
        if count >= needed {
            self.ended = Some(Ending::Confirmed {
                state,
                commanded: self.sends > 0,
            });
        }
    }

    fn read_failed(&mut self, now: Duration, failed: &Failed) {
        self.fresh = false;
        self.confirmed = None;
        let wait = self.poll.max(failed.retry_after.unwrap_or_default());
        self.next_read = now + wait;
        self.poll = slower(self.poll, self.asked.pace.poll_max);
        self.permanent(now, failed);
    }

    /// Ends the operation where trying again could only do harm or nothing.
    fn permanent(&mut self, now: Duration, failed: &Failed) {
        let pace = &self.asked.pace;
        let over = match failed.kind {
            ErrorKind::Authentication => {
                self.auth_failures += 1;
                self.next_read = self.next_read.max(now + pace.auth_retry);
                self.next_send = self.next_send.max(now + pace.auth_retry);
                self.auth_failures >= pace.auth_tries
            }
            // A BMC that has shown the system loses it for a while when it restarts.
            ErrorKind::System => self.seen.is_none(),
            kind => !kind.is_transient(),
        };
        if over {
            self.ended = Some(Ending::Failed(failed.kind));
        }
    }

    fn read_at(&self) -> Duration {
        let grace_end = match self.asked.goal {
            Goal::Off { command_after, .. } if self.sends == 0 => Some(command_after),
            _ => None,
        };
        // Look exactly when the grace ends, so that nothing is lost by it.
        let looked = self.seen.map(|(_, at)| at);
        match grace_end {
            Some(end) if looked.is_some_and(|at| at < end) => self.next_read.min(end),
            _ => self.next_read,
        }
    }

    /// When a command is due, going by the last reading; `None` where the reading asks for none.
    fn send_at(&self) -> Option<Duration> {
        if !self.fresh {
            return None;
        }
        let (state, _) = self.seen?;
        let pace = &self.asked.pace;
        let settling = match self.sent_at {
            Some(at) => at + pace.resend_settling,
            None => Duration::ZERO,
        };
        let due = match (&self.asked.goal, state) {
            (Goal::Off { .. }, PowerState::Off) | (Goal::On, PowerState::On) => return None,
            (Goal::Off { .. }, PowerState::PoweringOff)
            | (Goal::On, PowerState::PoweringOn | PowerState::PoweringOff)
                if self.sends > 0 =>
            {
                self.next_send.max(settling)
            }
            (Goal::On, PowerState::PoweringOn) => pace.resend_settling,
            _ => self.next_send,
        };
        match self.asked.goal {
            Goal::Off { command_after, .. } => Some(due.max(command_after)),
            Goal::On => Some(due),
        }
    }

    fn is_fresh(&self, now: Duration) -> bool {
        self.fresh
            && self
                .seen
                .is_some_and(|(_, at)| now <= at + self.asked.pace.fresh)
    }
}

fn slower(poll: Duration, max: Duration) -> Duration {
    (poll + poll / 2).min(max)
}

#[cfg(test)]
mod tests;
