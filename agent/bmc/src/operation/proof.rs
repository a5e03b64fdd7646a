//! Proof that a reported off is true (F1).
//!
//! After its own reset, a BMC may report off for a running host, and refuse a power-off for the same reason. So a
//! reported off counts only if the BMC had the true state before and has not reset since, or if an independent
//! source agrees.

use std::{fmt, time::Duration};

use crate::{Acceptance, Accepted, PowerSource, PowerState};

/// Longest time between two answers of a BMC in which it cannot have restarted unnoticed: every known BMC needs at
/// least twice as long until it answers again.
pub const LONGEST_GAP: Duration = Duration::from_secs(10);

/// Least uptime of a manager at its first reading of off. BMCs learn the state of the host some minutes after
/// their start at the latest: firmware of the makes in use starts its last services within five, and stored
/// states lag by a minute more.
pub const LEAST_UPTIME: Duration = Duration::from_secs(600);

/// A longer uptime is rejected: a clock that was set after the start of the manager, from its default of 1970 or
/// of the firmware's build, yields such values.
pub(super) const LONGEST_UPTIME: Duration = Duration::from_secs(3 * 365 * 86_400);

/// Proof that a reported off is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffProof {
    /// The BMC took the power-off after it had reported another state than off, without an interruption in
    /// between.
    Taken,
    /// This client had read exactly on, and has read the BMC without an interruption since.
    Watched,
    /// The manager had been up for [`LEAST_UPTIME`] at the first reading of off.
    ManagerUptime,
    /// All outlets that feed the host are off, or carry no more than its standby power.
    Outlets,
    /// Another device than the BMC took the power-off: a PDU or a chassis manager.
    OtherDevice,
}

impl fmt::Display for OffProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "the BMC took the power-off while it reported another state",
            Self::Watched => "the BMC was read without interruption since it reported on",
            Self::ManagerUptime => "the BMC had run for a long time before it reported off",
            Self::Outlets => "the outlets of the host carry no more than standby power",
            Self::OtherDevice => "the outlets of the host took the power-off",
        })
    }
}

/// An observation of one BMC without an interruption, or none.
///
/// An interruption is a failed call, a gap of more than [`LONGEST_GAP`] between two answers, another RMCP+
/// session, or another protocol. Times are of one clock of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Watch {
    /// The next answer is due before this time.
    until: Duration,
    source: Option<PowerSource>,
    connection: Option<u64>,
    /// The last state.
    state: Option<PowerState>,
    /// Exactly on was read.
    on: bool,
    /// The BMC took a power-off while the last state was not off. A later interruption does not invalidate this: a
    /// BMC that shares a port with its host loses the network when the host goes off.
    commanded: bool,
    /// Off was read since the command; any other state after that requires another command.
    is_carried_out: bool,
}

impl Watch {
    /// Records a reading that was complete at `now`. `connection` names the session that it was read over, where
    /// the protocol has sessions that end with a reset of the BMC.
    pub fn read(
        &mut self,
        now: Duration,
        state: PowerState,
        source: PowerSource,
        connection: Option<u64>,
    ) {
        if !self.continues(now, Some(source), connection) {
            self.interrupt();
        }
        self.answered(now, connection);
        self.source = Some(source);
        self.state = Some(state);
        self.commanded &= state == PowerState::Off || !self.is_carried_out;
        self.is_carried_out = self.commanded && state == PowerState::Off;
        self.on |= state == PowerState::On;
    }

    /// Records that the BMC answered anything else than a reading.
    pub fn answered(&mut self, now: Duration, connection: Option<u64>) {
        if !self.continues(now, None, connection) {
            self.interrupt();
        }
        self.connection = connection.or(self.connection);
        self.until = now.saturating_add(LONGEST_GAP);
    }

    /// Records that the BMC answered several requests from `begun` to `now`, the longest time without an answer being
    /// `silence`. Longer ones do not end the observation here: the next answer shows the gap.
    pub(super) fn answered_during(&mut self, begun: Duration, now: Duration, silence: Duration) {
        let is_watched = silence <= LONGEST_GAP && begun.saturating_add(silence) <= self.until;
        if is_watched {
            let last = now.saturating_sub(silence);
            self.until = self.until.max(last.saturating_add(LONGEST_GAP));
        }
    }

    /// Whether an answer at `now` belongs to the same observation. `source`: of a reading.
    pub(super) fn continues(
        &self,
        now: Duration,
        source: Option<PowerSource>,
        connection: Option<u64>,
    ) -> bool {
        let is_other = matches!((self.connection, connection), (Some(a), Some(b)) if a != b);
        let is_other_source = matches!((self.source, source), (Some(a), Some(b)) if a != b);
        now <= self.until && !is_other && !is_other_source
    }

    /// Whether the observation has a reading.
    pub(super) fn has_reading(&self) -> bool {
        self.source.is_some()
    }

    /// Records the answer to a command that was not refused, or refused as done already. `switches_off`: it is a
    /// power-off.
    pub fn accepted(&mut self, now: Duration, accepted: &Accepted, switches_off: bool) {
        let was_taken = accepted.acceptance == Acceptance::Taken;
        // A command by another protocol than the last reading's is not proven by that reading.
        let is_same = self.connection == accepted.connection;
        // The state read in the same call is newer than the last reading.
        if let (Some(before), Some(source)) = (accepted.before, self.source) {
            self.read(now, before.state, source, accepted.connection);
            // The BMC contradicts its own last report, and may have restarted in between.
            if !was_taken && before.state != PowerState::Off && !before.same_connection {
                self.interrupt();
            }
        }
        self.answered(now, accepted.connection);
        if was_taken && is_same && switches_off {
            self.took_off();
        }
    }

    /// Records that the BMC took a power-off: it is proven while the observation goes on, if the last state was
    /// not off.
    pub(super) fn took_off(&mut self) {
        self.commanded |= self.state.is_some_and(|state| state != PowerState::Off);
    }

    /// Ends the observation: the BMC may have restarted. A command that it has taken stays taken.
    pub fn interrupt(&mut self) {
        *self = Self {
            commanded: self.commanded,
            is_carried_out: self.is_carried_out,
            ..Self::default()
        };
    }

    /// The same observation by a clock that is 0 at `now` of this one, without the commands of its operation.
    #[must_use]
    pub fn since(&self, now: Duration) -> Self {
        match self.until.checked_sub(now) {
            Some(until) => Self {
                until,
                commanded: false,
                is_carried_out: false,
                ..self.clone()
            },
            None => Self::default(),
        }
    }

    /// The proof that the observation provides for its readings of off.
    pub fn proof(&self) -> Option<OffProof> {
        match (self.commanded, self.on) {
            (true, _) => Some(OffProof::Taken),
            (false, true) => Some(OffProof::Watched),
            (false, false) => None,
        }
    }
}

/// Whether the uptime of the manager, read at `now`, proves an off that was first read at `first_off`.
pub(super) fn proves_off(uptime: Duration, now: Duration, first_off: Duration) -> bool {
    let since = now.saturating_sub(first_off);
    uptime <= LONGEST_UPTIME && uptime.saturating_sub(since) >= LEAST_UPTIME
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: PowerSource = PowerSource::Redfish;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn f1_watch_from_on_to_off_proves_off() {
        let mut watch = Watch::default();
        watch.read(s(0), PowerState::On, BY, None);
        watch.read(s(9), PowerState::Off, BY, None);
        assert_eq!(watch.proof(), Some(OffProof::Watched));
        watch.read(s(19), PowerState::Off, BY, None);
        assert_eq!(watch.proof(), Some(OffProof::Watched));
    }

    #[test]
    fn f1_watch_without_a_reading_of_on_proves_nothing() {
        let mut watch = Watch::default();
        for state in [
            PowerState::Off,
            PowerState::PoweringOff,
            PowerState::Unknown,
        ] {
            watch.read(s(0), state, BY, None);
            watch.read(s(1), PowerState::Off, BY, None);
            assert_eq!(watch.proof(), None, "{state:?}");
        }
    }

    #[test]
    fn f1_interruptions_end_the_proof() {
        let on = || {
            let mut watch = Watch::default();
            watch.read(s(0), PowerState::On, BY, Some(1));
            watch
        };
        let mut late = on();
        late.read(s(11), PowerState::Off, BY, Some(1));
        let mut session = on();
        session.read(s(1), PowerState::Off, BY, Some(2));
        let mut protocol = on();
        protocol.read(s(1), PowerState::Off, PowerSource::Ipmi, Some(1));
        let mut failed = on();
        failed.interrupt();
        failed.read(s(1), PowerState::Off, BY, Some(1));
        for watch in [late, session, protocol, failed] {
            assert_eq!(watch.proof(), None, "{watch:?}");
        }
    }

    #[test]
    fn f1_command_that_was_taken_stays_taken_until_the_host_is_on_again() {
        let mut watch = Watch::default();
        watch.read(s(0), PowerState::On, BY, None);
        watch.answered(s(1), None);
        watch.took_off();
        // The host still reads on, and then the network of the BMC is away with the power of its host.
        watch.read(s(2), PowerState::On, BY, None);
        watch.interrupt();
        watch.read(s(30), PowerState::Off, BY, None);
        assert_eq!(watch.proof(), Some(OffProof::Taken));
        watch.read(s(32), PowerState::On, BY, None);
        watch.interrupt();
        watch.read(s(34), PowerState::Off, BY, None);
        assert_eq!(watch.proof(), None, "somebody switched it on");
    }

    #[test]
    fn f1_answers_in_between_continue_the_watch() {
        let after = |silence| {
            let mut watch = Watch::default();
            watch.read(s(0), PowerState::On, BY, None);
            watch.answered_during(s(1), s(25), s(silence));
            watch.read(s(26), PowerState::Off, BY, None);
            watch.proof()
        };
        assert_eq!(after(2), Some(OffProof::Watched));
        assert_eq!(after(9), Some(OffProof::Watched));
        assert_eq!(after(10), None, "the first of them may have come too late");
        let mut none = Watch::default();
        none.answered_during(s(1), s(2), s(0));
        none.read(s(3), PowerState::Off, BY, None);
        assert_eq!(none.proof(), None);
    }

    #[test]
    fn watch_continues_by_the_clock_of_another_operation() {
        let mut watch = Watch::default();
        watch.read(s(100), PowerState::On, BY, None);
        let mut soon = watch.since(s(104));
        soon.read(s(5), PowerState::Off, BY, None);
        assert_eq!(soon.proof(), Some(OffProof::Watched));
        let mut late = watch.since(s(104));
        late.read(s(7), PowerState::Off, BY, None);
        assert_eq!(late.proof(), None);
        assert_eq!(watch.since(s(200)), Watch::default());
    }

    #[test]
    fn f1_uptime_proves_off_only_from_before_the_first_reading_of_off() {
        assert!(proves_off(s(600), s(5), s(5)));
        assert!(!proves_off(s(600), s(5), s(4)));
        assert!(!proves_off(s(599), s(0), s(0)));
        assert!(
            !proves_off(LONGEST_UPTIME + s(1), s(0), s(0)),
            "a clock that was set"
        );
    }
}
