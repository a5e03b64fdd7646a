//! The power of one host over all readings of its BMC: what was read before, and whether the BMC may have restarted in
//! between.
//!
//! A lost power shows as exactly on and then exactly off in one uninterrupted observation. What interrupts it is
//! decided by [`Watch`] (F1).

use std::time::Duration;

use super::{
    LONGEST_GAP, Watch,
    remembered::Remembered,
    system::{KnownSystem, Sameness},
};
use crate::{Accepted, PowerReading, PowerSource, PowerState, SystemIdentity};

/// Least time between two readings that count as two.
const APART: Duration = Duration::from_secs(2);

/// The observation of one BMC, with the last reading of its host.
///
/// Times are of one clock of the caller.
#[derive(Debug, Clone, Default)]
pub struct PowerObservation {
    watch: Watch,
    /// The answer to the last call was complete at this time.
    answered: Duration,
    last: Option<LastReading>,
    /// What was read of the system in this observation.
    system: KnownSystem,
    /// The system that Redfish readings named, also in earlier observations.
    remembered: Remembered,
}

/// The last power reading, with the past of its observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastReading {
    /// Number of the uninterrupted observation.
    pub observation: u64,
    /// The state.
    pub state: PowerState,
    /// The state in the BMC's own word.
    pub raw: String,
    /// Protocol of the reading.
    pub source: PowerSource,
    /// Identity of the system.
    pub identity: SystemIdentity,
    /// Whether the identify LED is lit, where the BMC reports it.
    pub identify_led: Option<bool>,
    /// When it was complete.
    pub at: Duration,
    /// Number of readings in a row with this state, each at least 2 s after the one before.
    pub readings: u32,
    /// When the last of these was complete.
    counted_at: Duration,
    /// When the first of these was complete.
    pub since: Duration,
    /// The state before, in the same observation.
    pub previous: Option<PowerState>,
    /// When exactly on was last read in the same observation.
    pub last_on: Option<Duration>,
}

/// An observation from before an operation, for its proof.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// The observation, by the clock of the operation.
    pub watch: Watch,
    /// The system that it has read, and by which protocol. `None`: nothing was read in it.
    pub system: Option<(PowerSource, SystemIdentity)>,
    /// The system that Redfish readings have named within ten minutes, also if the observation was interrupted or has
    /// shown another one since.
    pub remembered: Option<Box<SystemIdentity>>,
}

impl PowerObservation {
    /// The observation by a clock that is 0 at `now` of this one.
    pub fn since(&self, now: Duration) -> Past {
        let is_over = self.is_over(now);
        let last = self.last.as_ref().filter(|_| !is_over);
        Past {
            watch: self.watch.since(now),
            system: last.map(|last| {
                let known = self.system.identity().unwrap_or(&last.identity);
                (last.source, known.clone())
            }),
            remembered: self.remembered.at(now),
        }
    }

    /// The proof of the observation, for operations.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The last reading; `None`: there was none, or the observation was interrupted since.
    pub fn last(&self) -> Option<&LastReading> {
        self.last.as_ref()
    }

    /// Time of the last change.
    pub fn answered_at(&self) -> Duration {
        self.answered
    }

    /// Records a reading that was complete at `now`. `number` names the observation that begins with it, if the last
    /// one was interrupted.
    pub fn read(&mut self, now: Duration, reading: &PowerReading, number: u64) {
        let is_same = self
            .watch
            .continues(now, Some(reading.source), reading.connection);
        (self.remembered).read(now, reading.source, &reading.identity);
        let before = self.last.take();
        let is_over = before.is_none() || !is_same;
        if is_over {
            self.system = KnownSystem::default();
        }
        let is_other = self.system.read(reading.source, &reading.identity) != Sameness::Same;
        if is_other {
            // What was read before is of another host, behind another BMC that has this address now, or this reading
            // names none.
            self.watch.interrupt();
            self.system = KnownSystem::default();
            self.system.read(reading.source, &reading.identity);
        }
        let before = before.filter(|_| is_same && !is_other);
        self.watch
            .read(now, reading.state, reading.source, reading.connection);
        self.answered = now;
        let last_on = match reading.state {
            PowerState::On => Some(now),
            _ => before.as_ref().and_then(|before| before.last_on),
        };
        let mut last = LastReading {
            observation: before.as_ref().map_or(number, |before| before.observation),
            state: reading.state,
            raw: reading.raw.clone(),
            source: reading.source,
            identity: reading.identity.clone(),
            identify_led: reading.identify_led,
            at: now,
            readings: 1,
            counted_at: now,
            since: now,
            previous: None,
            last_on,
        };
        if let Some(before) = before {
            if before.state == reading.state {
                last.since = before.since;
                last.previous = before.previous;
                last.readings = before.readings;
                last.counted_at = before.counted_at;
                if now.saturating_sub(before.counted_at) >= APART {
                    last.readings = before.readings.saturating_add(1);
                    last.counted_at = now;
                }
            } else {
                last.previous = Some(before.state);
            }
        }
        self.last = Some(last);
    }

    /// Records the answer to a power command.
    pub fn accepted(&mut self, now: Duration, accepted: &Accepted) {
        if !self.watch.continues(now, None, accepted.connection) {
            self.last = None;
        }
        self.watch.accepted(now, accepted, false);
        // The BMC contradicts its own last report.
        if !self.watch.has_reading() {
            self.last = None;
        }
        self.answered = now;
    }

    /// Records a refused command.
    pub fn refused(&mut self, now: Duration) {
        if !self.watch.continues(now, None, None) {
            self.last = None;
        }
        self.watch.answered(now, None);
        self.answered = now;
    }

    /// Records a failed call: the BMC may have restarted.
    pub fn interrupt(&mut self, now: Duration) {
        self.watch.interrupt();
        self.last = None;
        self.answered = now;
    }

    /// Whether the observation has ended by itself, and has nothing to tell.
    pub fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.answered) > LONGEST_GAP
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn f5_another_system_at_the_same_address_begins_a_new_observation() {
        let of = |serial: Option<&str>, state| PowerReading {
            identity: SystemIdentity {
                system_uuid: Some("4c4c4544-0042-3510-8054-c2c04f4e4e32".to_owned()),
                serial: serial.map(str::to_owned),
                ..SystemIdentity::default()
            },
            ..reading(state, Some(1))
        };
        let seen_off = |serial| {
            let mut seen = PowerObservation::default();
            seen.read(ms(0), &of(Some("A"), PowerState::On), 1);
            seen.read(ms(2000), &of(serial, PowerState::Off), 2);
            let last = seen.last().unwrap();
            (last.observation, last.previous, last.last_on)
        };
        assert_eq!(seen_off(Some("B")), (2, None, None));
        let same = (1, Some(PowerState::On), Some(ms(0)));
        assert_eq!(seen_off(Some("A")), same);
        assert_eq!(seen_off(None), same, "the UUID is as before");
        let bare = |state| reading(state, Some(1));
        let mut seen = PowerObservation::default();
        seen.read(ms(0), &of(Some("A"), PowerState::On), 1);
        seen.read(ms(2000), &bare(PowerState::Off), 2);
        let last = seen.last().unwrap();
        assert_eq!(
            (last.observation, last.last_on),
            (2, None),
            "it names no system"
        );
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn reading(state: PowerState, connection: Option<u64>) -> PowerReading {
        PowerReading {
            state,
            raw: format!("{state:?}"),
            source: PowerSource::Redfish,
            identity: SystemIdentity::default(),
            at: jiff::Timestamp::UNIX_EPOCH,
            bmc: "redfish://192.0.2.1".to_owned(),
            connection,
            identify_led: None,
        }
    }

    #[test]
    fn lost_power_is_on_and_then_off_twice_in_one_observation() {
        let mut seen = PowerObservation::default();
        seen.read(ms(0), &reading(PowerState::On, None), 1);
        seen.read(ms(9_000), &reading(PowerState::Off, None), 2);
        let last = seen.last().unwrap();
        assert_eq!((last.observation, last.readings), (1, 1));
        assert_eq!(last.previous, Some(PowerState::On));
        assert_eq!(last.last_on, Some(ms(0)));
        seen.read(ms(10_000), &reading(PowerState::Off, None), 3);
        assert_eq!(seen.last().unwrap().readings, 1, "too soon after the first");
        seen.read(ms(11_000), &reading(PowerState::Off, None), 4);
        let last = seen.last().unwrap();
        assert_eq!((last.observation, last.readings), (1, 2));
        assert_eq!(
            (last.since, last.previous),
            (ms(9_000), Some(PowerState::On))
        );
    }

    #[test]
    fn f1_bmc_that_may_have_restarted_begins_another_observation() {
        let on = || {
            let mut seen = PowerObservation::default();
            seen.read(ms(0), &reading(PowerState::On, Some(1)), 1);
            seen
        };
        let mut failed = on();
        failed.interrupt(ms(1_000));
        assert_eq!(failed.last(), None);
        failed.read(ms(2_000), &reading(PowerState::Off, Some(1)), 2);
        let mut late = on();
        late.read(ms(10_001), &reading(PowerState::Off, Some(1)), 2);
        let mut session = on();
        session.read(ms(2_000), &reading(PowerState::Off, Some(2)), 2);
        let mut late_refusal = on();
        late_refusal.refused(ms(10_001));
        late_refusal.read(ms(11_000), &reading(PowerState::Off, Some(1)), 2);
        let mut contradiction = on();
        let mut already = Accepted::already_there("ForceOff", "409: already off");
        already.before = Some(crate::StateBefore {
            state: PowerState::On,
            same_connection: false,
        });
        contradiction.accepted(ms(1_000), &already);
        contradiction.read(ms(2_000), &reading(PowerState::Off, Some(1)), 2);
        for seen in [failed, late, session, late_refusal, contradiction] {
            let last = seen.last().unwrap();
            assert_eq!(last.observation, 2, "{seen:?}");
            assert_eq!((last.last_on, last.previous), (None, None), "{seen:?}");
        }
    }

    proptest! {
        /// The observation promises nothing that the proof of an off does not have.
        #[test]
        fn f1_on_before_in_one_observation_is_proof(
            steps in prop::collection::vec((0_u64..15_000, 0_u8..5, 0_u64..3), 1..40),
        ) {
            let mut seen = PowerObservation::default();
            let mut now = ms(0);
            for (number, (pause, step, connection)) in (1..).zip(steps) {
                now += ms(pause);
                let connection = (connection > 0).then_some(connection);
                match step {
                    0 => seen.interrupt(now),
                    1 => seen.refused(now),
                    2 => {
                        let mut accepted = Accepted::taken("ForceOff", "204");
                        accepted.connection = connection;
                        seen.accepted(now, &accepted);
                    }
                    3 => seen.read(now, &reading(PowerState::On, connection), number),
                    _ => seen.read(now, &reading(PowerState::Off, connection), number),
                }
                if let Some(last) = seen.last() {
                    prop_assert!(last.last_on.is_none() || seen.watch().proof().is_some());
                    prop_assert!(last.observation <= number);
                }
            }
        }
    }
}
