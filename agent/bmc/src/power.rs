//! Power states, and what can be asked to change them.

use jiff::Timestamp;

/// What the BMC itself says about the power of its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// Exactly on.
    On,
    /// Exactly off: Redfish `Off`, IPMI power bit clear. Nothing else is off.
    Off,
    /// On its way up.
    PoweringOn,
    /// On its way down, which is not off.
    PoweringOff,
    /// The BMC answered with another word, or with none.
    Unknown,
}

/// The protocol that gave an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// DMTF Redfish over HTTP(S).
    Redfish,
    /// IPMI 2.0 over RMCP+.
    Ipmi,
}

/// Which system a BMC says it manages; what it does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SystemIdentity {
    /// SMBIOS system UUID, as the BMC writes it.
    pub system_uuid: Option<String>,
    /// Serial number of the system.
    pub serial: Option<String>,
    /// Manufacturer.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
}

/// One answer of a BMC about power, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerReading {
    /// The state.
    pub state: PowerState,
    /// The state in the BMC's own word.
    pub raw: String,
    /// Who gave it.
    pub protocol: Protocol,
    /// The system that it belongs to.
    pub identity: SystemIdentity,
    /// When the answer was complete, by the wall clock.
    pub at: Timestamp,
    /// The BMC's address, without credentials.
    pub bmc: String,
}

/// What a BMC can be told about the power of its system.
///
/// Cycle is not among them: IPMI's and Redfish's own report success before the host is off, and
/// fail when it is off already. Off, confirmed, then on is a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PowerCommand {
    /// Power on. "Already on" is success.
    On,
    /// Hard power-off. "Already off" is success.
    Off,
    /// Ask the operating system to shut down (ACPI). Never becomes a hard power-off.
    SoftOff,
    /// Hard reset, without an off between. Refused by most BMCs when the host is off.
    Reset,
    /// Diagnostic interrupt (NMI), which makes most operating systems dump and restart.
    Nmi,
}

impl PowerCommand {
    /// Every command.
    pub const ALL: [Self; 5] = [Self::On, Self::Off, Self::SoftOff, Self::Reset, Self::Nmi];

    /// Whether doing it twice is doing it once. What is not goes to a BMC in one datagram or one
    /// request, once; without an answer nobody knows whether it was done.
    ///
    /// A soft off is not: a second press of the power button can call off the first, or force.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::On | Self::Off)
    }

    /// The state that it leads to, where it leads to one.
    pub fn leads_to(self) -> Option<PowerState> {
        match self {
            Self::On => Some(PowerState::On),
            Self::Off | Self::SoftOff => Some(PowerState::Off),
            Self::Reset | Self::Nmi => None,
        }
    }

    /// In words, for messages: `power off`.
    pub fn words(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::SoftOff => "soft power off",
            Self::Reset => "reset",
            Self::Nmi => "diagnostic interrupt",
        }
    }
}

/// A BMC has taken a command. That says nothing about its being done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// As sent, for example `ForceOff`.
    pub command: String,
    /// What was answered, in short, for example `204`, or `409: already off`.
    pub answer: String,
}

/// The command of an [`Accepted`] for which nothing was sent.
const NOT_SENT: &str = "none";

impl Accepted {
    /// Nothing was sent, because the host is there already; says so in `answer`.
    pub fn not_needed(answer: impl Into<String>) -> Self {
        Self {
            command: NOT_SENT.to_owned(),
            answer: answer.into(),
        }
    }

    /// Whether a command went to the BMC.
    pub fn was_sent(&self) -> bool {
        self.command != NOT_SENT
    }
}
