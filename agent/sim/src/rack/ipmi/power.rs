//! The host behind a BMC, and a count of what was really switched.
//!
//! Owns [`HostPower`], the only way from a BMC to a machine, and a machine without a rack. Must
//! never know IPMI. The rack's [`SimHost`] implements it too, so that a Redfish and an IPMI BMC can
//! have the same host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rack::power::{Answer, Change, Machine, PowerTimings, Transition};
use crate::rack::{PowerState, ResetType, SimHost};

/// A machine that a BMC may read and switch.
pub trait HostPower: Send {
    /// Its real power state.
    fn power(&mut self, now: Instant) -> PowerState;
    /// Carries out a command of the user `by`.
    fn command(&mut self, now: Instant, reset: ResetType, by: &str) -> Answer;
    /// What really happened to it so far, whatever the cause.
    fn tally(&mut self, now: Instant) -> PowerTally;
}

/// What really happened to a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerTally {
    /// How often power was lost.
    pub offs: u64,
    /// How often power came.
    pub ons: u64,
    /// Resets without loss of power.
    pub resets: u64,
    /// Non-maskable interrupts that arrived.
    pub nmis: u64,
    /// Requests to the operating system to shut down.
    pub softs: u64,
}

/// A machine without a rack, for property tests and benchmarks.
#[derive(Clone, Debug)]
pub struct StandAlone {
    machine: Machine,
    tally: PowerTally,
    first: PowerState,
    history: Vec<(Instant, PowerState)>,
}

impl StandAlone {
    /// A machine at rest.
    pub fn new(timings: PowerTimings, on: bool) -> Self {
        let machine = Machine::new(timings, on);
        Self {
            first: machine.power(),
            machine,
            tally: PowerTally::default(),
            history: Vec::new(),
        }
    }

    /// A machine that switches at once, also for a soft off.
    pub fn instant(on: bool) -> Self {
        let none = Duration::ZERO;
        let timings = PowerTimings {
            off_takes: none,
            on_takes: none,
            boot_takes: none,
            shutdown_takes: none,
            cycle_pause: none,
        };
        Self::new(timings, on)
    }

    /// Every state that it was in from then until now.
    pub fn states_since(&mut self, then: Instant, now: Instant) -> Vec<PowerState> {
        self.advance(now);
        let later = self.history.partition_point(|(at, _)| *at <= then);
        let (before, since) = self.history.split_at(later);
        let state = before.last().map_or(self.first, |(_, state)| *state);
        let since = since.iter().map(|(_, state)| *state);
        std::iter::once(state).chain(since).collect()
    }

    fn advance(&mut self, now: Instant) {
        let mut out = Vec::new();
        self.machine.advance(now, &mut out);
        self.record(out);
    }

    fn record(&mut self, transitions: Vec<Transition>) {
        for Transition { at, change } in transitions {
            match change {
                Change::Power(state) => {
                    self.history.push((at, state));
                    self.tally.offs += u64::from(state == PowerState::Off);
                    self.tally.ons += u64::from(state == PowerState::On);
                }
                Change::Reset => self.tally.resets += 1,
                Change::Os(_) => {}
            }
        }
    }
}

impl HostPower for StandAlone {
    fn power(&mut self, now: Instant) -> PowerState {
        self.advance(now);
        self.machine.power()
    }

    fn command(&mut self, now: Instant, reset: ResetType, _: &str) -> Answer {
        self.advance(now);
        let mut out = Vec::new();
        let answer = self.machine.command(now, reset, &mut out);
        self.record(out);
        let accepted = u64::from(answer == Answer::Accepted);
        match reset {
            ResetType::Nmi => self.tally.nmis += accepted,
            ResetType::GracefulShutdown => self.tally.softs += accepted,
            _ => {}
        }
        self.advance(now);
        answer
    }

    fn tally(&mut self, now: Instant) -> PowerTally {
        self.advance(now);
        self.tally
    }
}

/// A machine that a test can inspect while the BMC has it.
impl HostPower for Arc<Mutex<StandAlone>> {
    fn power(&mut self, now: Instant) -> PowerState {
        self.lock().power(now)
    }

    fn command(&mut self, now: Instant, reset: ResetType, by: &str) -> Answer {
        self.lock().command(now, reset, by)
    }

    fn tally(&mut self, now: Instant) -> PowerTally {
        self.lock().tally(now)
    }
}

/// Its time is tokio's, whatever `now` is. Interrupts and graceful shutdowns are counted on arrival,
/// also if refused.
impl HostPower for SimHost {
    fn power(&mut self, _: Instant) -> PowerState {
        self.real_power()
    }

    fn command(&mut self, _: Instant, reset: ResetType, by: &str) -> Answer {
        self.switch(reset, by)
    }

    fn tally(&mut self, _: Instant) -> PowerTally {
        let counters = self.counters();
        PowerTally {
            offs: counters.offs,
            ons: counters.ons,
            resets: counters.resets,
            nmis: counters.received(ResetType::Nmi),
            softs: counters.received(ResetType::GracefulShutdown),
        }
    }
}
