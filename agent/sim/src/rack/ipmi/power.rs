//! The host of a BMC, and counters of its real power events.
//!
//! Owns: [`HostPower`], the only interface from a BMC to a machine, and a machine without a rack.
//! Must never: depend on IPMI. The rack's [`SimHost`] implements it too, so that a Redfish and an
//! IPMI BMC can share a host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rack::power::{Answer, Change, FlashState, Machine, PowerTimings, Transition};
use crate::rack::{PowerState, ResetType, SimHost};

/// A machine that a BMC may read and switch.
pub trait HostPower: Send {
    /// Its real power state.
    fn power(&mut self, now: Instant) -> PowerState;
    /// The power state that its BMC assumes, if the BMC keeps one for several protocols.
    fn believed(&mut self, now: Instant) -> PowerState {
        self.power(now)
    }
    /// How far the update of its firmware is; `None`: there is none.
    fn flash(&self) -> Option<FlashState> {
        None
    }
    /// Executes a command of the user `by`.
    fn command(&mut self, now: Instant, reset: ResetType, by: &str) -> Answer;
    /// Counters of its real power events, whatever their cause.
    fn power_counts(&mut self, now: Instant) -> PowerCounts;
}

/// Counters of real power events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerCounts {
    /// Number of power losses.
    pub offs: u64,
    /// Number of times that the host was switched on.
    pub ons: u64,
    /// Resets without loss of power.
    pub resets: u64,
    /// Number of non-maskable interrupts that the host received.
    pub nmis: u64,
    /// Shutdown requests to the operating system.
    pub softs: u64,
}

/// A machine without a rack, for property tests and benchmarks.
#[derive(Clone, Debug)]
pub struct StandaloneHost {
    machine: Machine,
    power_counts: PowerCounts,
    first: PowerState,
    history: Vec<(Instant, PowerState)>,
}

impl StandaloneHost {
    /// A machine in a stable state.
    pub fn new(timings: PowerTimings, on: bool) -> Self {
        let machine = Machine::new(timings, on);
        Self {
            first: machine.power(),
            machine,
            power_counts: PowerCounts::default(),
            history: Vec::new(),
        }
    }

    /// A machine that switches immediately, on a soft off too.
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

    /// Every state between `then` and `now`.
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
                    self.power_counts.offs += u64::from(state == PowerState::Off);
                    self.power_counts.ons += u64::from(state == PowerState::On);
                }
                Change::Reset => self.power_counts.resets += 1,
                Change::Os(_) => {}
            }
        }
    }
}

impl HostPower for StandaloneHost {
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
            ResetType::Nmi => self.power_counts.nmis += accepted,
            ResetType::GracefulShutdown => self.power_counts.softs += accepted,
            _ => {}
        }
        self.advance(now);
        answer
    }

    fn power_counts(&mut self, now: Instant) -> PowerCounts {
        self.advance(now);
        self.power_counts
    }
}

/// A machine that tests can inspect while the BMC uses it.
impl HostPower for Arc<Mutex<StandaloneHost>> {
    fn power(&mut self, now: Instant) -> PowerState {
        self.lock().power(now)
    }

    fn command(&mut self, now: Instant, reset: ResetType, by: &str) -> Answer {
        self.lock().command(now, reset, by)
    }

    fn power_counts(&mut self, now: Instant) -> PowerCounts {
        self.lock().power_counts(now)
    }
}

/// Its time is tokio's, whatever `now` is. Interrupts and graceful shutdowns are counted on
/// arrival, even if rejected.
impl HostPower for SimHost {
    fn power(&mut self, _: Instant) -> PowerState {
        self.real_power()
    }

    fn believed(&mut self, _: Instant) -> PowerState {
        self.believed_power()
    }

    fn flash(&self) -> Option<FlashState> {
        self.flash_state()
    }

    fn command(&mut self, _: Instant, reset: ResetType, by: &str) -> Answer {
        self.carry_out(reset, by)
    }

    fn power_counts(&mut self, _: Instant) -> PowerCounts {
        let counters = self.counters();
        PowerCounts {
            offs: counters.offs,
            ons: counters.ons,
            resets: counters.resets,
            nmis: counters.received(ResetType::Nmi),
            softs: counters.received(ResetType::GracefulShutdown),
        }
    }
}
