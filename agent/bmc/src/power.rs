//! Power states and power commands.

use jiff::Timestamp;

/// Power state of a system, as its BMC reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// The host is on.
    On,
    /// Exactly off: Redfish `Off`, IPMI power bit clear. Nothing else is off.
    Off,
    /// Powering on.
    PoweringOn,
    /// Powering off, which is not off.
    PoweringOff,
    /// The BMC reported another state, or none.
    Unknown,
}

/// The protocol of a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// DMTF Redfish over HTTP(S).
    Redfish,
    /// IPMI 2.0 over RMCP+.
    Ipmi,
}

/// Source of a power state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerSource {
    /// The BMC, by Redfish.
    Redfish,
    /// The BMC, by IPMI 2.0.
    Ipmi,
    /// All outlets that feed the host, by the protocols of their PDUs.
    Outlets,
}

impl From<Protocol> for PowerSource {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Redfish => Self::Redfish,
            Protocol::Ipmi => Self::Ipmi,
        }
    }
}

/// Identity of the managed system; `None` where it is not reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SystemIdentity {
    /// SMBIOS system UUID, in the notation of the BMC.
    pub system_uuid: Option<String>,
    /// Serial number of the system.
    pub serial: Option<String>,
    /// Manufacturer.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// How its resource names itself (Redfish).
    pub resource: ResourceName,
}

impl SystemIdentity {
    /// Whether it names a host, and not only a make or a resource of a BMC.
    pub fn names_host(&self) -> bool {
        self.system_uuid.is_some() || self.serial.is_some()
    }

    /// Whether Dell is its manufacturer.
    pub(crate) fn is_dell(&self) -> bool {
        self.vendor
            .as_ref()
            .is_some_and(|vendor| vendor.to_ascii_lowercase().starts_with("dell"))
    }

    /// Each of its values, or the one of `other` where it has none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            system_uuid: self.system_uuid.or(other.system_uuid),
            serial: self.serial.or(other.serial),
            vendor: self.vendor.or(other.vendor),
            model: self.model.or(other.model),
            resource: ResourceName {
                path: self.resource.path.or(other.resource.path),
                id: self.resource.id.or(other.resource.id),
                name: self.resource.name.or(other.resource.name),
            },
        }
    }
}

/// How the resource of a system names itself within its BMC; `None` where it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceName {
    /// `@odata.id`.
    pub path: Option<String>,
    /// `Id`.
    pub id: Option<String>,
    /// `Name`.
    pub name: Option<String>,
}

/// A power reading with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerReading {
    /// The power state, as this crate interprets `raw`.
    pub state: PowerState,
    /// The state as the BMC or the PDUs reported it.
    pub raw: String,
    /// Source of the state.
    pub source: PowerSource,
    /// Identity of the system that was read.
    pub identity: SystemIdentity,
    /// Wall-clock time at which the response was complete.
    pub at: Timestamp,
    /// The address of the BMC, or the outlets, without credentials.
    pub bmc: String,
    /// Number of the RMCP+ session that it was read over (IPMI); a session ends with a reset of the BMC. `None`:
    /// the protocol has no such sessions. A Redfish session is none, because some BMCs keep it over a reset.
    pub connection: Option<u64>,
    /// Whether the identify LED is lit or blinks, if the same response contains it.
    pub identify_led: Option<bool>,
}

/// A power command.
///
/// There is no cycle: the cycle commands of IPMI and Redfish report success before the host is off,
/// and fail if it is off already. Use [`Goal::Cycle`](crate::operation::Goal::Cycle).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PowerCommand {
    /// Power on. "Already on" is success.
    On,
    /// Hard power-off. "Already off" is success.
    Off,
    /// Requests a shutdown from the operating system (ACPI). Never becomes a hard power-off.
    SoftOff,
    /// Hard reset without a power-off. Most BMCs refuse it when the host is off.
    Reset,
    /// Diagnostic interrupt (NMI), which makes most operating systems dump and restart.
    Nmi,
    /// Power on by a press of the power button. A press switches a running host off, so it is sent only if
    /// [`On`](Self::On) fails with [`ErrorKind::ButtonOnly`](crate::ErrorKind::ButtonOnly), and only to a host
    /// that reads exactly off.
    OnByButton,
    /// Shutdown request by a press of the power button. A press switches on a host that is off, so it is sent only
    /// if [`SoftOff`](Self::SoftOff) fails with [`ErrorKind::ButtonOnly`](crate::ErrorKind::ButtonOnly), and only
    /// to a host that reads exactly on.
    SoftOffByButton,
}

impl PowerCommand {
    /// All commands.
    pub const ALL: [Self; 7] = [
        Self::On,
        Self::Off,
        Self::SoftOff,
        Self::Reset,
        Self::Nmi,
        Self::OnByButton,
        Self::SoftOffByButton,
    ];

    /// Whether the command is idempotent. A command that is not idempotent is sent once, in one datagram or
    /// request; without a response its result is unknown.
    ///
    /// A soft off is not idempotent: a second press of the power button can cancel the first, or force the host
    /// off. A press to switch a host on switches off a host that is on already.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::On | Self::Off)
    }

    /// The state that the command leads to, if any.
    pub fn leads_to(self) -> Option<PowerState> {
        match self {
            Self::On | Self::OnByButton => Some(PowerState::On),
            Self::Off | Self::SoftOff | Self::SoftOffByButton => Some(PowerState::Off),
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
            Self::OnByButton => "power on by the power button",
            Self::SoftOffByButton => "soft power off by the power button",
        }
    }

    /// Whether it presses the power button, whose effect depends on the power state.
    pub fn is_button(self) -> bool {
        matches!(self, Self::OnByButton | Self::SoftOffByButton)
    }
}

/// How a device answered a command that it did not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acceptance {
    /// A success status, or a task that did not fail.
    Taken,
    /// Refused, with the exact message of its make for a host that is in the requested state already; or not sent
    /// for that reason. This only repeats the state that the device assumes.
    AlreadyThere,
}

impl Acceptance {
    /// The acceptance of two commands together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Taken, Self::Taken) => Self::Taken,
            _ => Self::AlreadyThere,
        }
    }
}

/// The power state that was read immediately before a command, in the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateBefore {
    /// The power state.
    pub state: PowerState,
    /// Whether the command was sent over the connection of the reading, which proves that the BMC has not
    /// restarted in between.
    pub same_connection: bool,
}

/// A command that a BMC accepted, which does not mean that it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// As sent, for example `ForceOff`.
    pub command: String,
    /// The response in short, for example `204`, or `409: already off`.
    pub answer: String,
    /// Whether the device took the command, or has refused it as done already.
    pub acceptance: Acceptance,
    /// The power state before it; `None`: not read in this call.
    pub before: Option<StateBefore>,
    /// The RMCP+ session that it was sent over (IPMI), as of [`PowerReading::connection`].
    pub connection: Option<u64>,
}

/// The command of an [`Accepted`] for which nothing was sent.
const NOT_SENT: &str = "none";

impl Accepted {
    /// A command that the device took.
    pub fn taken(command: impl Into<String>, answer: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            answer: answer.into(),
            acceptance: Acceptance::Taken,
            before: None,
            connection: None,
        }
    }

    /// A command that the device refused with the exact message for "already in this state".
    pub fn already_there(command: impl Into<String>, answer: impl Into<String>) -> Self {
        Self {
            acceptance: Acceptance::AlreadyThere,
            ..Self::taken(command, answer)
        }
    }

    /// No command was needed, because the host is in this state already; `answer` states this.
    pub fn not_needed(answer: impl Into<String>) -> Self {
        Self::already_there(NOT_SENT, answer)
    }

    /// Whether a command went to the BMC.
    pub fn was_sent(&self) -> bool {
        self.command != NOT_SENT
    }
}
