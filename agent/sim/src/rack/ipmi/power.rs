//! The host behind a BMC: what switches, and what was really switched.
//!
//! Owns [`HostPower`], the only way from a BMC to a machine, and a machine without a rack. Must
//! never know IPMI. The rack's [`SimHost`] is one too, so that a Redfish and an IPMI BMC can have
//! the same host.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::rack::power::{Answer, Change, Machine, PowerTimings, Transition};
use crate::rack::{PowerState, ResetType, SimHost};

/// A machine that a BMC may look at and switch.
pub trait HostPower: Send {
    /// Its real power state.
    fn power(&mut self, now: Instant) -> PowerState;
    /// The real power state as it was `age` ago.
    fn power_before(&mut self, now: Instant, age: Duration) -> PowerState;
    /// Carries out a command that `by` sent.
    fn command(&mut self, now: Instant, reset: ResetType, by: &str) -> Answer;
    /// Counts a command that a fault keeps from the machine.
    fn swallow(&mut self, now: Instant, reset: ResetType, by: &str);
    /// What really happened to it so far, whoever asked for it.
    fn tally(&mut self, now: Instant) -> PowerTally;
}

/// What really happened to a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PowerTally {
    /// How often power was lost.
    pub offs: u64,
    /// How often power came.
    pub ons: u64,
    /// Resets without loss of power.
    pub resets: u64,
    /// Non-maskable interrupts that arrived.
    pub nmis: u64,
    /// Graceful shutdowns that were asked of the operating system.
    pub softs: u64,
}

/// Something that really happened to a [`StandAlone`] machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Switched {
    /// Power was lost.
    Off,
    On,
    /// A reset without loss of power.
    Reset,
    /// A non-maskable interrupt.
    Nmi,
    /// The operating system was asked to shut down.
    Soft,
}

/// A machine without a rack, for property tests and benchmarks.
#[derive(Clone, Debug)]
pub struct StandAlone {
    machine: Machine,
    tally: PowerTally,
    log: Vec<(Instant, Switched)>,
    history: Vec<(Instant, PowerState)>,
    first: PowerState,
}

impl StandAlone {
    /// A machine at rest.
    pub fn new(timings: PowerTimings, on: bool) -> Self {
        let machine = Machine::new(timings, on);
        Self {
            first: machine.power(),
            machine,
            tally: PowerTally::default(),
            log: Vec::new(),
            history: Vec::new(),
        }
    }

    /// A machine that switches at once: a soft-off too.
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

    /// What really happened, and when.
    pub fn log(&self) -> &[(Instant, Switched)] {
        &self.log
    }

    fn advance(&mut self, now: Instant) {
        let mut out = Vec::new();
        self.machine.advance(now, &mut out);
        self.happened(out);
    }

    fn happened(&mut self, transitions: Vec<Transition>) {
        for Transition { at, change } in transitions {
            match change {
                Change::Power(state) => {
                    self.history.push((at, state));
                    match state {
                        PowerState::Off => self.note(at, Switched::Off),
                        PowerState::On => self.note(at, Switched::On),
                        PowerState::PoweringOn | PowerState::PoweringOff => {}
                    }
                }
                Change::Reset => self.note(at, Switched::Reset),
                Change::Os(_) => {}
            }
        }
    }

    fn note(&mut self, at: Instant, what: Switched) {
        let counter = match what {
            Switched::Off => &mut self.tally.offs,
            Switched::On => &mut self.tally.ons,
            Switched::Reset => &mut self.tally.resets,
            Switched::Nmi => &mut self.tally.nmis,
            Switched::Soft => &mut self.tally.softs,
        };
        *counter += 1;
        self.log.push((at, what));
    }
}

impl HostPower for StandAlone {
    fn power(&mut self, now: Instant) -> PowerState {
        self.advance(now);
        self.machine.power()
    }

    fn power_before(&mut self, now: Instant, age: Duration) -> PowerState {
        self.advance(now);
        let then = now.checked_sub(age);
        let mut history = self.history.iter().rev();
        let known = history.find(|(at, _)| then.is_some_and(|then| *at <= then));
        known.map_or(self.first, |(_, state)| *state)
    }

    fn command(&mut self, now: Instant, reset: ResetType, _: &str) -> Answer {
        self.advance(now);
        let mut out = Vec::new();
        let answer = self.machine.command(now, reset, &mut out);
        self.happened(out);
        match (answer, reset) {
            (Answer::Accepted, ResetType::Nmi) => self.note(now, Switched::Nmi),
            (Answer::Accepted, ResetType::GracefulShutdown) => self.note(now, Switched::Soft),
            _ => {}
        }
        self.advance(now);
        answer
    }

    fn swallow(&mut self, _: Instant, _: ResetType, _: &str) {}

    fn tally(&mut self, now: Instant) -> PowerTally {
        self.advance(now);
        self.tally
    }
}

/// Its time is tokio's, whatever `now` says. Interrupts and graceful shutdowns are counted when they
/// arrive, those that were refused included.
impl HostPower for SimHost {
    fn power(&mut self, _: Instant) -> PowerState {
        self.real_power()
    }

    fn power_before(&mut self, _: Instant, age: Duration) -> PowerState {
        Self::power_before(self, age)
    }

    fn command(&mut self, _: Instant, reset: ResetType, by: &str) -> Answer {
        self.switch(reset, by)
    }

    fn swallow(&mut self, _: Instant, reset: ResetType, by: &str) {
        Self::swallow(self, reset, by);
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
