//! The state machine of one operation.

mod abandonment;
mod button;
mod corroboration;
mod off_refusals;
mod plan;
mod systems;
mod update_check;
mod verdict;

use std::time::Duration;

use super::system::Sameness;
use super::{
    CallFailure, Expected, Goal, Next, Observation, OffProof, OperationRequest, Outcome, Past,
    Watch, proof,
};
use crate::{Accepted, ErrorKind, PowerCommand, PowerSource, PowerState, SystemIdentity};
use button::Button;
use corroboration::Corroboration;
use off_refusals::OffRefusals;
use systems::Systems;
use update_check::UpdateCheck;

pub use update_check::{MOST_LATE, TOO_SLOW, UPDATES_COUNT_FOR, longer_limit, updates_limit};

/// The current part of the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// The host is requested to shut down, or is shutting down.
    Soft,
    /// Hard off, until it is confirmed.
    Off,
    /// Confirmed off, and left off until this time.
    StayOff(Duration),
    /// On, until a reading confirms it.
    On,
    /// A non-idempotent command without a power state of its own.
    OneTimeCommand(PowerCommand),
}

/// State of the one non-idempotent command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OneTimeCommand {
    NotSent,
    /// Sent, but unanswered: it may have arrived.
    Unanswered,
    Taken,
    /// Rejected, or not sent.
    NotTaken,
}

/// Contribution of a reading to the confirmation of the wanted state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// None: the state is not confirmed after it.
    None,
    /// The first confirming reading; earlier ones no longer count.
    First,
    /// A further confirming reading.
    Further,
    /// Too early after the last one to count; earlier ones still count.
    TooSoon,
}

/// State of a power operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation {
    request: OperationRequest,
    phase: Phase,
    cancelled: bool,
    /// Whether the caller is gone (F17).
    abandoned: bool,
    /// Whether a cycle ends early, before off was confirmed: its caller is gone, or an update of firmware runs.
    is_cut_short: bool,
    /// Time until which a power-off that was sent may still take effect. An earlier reading of on confirms
    /// nothing, unless off was read since the power-off.
    late_off: Option<Duration>,
    ended: Option<Outcome>,
    /// Why it ends after one more reading: a command that arrived was refused for good, and may have been carried out.
    refused: Option<ErrorKind>,
    /// The last successful reading, and when it was complete.
    seen: Option<(PowerState, Duration)>,
    /// Whether that reading was the last call.
    fresh: bool,
    /// Start of the last reading, successful or not.
    looked: Duration,
    /// Consecutive confirming readings: number, end of the last that counted, and source.
    confirmed: Option<(u32, Duration, PowerSource)>,
    next_read: Duration,
    poll: Duration,
    sends: u32,
    once: OneTimeCommand,
    /// Start of the host's time limit to shut down.
    patient_since: Option<Duration>,
    /// Whether a cycle found the host on.
    was_on: bool,
    /// Whether the BMC has taken a power-off of this operation, hard or soft, or refused it as already off.
    off_taken: bool,
    /// The observation of the BMC, which can prove that it knows the state.
    watch: Watch,
    /// The system of the observation from before the operation, until the first reading.
    past: Option<(PowerSource, SystemIdentity)>,
    /// The system that Redfish readings named before the operation.
    remembered: Option<Box<SystemIdentity>>,
    /// The systems that were read.
    systems: Systems,
    corroboration: Corroboration,
    off_refusals: OffRefusals,
    update_check: UpdateCheck,
    /// The next command is not sent before this time.
    next_send: Duration,
    /// Time of the last command of this phase.
    sent_at: Option<Duration>,
    button: Button,
    /// Start of the latest sequence of equal readings, without a failed reading or a command in between.
    same_since: Duration,
    auth_failures: u32,
}

impl Operation {
    /// Creates an operation that has done nothing yet.
    pub fn new(request: OperationRequest) -> Self {
        let poll = request.timing.poll_first;
        let phase = match request.goal {
            Goal::Off { .. } | Goal::Cycle { .. } => Phase::Off,
            Goal::On => Phase::On,
            Goal::SoftOff { .. } => Phase::Soft,
            Goal::Reset => Phase::OneTimeCommand(PowerCommand::Reset),
            Goal::Nmi => Phase::OneTimeCommand(PowerCommand::Nmi),
        };
        let late_off = request.timing.late_off_until;
        Self {
            request,
            phase,
            cancelled: false,
            abandoned: false,
            is_cut_short: false,
            late_off: (!late_off.is_zero()).then_some(late_off),
            ended: None,
            refused: None,
            seen: None,
            fresh: false,
            looked: Duration::ZERO,
            confirmed: None,
            next_read: Duration::ZERO,
            poll,
            sends: 0,
            once: OneTimeCommand::NotSent,
            patient_since: None,
            was_on: false,
            off_taken: false,
            watch: Watch::default(),
            past: None,
            remembered: None,
            systems: Systems::default(),
            corroboration: Corroboration::default(),
            off_refusals: OffRefusals::default(),
            update_check: UpdateCheck::default(),
            next_send: Duration::ZERO,
            // A host that is still powering off is not switched on before it is off.
            sent_at: (!late_off.is_zero()).then_some(Duration::ZERO),
            button: Button::default(),
            same_since: Duration::ZERO,
            auth_failures: 0,
        }
    }

    /// Continues an observation of this BMC that began before the operation, by the clock of the operation. Another
    /// system than it has shown ends the operation, unless it is the expected one.
    pub fn watched(&mut self, past: Past) {
        self.watch = past.watch;
        self.past = past.system;
        self.remembered = past.remembered;
    }

    /// Identity that the system must have.
    pub fn expected(&self) -> Expected {
        self.request.expected.clone()
    }

    /// Number of commands sent so far.
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// The time at which the operation ends at the latest.
    pub fn deadline(&self) -> Duration {
        self.request.deadline
    }

    /// Extends the deadline by a wait that the BMC did not cause.
    pub fn extend(&mut self, by: Duration) {
        self.request.deadline = self.request.deadline.saturating_add(by);
    }

    /// Whether it still waits for a shutdown, without a forced power-off.
    pub fn is_soft(&self) -> bool {
        self.phase == Phase::Soft && self.ended.is_none()
    }

    /// The next step at `now`.
    pub fn next(&mut self, now: Duration) -> Next {
        if self.ended.is_none()
            && let Some(kind) = self.refused
            && (self.cancelled || now >= self.request.deadline)
        {
            self.ended = Some(Outcome::Failed(kind));
        }
        if self.ended.is_none() && self.cancelled {
            self.ended = Some(Outcome::Cancelled);
        }
        if self.ended.is_none() && now >= self.request.deadline {
            self.ended = Some(self.late());
        }
        if self.ended.is_none() {
            self.time_passes(now);
        }
        if let Some(outcome) = &self.ended {
            return Next::Done(outcome.clone());
        }
        if self.corroborates_at().is_some_and(|at| now >= at) {
            return Next::Corroborate;
        }
        let read_at = self.read_at();
        let mut wake = read_at.min(self.request.deadline);
        if let Some(at) = self.corroborates_at() {
            wake = wake.min(at);
        }
        if let Some((send_at, command)) = self.send_at() {
            if now >= send_at {
                return if self.is_fresh(now) {
                    Next::Send(command)
                } else {
                    Next::Read
                };
            }
            wake = wake.min(send_at);
        }
        if let Some(limit) = self.limit_at() {
            wake = wake.min(limit);
        }
        if now >= read_at {
            Next::Read
        } else {
            Next::Wait(wake)
        }
    }

    /// Records a reading that began at `begun` and is complete at `now`. Returns its contribution to the proof of
    /// the wanted state.
    pub fn read(
        &mut self,
        begun: Duration,
        now: Duration,
        result: Result<Observation, CallFailure>,
    ) -> Proof {
        if self.ended.is_some() {
            return Proof::None;
        }
        let before = self.confirmed;
        self.looked = begun;
        match result {
            Ok(seen) => self.read_well(begun, now, &seen),
            Err(failed) => self.read_failed(now, &failed),
        }
        if let (None, Some(kind)) = (&self.ended, self.refused) {
            self.ended = Some(Outcome::Failed(kind));
        }
        match (before, self.confirmed) {
            (_, None) => Proof::None,
            (before, now) if before == now => Proof::TooSoon,
            (_, Some((1, ..))) => Proof::First,
            _ => Proof::Further,
        }
    }

    fn read_well(&mut self, begun: Duration, now: Duration, seen: &Observation) {
        self.auth_failures = 0;
        self.update_check.power_took(now.saturating_sub(begun));
        let sameness = self.compare(seen);
        if sameness == Sameness::Unnamed {
            self.read_failed(now, &CallFailure::unnamed());
            return;
        }
        if sameness == Sameness::Begins {
            // What was commanded and read so far may have been another system.
            self.watch = Watch::default();
            self.fresh = false;
            self.confirmed = None;
        }
        if let Sameness::Other(mismatch) = sameness {
            // Not what was observed so far, so that nothing of it proves an off.
            self.watch = Watch::default();
            self.fresh = false;
            self.confirmed = None;
            self.ended = Some(Outcome::IdentityMismatch(mismatch));
            return;
        }
        self.watch
            .read(now, seen.state, seen.source, seen.connection);
        self.corroboration.read(now, seen.state);
        if self.seen.is_none_or(|(before, _)| before != seen.state) {
            self.poll = self.request.timing.poll_first;
        }
        let is_same = self.fresh && self.seen.is_some_and(|(before, _)| before == seen.state);
        if !is_same {
            self.same_since = now;
        }
        self.seen = Some((seen.state, now));
        self.fresh = true;
        self.was_on |= self.sends == 0 && seen.state != PowerState::Off;
        self.next_read = now.saturating_add(self.poll);
        self.poll = slower(self.poll, self.request.timing.poll_max);
        self.patient_since.get_or_insert(now);
        // A reading after the deadline confirms nothing.
        if now <= self.request.deadline && !self.cancelled {
            self.judge(begun, now, seen);
        }
    }

    /// Records that a command is about to be sent.
    pub fn sending(&mut self, now: Duration) {
        self.sends = self.sends.saturating_add(1);
        self.update_check.used();
        self.fresh = false;
        self.confirmed = None;
        self.sent_at = Some(now);
        self.button.count(self.phase);
        if matches!(self.phase, Phase::Soft | Phase::OneTimeCommand(_)) {
            self.once = OneTimeCommand::Unanswered;
            self.patient_since = Some(now);
        }
    }

    /// Records the result of a command.
    pub fn sent(&mut self, now: Duration, result: Result<(), CallFailure>) {
        if self.ended.is_some() {
            return;
        }
        if let Err(failed) = &result {
            if self.turns_to_button(now, failed) {
                return;
            }
            if failed.not_sent {
                self.was_not_sent();
            }
        }
        self.poll = self.request.timing.poll_first;
        self.next_read = now.saturating_add(self.poll);
        if result.is_ok() && matches!(self.phase, Phase::Soft | Phase::Off) {
            self.off_taken = true;
            self.watch.took_off();
        }
        match &result {
            Ok(()) => self.watch.answered(now, None),
            Err(failed) if failed.is_answer() => self.watch.answered(now, None),
            Err(_) => self.watch.interrupt(),
        }
        match (self.phase, result) {
            (Phase::Soft | Phase::OneTimeCommand(_), Ok(())) => self.once = OneTimeCommand::Taken,
            (_, Ok(())) => self.next_send = now.saturating_add(self.request.timing.resend_after),
            (Phase::Soft | Phase::OneTimeCommand(_), Err(failed)) if failed.maybe_sent => {}
            (Phase::Soft, Err(failed)) => self.not_taken_softly(now, &failed),
            (Phase::OneTimeCommand(_), Err(failed)) => {
                self.ended = Some(Outcome::Failed(failed.kind));
            }
            (_, Err(failed)) => {
                let patience = self.patience(now, failed.retry_after);
                let wait = self.pause_of_refusal(&failed).max(patience);
                self.next_send = now.saturating_add(wait);
                if failed.retry_after.is_some() {
                    self.next_read = self.next_send;
                }
                self.permanent(now, &failed);
                self.looks_after_refusal(now, &failed);
            }
        }
    }

    /// A refusal for good of a command that arrived ends the operation after one more reading: some BMCs refuse what they
    /// have carried out. A refused password is not sent again.
    fn looks_after_refusal(&mut self, now: Duration, failed: &CallFailure) {
        if failed.not_sent || failed.kind == ErrorKind::Authentication {
            return;
        }
        if let Some(Outcome::Failed(kind)) = self.ended {
            self.ended = None;
            self.refused = Some(kind);
            self.next_read = now.saturating_add(self.request.timing.poll_first);
        }
    }

    /// Whether a command that arrived was refused for good.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Records that a command was accepted, or that the driver sent none because none was needed.
    pub fn answered(&mut self, now: Duration, accepted: &Accepted) {
        if !accepted.was_sent() {
            self.button.undo(self.phase);
            self.was_not_sent();
        }
        let (off_taken, watch) = (self.off_taken, self.watch.clone());
        self.sent(now, Ok(()));
        if !accepted.was_sent() {
            self.off_taken = off_taken;
            if self.phase == Phase::Soft {
                self.once = OneTimeCommand::NotTaken;
            }
        }
        self.watch = watch;
        let switches_off = matches!(self.phase, Phase::Soft | Phase::Off);
        self.watch.accepted(now, accepted, switches_off);
    }

    /// The last command did not reach the BMC.
    fn was_not_sent(&mut self) {
        self.sends = self.sends.saturating_sub(1);
    }

    /// Whether the failed call sent nothing because the BMC has only the power button, which is next.
    fn turns_to_button(&mut self, now: Duration, failed: &CallFailure) -> bool {
        if !self.button.becomes_needed(self.phase, failed) {
            return false;
        }
        self.was_not_sent();
        self.once = OneTimeCommand::NotSent;
        self.sent_at = None;
        self.next_read = now;
        true
    }

    /// Pause after a failed command. The pauses between refused power-offs to a host that reads off grow, and the
    /// last refusal ends the operation.
    fn pause_of_refusal(&mut self, failed: &CallFailure) -> Duration {
        let pause = self.request.timing.retry_after;
        let reads_off = self.seen.is_some_and(|(state, _)| state == PowerState::Off);
        if !reads_off || self.off_taken || self.phase != Phase::Off {
            return pause;
        }
        if self.off_refusals.count(failed) && !matches!(self.request.goal, Goal::On) {
            self.ended = Some(Outcome::NotTaken);
        }
        self.off_refusals.pause(pause)
    }

    /// Stops before the next command.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Handles a shutdown request that failed; it is not repeated.
    fn not_taken_softly(&mut self, now: Duration, failed: &CallFailure) {
        self.once = OneTimeCommand::NotTaken;
        let Goal::SoftOff {
            then_force: true, ..
        } = self.request.goal
        else {
            self.ended = Some(Outcome::Failed(failed.kind));
            return;
        };
        match failed.kind {
            ErrorKind::Unsupported => self.enter(Phase::Off, now),
            // Another party may shut the host down, so it keeps its time limit.
            kind if kind.is_transient() => {}
            kind => self.ended = Some(Outcome::Failed(kind)),
        }
    }

    /// Applies the transitions that depend on time only.
    fn time_passes(&mut self, now: Duration) {
        match self.phase {
            Phase::Soft if self.limit_at().is_some_and(|limit| now >= limit) => {
                match self.request.goal {
                    Goal::SoftOff {
                        then_force: true, ..
                    } => self.enter(Phase::Off, now),
                    // One more reading first: the host may have gone off since the last one.
                    Goal::SoftOff { limit, .. } if !self.looks_at_limit() => {
                        self.ended = Some(Outcome::NotShutDown {
                            limit,
                            last: self.seen.map(|(state, _)| state),
                        });
                    }
                    _ => {}
                }
            }
            Phase::StayOff(until) if now >= until => self.enter(Phase::On, now),
            _ => {}
        }
    }

    fn enter(&mut self, phase: Phase, now: Duration) {
        self.phase = phase;
        self.confirmed = None;
        self.sent_at = None;
        self.next_send = Duration::ZERO;
        self.poll = self.request.timing.poll_first;
        if self.fresh {
            self.next_read = now;
        }
    }

    fn read_failed(&mut self, now: Duration, failed: &CallFailure) {
        self.watch.interrupt();
        self.fresh = false;
        self.confirmed = None;
        let wait = self.poll.max(self.patience(now, failed.retry_after));
        self.next_read = now.saturating_add(wait);
        self.poll = slower(self.poll, self.request.timing.poll_max);
        self.permanent(now, failed);
    }

    /// The retry-after of a BMC, cut so that one more attempt and its confirmation fit before the
    /// deadline.
    fn patience(&self, now: Duration, asked: Option<Duration>) -> Duration {
        let asked = asked.unwrap_or_default();
        let (readings, interval) = self.request.goal.proof();
        let proof = interval.saturating_mul(readings.saturating_sub(1));
        let deadline = self.request.deadline;
        let reserve = proof.saturating_add(self.request.timing.resend_after);
        let latest = deadline.saturating_sub(reserve.min(deadline / 2));
        match latest.checked_sub(now) {
            Some(rest) if !rest.is_zero() => asked.min(rest),
            _ => asked,
        }
    }

    /// Ends the operation after a permanent failure.
    fn permanent(&mut self, now: Duration, failed: &CallFailure) {
        let timing = &self.request.timing;
        let over = match (failed.kind, failed.retry_after) {
            // Polled at intervals, because the password may be corrected meanwhile.
            (ErrorKind::Authentication, Some(rest)) => {
                self.next_read = now.saturating_add(rest.min(timing.auth_retry));
                now.saturating_add(rest) >= self.request.deadline
            }
            (ErrorKind::Authentication, None) => {
                self.auth_failures += 1;
                let again = now.saturating_add(timing.auth_retry);
                self.next_read = self.next_read.max(again);
                self.next_send = self.next_send.max(again);
                self.auth_failures >= timing.auth_tries
            }
            // A restarting BMC does not show its system for a while.
            (ErrorKind::System, _) => self.seen.is_none(),
            (kind, _) => !kind.is_transient(),
        };
        if over {
            self.ended = Some(Outcome::Failed(failed.kind));
        }
    }
}

/// The next interval, longer by a fifth: a change is noticed with a delay of at most a fifth of its duration.
fn slower(poll: Duration, max: Duration) -> Duration {
    poll.saturating_add(poll / 5).min(max)
}
