//! Authority of callers, and power actions.

use std::fmt;

/// The authority of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Authority {
    /// A leader, with its term and the sequence number of this command.
    Controller {
        /// The name of the election.
        election: String,
        /// The number of the term.
        term: u64,
        /// Holder of the term.
        holder: String,
        /// Sequence number of this command.
        sequence: u64,
    },
    /// An operator, by certificate or local socket.
    Operator {
        /// The operator's name.
        name: String,
    },
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller {
                election,
                term,
                holder,
                ..
            } => write!(f, "controller {holder} (term {term} of {election})"),
            Self::Operator { name } => write!(f, "operator {name}"),
        }
    }
}

/// A power action that an operation carries out on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A hard power-off.
    Off {
        /// Whether the host is held off from then on.
        hold: bool,
    },
    /// A power-on.
    On,
    /// A power-off by the operating system.
    SoftOff,
    /// Off, confirmed, and on.
    Cycle,
    /// A reset without power-off.
    Reset,
    /// A non-maskable interrupt.
    Nmi,
}

impl Action {
    /// Name in the list of operations.
    pub fn word(self) -> &'static str {
        match self {
            Self::Off { .. } => "off",
            Self::On => "on",
            Self::SoftOff => "soft-off",
            Self::Cycle => "cycle",
            Self::Reset => "reset",
            Self::Nmi => "nmi",
        }
    }

    /// Whether the action can switch on a host that is off.
    pub fn may_power_on(self) -> bool {
        matches!(self, Self::On | Self::Cycle | Self::Reset)
    }

    /// Whether the BMC may still report the power state of before an earlier operation, so that a press of
    /// the power button for this action would undo what that has done. `earlier` is its action by name.
    pub fn may_undo(self, earlier: &str) -> bool {
        match self {
            Self::On => matches!(earlier, "on" | "cycle"),
            Self::SoftOff => matches!(earlier, "off" | "soft-off" | "cycle"),
            Self::Off { .. } | Self::Cycle | Self::Reset | Self::Nmi => false,
        }
    }

    /// Whether the action is allowed on a host held by another owner: it ends off, and keeps the
    /// hold.
    pub fn suits_a_hold(self) -> bool {
        matches!(self, Self::Off { hold: false } | Self::SoftOff)
    }
}
