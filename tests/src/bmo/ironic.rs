//! Ironic's record of a host and what it does about it, as a pure state machine.
//!
//! Owns the database's view of power: what was asked for, what was read last, the forced sync. Must
//! never read a clock or a BMC.

use std::time::Duration;

use super::Settings;

/// Power as Ironic has it: two words for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// On, or on its way up.
    On,
    /// Off, or on its way down: Ironic's Redfish driver makes no difference.
    Off,
}

impl Power {
    /// From Redfish's `PowerState`; `None` for a word that Ironic does not know.
    pub fn of_redfish(word: &str) -> Option<Self> {
        match word {
            "On" | "PoweringOn" => Some(Self::On),
            "Off" | "PoweringOff" => Some(Self::Off),
            _ => None,
        }
    }
}

/// What baremetal-operator may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Switch on.
    On,
    /// Cut the power.
    HardOff,
    /// Ask the operating system to shut down.
    SoftOff,
    /// Cut the power and switch on again.
    Reboot,
}

impl Change {
    fn wanted(self) -> Power {
        match self {
            Self::On => Power::On,
            Self::HardOff | Self::SoftOff | Self::Reboot => Power::Off,
        }
    }

    fn command(self) -> Command {
        match self {
            Self::On => Command::On,
            Self::HardOff | Self::Reboot => Command::HardOff,
            Self::SoftOff => Command::SoftOff,
        }
    }
}

/// A power command at a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// On.
    On,
    /// ForceOff.
    HardOff,
    /// GracefulShutdown.
    SoftOff,
}

/// A command to be sent now, and on whose account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// Which.
    pub command: Command,
    /// The power sync sends it, not a request of baremetal-operator.
    pub forced: bool,
}

/// Power commands that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// Hard and soft offs at baremetal-operator's request.
    pub offs: u32,
    /// Ons at its request.
    pub ons: u32,
    /// Offs that the power sync forced.
    pub forced_offs: u32,
    /// Ons that the power sync forced.
    pub forced_ons: u32,
    /// How often the power sync has looked.
    pub syncs: u32,
}

impl Sent {
    /// Counts one.
    pub fn count(&mut self, send: Send) {
        let counter = match (send.command, send.forced) {
            (Command::On, false) => &mut self.ons,
            (Command::On, true) => &mut self.forced_ons,
            (Command::HardOff | Command::SoftOff, false) => &mut self.offs,
            (Command::HardOff | Command::SoftOff, true) => &mut self.forced_offs,
        };
        *counter += 1;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    change: Change,
    /// When its command was sent; `None`: not yet.
    sent: Option<Duration>,
}

/// A host in Ironic's database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// It is in the database: not detached.
    pub enrolled: bool,
    /// `power_state`, as last read or reached.
    pub power: Option<Power>,
    /// `last_error` of a power change; taken by baremetal-operator.
    pub error: Option<String>,
    /// Maintenance with the fault `power failure`: the sync has given up.
    pub fault: bool,
    target: Option<Target>,
    mismatches: u32,
}

impl Node {
    /// A host as it is taken into the database.
    pub fn enrolled(power: Option<Power>) -> Self {
        Self {
            enrolled: true,
            power,
            ..Self::default()
        }
    }

    /// `target_power_state` is set: another request would be answered 409.
    pub fn is_busy(&self) -> bool {
        self.target.is_some()
    }

    /// Takes a request; false where it is busy or not there.
    pub fn request(&mut self, change: Change) -> bool {
        if self.is_busy() || !self.enrolled {
            return false;
        }
        self.error = None;
        self.target = Some(Target { change, sent: None });
        true
    }

    /// Goes on with the request after a reading. What is as wanted already is only recorded: no
    /// command is sent for it.
    pub fn advance(
        &mut self,
        read: Option<Power>,
        now: Duration,
        settings: &Settings,
    ) -> Option<Send> {
        let target = self.target.as_mut()?;
        let change = target.change;
        if read == Some(change.wanted()) && (change != Change::Reboot || target.sent.is_some()) {
            self.power = read;
            self.target = (change == Change::Reboot).then_some(Target {
                change: Change::On,
                sent: None,
            });
            return None;
        }
        let Some(since) = target.sent else {
            if read.is_none() {
                self.fail("the BMC cannot be read");
                return None;
            }
            target.sent = Some(now);
            return Some(Send {
                command: change.command(),
                forced: false,
            });
        };
        let limit = match change {
            Change::SoftOff => settings.soft,
            _ => settings.hard,
        };
        if now >= since + limit {
            self.power = read.or(self.power);
            self.fail("the power state did not change in time");
        }
        None
    }

    /// The request came to nothing.
    pub fn fail(&mut self, why: &str) {
        self.target = None;
        self.error = Some(why.to_owned());
    }

    /// The periodic power sync, after a reading; skipped while a request is worked on.
    pub fn sync(&mut self, read: Option<Power>, settings: &Settings) -> Option<Send> {
        if !self.enrolled || self.is_busy() {
            return None;
        }
        let Some(real) = read else {
            self.mismatches += 1;
            self.fault |= self.mismatches > settings.sync_retries;
            return None;
        };
        let known = self.power.filter(|known| *known != real && !self.fault);
        let Some(known) = known else {
            self.power = read;
            self.fault = false;
            self.mismatches = 0;
            return None;
        };
        self.mismatches += 1;
        if !settings.force || self.mismatches > settings.sync_retries {
            self.power = read;
            self.fault = settings.force;
            self.mismatches = 0;
            return None;
        }
        let command = match known {
            Power::On => Command::On,
            Power::Off => Command::HardOff,
        };
        Some(Send {
            command,
            forced: true,
        })
    }
}
