//! Ironic's record of a host and its power changes, as a pure state machine.
//!
//! Holds the database's view of power: the current request, the last reading, the forced sync. It reads
//! neither a clock nor a BMC.

use std::time::Duration;

use super::Settings;

/// Power states of Ironic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// On, or powering on.
    On,
    /// Off, or powering off: Ironic's Redfish driver does not distinguish them.
    Off,
}

impl Power {
    /// Maps Redfish's `PowerState`; `None` for a value that Ironic does not know.
    pub fn of_redfish(word: &str) -> Option<Self> {
        match word {
            "On" | "PoweringOn" => Some(Self::On),
            "Off" | "PoweringOff" => Some(Self::Off),
            _ => None,
        }
    }
}

/// Power changes that baremetal-operator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Switch on.
    On,
    /// Cut the power.
    HardOff,
    /// Request a shutdown by the operating system.
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

/// A command to send now, with its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// The command.
    pub command: Command,
    /// Whether the power sync causes it, and not a request of baremetal-operator.
    pub forced: bool,
}

/// Counters of sent power commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// Hard and soft offs at baremetal-operator's request.
    pub offs: u32,
    /// Power-ons at baremetal-operator's request.
    pub ons: u32,
    /// Offs that the power sync forced.
    pub forced_offs: u32,
    /// Ons that the power sync forced.
    pub forced_ons: u32,
    /// Number of power syncs.
    pub syncs: u32,
}

impl Sent {
    /// Counts a command.
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
    /// When the command was sent; `None` if not yet.
    sent: Option<Duration>,
}

/// A host in Ironic's database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Whether the host is in the database, so not detached.
    pub enrolled: bool,
    /// `power_state`: the last reading or the last completed change.
    pub power: Option<Power>,
    /// `last_error` of a power change; cleared by baremetal-operator.
    pub error: Option<String>,
    /// Whether the host is in maintenance with the fault `power failure`, because the sync has given up.
    pub fault: bool,
    target: Option<Target>,
    mismatches: u32,
    /// A request is carried out by an Ironic outside of this record.
    busy: bool,
}

impl Node {
    /// A newly enrolled host.
    pub fn enrolled(power: Option<Power>) -> Self {
        Self {
            enrolled: true,
            power,
            ..Self::default()
        }
    }

    /// A host as read from another Ironic.
    pub fn read(power: Option<Power>, busy: bool, error: Option<String>) -> Self {
        Self {
            busy,
            error,
            ..Self::enrolled(power)
        }
    }

    /// Whether `target_power_state` is set, so that another request gets status 409.
    pub fn is_busy(&self) -> bool {
        self.target.is_some() || self.busy
    }

    /// Accepts a request; false if the host is busy or not enrolled.
    pub fn request(&mut self, change: Change) -> bool {
        if self.is_busy() || !self.enrolled {
            return false;
        }
        self.error = None;
        self.target = Some(Target { change, sent: None });
        true
    }

    /// Continues a request after a reading. If the host has the requested state already, it is recorded
    /// without a command.
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

    /// Ends a request with an error.
    pub fn fail(&mut self, why: &str) {
        self.target = None;
        self.error = Some(why.to_owned());
    }

    /// The periodic power sync, after a reading; skipped during a request.
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
