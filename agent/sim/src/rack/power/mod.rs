//! Power and operating system of one simulated machine, as a pure state machine.
//!
//! Owns: the *real* state, as a power meter and the console would show it. It takes `now` and
//! returns the changes with their times. Must never: read a clock, or depend on the report of a
//! BMC.

pub(super) mod belief;
mod flash;
mod reset;

use std::fmt;
use std::time::{Duration, Instant};

pub use flash::{Flash, FlashState};
pub use reset::ResetType;

/// Power states, named as in Redfish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PowerState {
    /// No power: nothing runs.
    Off,
    /// Powering on; nothing runs yet.
    PoweringOn,
    /// Power is on.
    On,
    /// Powering off, and still powered.
    PoweringOff,
}

impl PowerState {
    /// Whether the machine still has power, in which case its processes may run.
    pub fn is_powered(self) -> bool {
        self != Self::Off
    }
}

impl fmt::Display for PowerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OsState {
    /// No power, nothing runs.
    Down,
    /// Booting: no kubelet yet.
    Booting,
    /// Up: the kubelet runs.
    Running,
    /// Hung: processes still exist, the kubelet is unresponsive. Only a power cycle or a reset
    /// helps.
    Hung,
}

/// How long each power transition of a simulated host takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerTimings {
    /// From a hard off until the power is gone.
    pub off_takes: Duration,
    /// From `On` until the power is on.
    pub on_takes: Duration,
    /// From power on until the kubelet starts.
    pub boot_takes: Duration,
    /// From a graceful shutdown until the power is gone.
    pub shutdown_takes: Duration,
    /// Off time of a power cycle.
    pub cycle_pause: Duration,
}

impl Default for PowerTimings {
    fn default() -> Self {
        Self {
            off_takes: Duration::from_millis(300),
            on_takes: Duration::from_millis(300),
            boot_takes: Duration::from_millis(1000),
            shutdown_takes: Duration::from_millis(800),
            cycle_pause: Duration::from_millis(500),
        }
    }
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Accepted; not yet done.
    Accepted,
    /// The machine is already in the requested state.
    Already,
    /// Not possible in this state.
    WrongState,
    /// Not possible during a power transition.
    Busy,
}

/// A change of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The power changed.
    Power(PowerState),
    /// The operating system changed.
    Os(OsState),
    /// The machine was reset without losing power: its processes have ended.
    Reset,
}

/// A change and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The time at which it was due, regardless of when it was observed.
    pub at: Instant,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub struct Machine {
    timings: PowerTimings,
    power: PowerState,
    os: OsState,
    power_due: Option<Instant>,
    os_due: Option<Instant>,
    on_again: bool,
    stuck: bool,
    boots: bool,
}

impl Machine {
    /// A machine in a stable state: running its operating system, or off.
    pub fn new(timings: PowerTimings, on: bool) -> Self {
        Self {
            timings,
            power: if on { PowerState::On } else { PowerState::Off },
            os: if on { OsState::Running } else { OsState::Down },
            power_due: None,
            os_due: None,
            on_again: false,
            stuck: false,
            boots: true,
        }
    }

    /// The real power state, as of the last [`Machine::advance`].
    pub fn power(&self) -> PowerState {
        self.power
    }

    /// The operating system, as of the last [`Machine::advance`].
    pub fn os(&self) -> OsState {
        self.os
    }

    /// Time of the next change without a command.
    pub fn next_change(&self) -> Option<Instant> {
        [self.power_due, self.os_due].into_iter().flatten().min()
    }

    /// Advances the time to `now`; appends the changes in order.
    pub fn advance(&mut self, now: Instant, out: &mut Vec<Transition>) {
        while let Some(due) = self.next_change().filter(|due| *due <= now) {
            if self.power_due == Some(due) {
                self.power_due = None;
                self.power_changes(due, out);
            } else {
                self.os_due = None;
                self.set_os(due, OsState::Running, out);
            }
        }
    }

    /// Executes a command.
    pub fn command(&mut self, now: Instant, reset: ResetType, out: &mut Vec<Transition>) -> Answer {
        self.advance(now, out);
        match reset {
            ResetType::On | ResetType::ForceOn => self.switch_on(now, out),
            ResetType::ForceOff => self.force_off(now, out),
            ResetType::GracefulShutdown => self.shut_down(now, out),
            ResetType::PushPowerButton if self.power == PowerState::Off => self.switch_on(now, out),
            ResetType::PushPowerButton => self.shut_down(now, out),
            ResetType::PowerCycle => self.cycle(now, out),
            ResetType::GracefulRestart if self.os == OsState::Hung => Answer::Accepted,
            ResetType::GracefulRestart | ResetType::ForceRestart => self.reset(now, out),
            ResetType::Nmi if self.power == PowerState::On => Answer::Accepted,
            ResetType::Nmi => Answer::WrongState,
        }
    }

    /// Hangs the operating system while the power stays on. `false` if it was not running.
    pub fn hang(&mut self, now: Instant, out: &mut Vec<Transition>) -> bool {
        self.advance(now, out);
        if !matches!(self.os, OsState::Running | OsState::Booting) {
            return false;
        }
        self.os_due = None;
        self.set_os(now, OsState::Hung, out);
        true
    }

    /// Cuts the power at once, whatever the machine does. `false` if it had none.
    pub fn lose_power(&mut self, now: Instant, out: &mut Vec<Transition>) -> bool {
        self.advance(now, out);
        (self.on_again, self.power_due, self.os_due) = (false, None, None);
        if self.power == PowerState::Off {
            return false;
        }
        self.set_power(now, PowerState::Off, out);
        self.set_os(now, OsState::Down, out);
        true
    }

    /// While set, a power-off never completes. When it is unset, one in progress completes after
    /// its usual duration from now.
    pub fn set_stuck(&mut self, now: Instant, stuck: bool, out: &mut Vec<Transition>) {
        self.advance(now, out);
        self.stuck = stuck;
        if self.power == PowerState::PoweringOff {
            self.power_due = (!stuck).then(|| now + self.timings.off_takes);
        }
    }

    /// While unset, the operating system never boots after power-on.
    pub fn set_boots(&mut self, now: Instant, boots: bool, out: &mut Vec<Transition>) {
        self.advance(now, out);
        self.boots = boots;
        if self.os == OsState::Booting {
            self.os_due = boots.then(|| now + self.timings.boot_takes);
        }
    }

    /// The host boots only once its firmware is written; `until` is `None` if that never ends.
    pub(super) fn boot_waits(&mut self, until: Option<Instant>) {
        if self.os == OsState::Booting && self.boots {
            self.os_due = until.map(|until| until + self.timings.boot_takes);
        }
    }

    /// It never boots again.
    pub(super) fn is_bricked(&mut self) {
        self.boots = false;
    }

    /// Sets the durations of later transitions; one in progress keeps its own.
    pub fn set_timings(&mut self, timings: PowerTimings) {
        self.timings = timings;
    }

    fn power_changes(&mut self, at: Instant, out: &mut Vec<Transition>) {
        match self.power {
            PowerState::PoweringOff => {
                self.os_due = None;
                self.set_power(at, PowerState::Off, out);
                self.set_os(at, OsState::Down, out);
                self.power_due = self.on_again.then(|| at + self.timings.cycle_pause);
            }
            // Off with a due time is the pause of a power cycle.
            PowerState::Off => self.begin_on(at, out),
            PowerState::PoweringOn => {
                self.set_power(at, PowerState::On, out);
                self.begin_boot(at, out);
            }
            PowerState::On => {}
        }
    }

    fn switch_on(&mut self, now: Instant, out: &mut Vec<Transition>) -> Answer {
        match self.power {
            PowerState::Off => {
                self.begin_on(now, out);
                Answer::Accepted
            }
            PowerState::On | PowerState::PoweringOn => Answer::Already,
            PowerState::PoweringOff => Answer::Busy,
        }
    }

    fn force_off(&mut self, now: Instant, out: &mut Vec<Transition>) -> Answer {
        let cycling = std::mem::take(&mut self.on_again);
        match self.power {
            PowerState::Off => {
                self.power_due = None;
                if cycling {
                    Answer::Accepted
                } else {
                    Answer::Already
                }
            }
            PowerState::PoweringOff => {
                // A hard off replaces a graceful shutdown in progress.
                let hard = now + self.timings.off_takes;
                self.power_due = self.power_due.map(|due| due.min(hard));
                Answer::Accepted
            }
            PowerState::On | PowerState::PoweringOn => {
                self.begin_off(now, self.timings.off_takes, out);
                Answer::Accepted
            }
        }
    }

    fn shut_down(&mut self, now: Instant, out: &mut Vec<Transition>) -> Answer {
        match (self.power, self.os) {
            (PowerState::Off, _) => Answer::Already,
            (PowerState::PoweringOn, _) => Answer::Busy,
            (PowerState::On, OsState::Running) => {
                self.begin_off(now, self.timings.shutdown_takes, out);
                Answer::Accepted
            }
            // No operating system reacts to the button: accepted without effect.
            (PowerState::On | PowerState::PoweringOff, _) => Answer::Accepted,
        }
    }

    fn cycle(&mut self, now: Instant, out: &mut Vec<Transition>) -> Answer {
        match self.power {
            PowerState::Off => Answer::WrongState,
            PowerState::PoweringOff => Answer::Busy,
            PowerState::On | PowerState::PoweringOn => {
                self.on_again = true;
                self.begin_off(now, self.timings.off_takes, out);
                Answer::Accepted
            }
        }
    }

    fn reset(&mut self, now: Instant, out: &mut Vec<Transition>) -> Answer {
        match self.power {
            PowerState::Off => Answer::WrongState,
            PowerState::PoweringOn | PowerState::PoweringOff => Answer::Busy,
            PowerState::On => {
                out.push(Transition {
                    at: now,
                    change: Change::Reset,
                });
                self.begin_boot(now, out);
                Answer::Accepted
            }
        }
    }

    fn begin_off(&mut self, at: Instant, takes: Duration, out: &mut Vec<Transition>) {
        self.set_power(at, PowerState::PoweringOff, out);
        self.power_due = (!self.stuck).then(|| at + takes);
    }

    fn begin_on(&mut self, at: Instant, out: &mut Vec<Transition>) {
        self.on_again = false;
        self.set_power(at, PowerState::PoweringOn, out);
        self.power_due = Some(at + self.timings.on_takes);
    }

    fn begin_boot(&mut self, at: Instant, out: &mut Vec<Transition>) {
        self.set_os(at, OsState::Booting, out);
        self.os_due = self.boots.then(|| at + self.timings.boot_takes);
    }

    fn set_power(&mut self, at: Instant, power: PowerState, out: &mut Vec<Transition>) {
        self.power = power;
        out.push(Transition {
            at,
            change: Change::Power(power),
        });
    }

    fn set_os(&mut self, at: Instant, os: OsState, out: &mut Vec<Transition>) {
        if self.os != os {
            self.os = os;
            out.push(Transition {
                at,
                change: Change::Os(os),
            });
        }
    }
}
