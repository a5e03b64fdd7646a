//! Privilege levels, and the level that each command needs.

use crate::Privilege;

/// Privilege level of a session (IPMI 2.0, section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::ipmi) enum Level {
    User,
    Operator,
    Administrator,
}

impl Level {
    /// The number on the wire.
    pub(in crate::ipmi) fn number(self) -> u8 {
        match self {
            Self::User => 2,
            Self::Operator => 3,
            Self::Administrator => 4,
        }
    }

    /// Spelling in an address.
    pub(in crate::ipmi) fn word(self) -> &'static str {
        match self {
            Self::User => Privilege::User.as_str(),
            Self::Operator => Privilege::Operator.as_str(),
            Self::Administrator => Privilege::Administrator.as_str(),
        }
    }

    /// `None`: CALLBACK, which allows no reads.
    pub(in crate::ipmi) fn of(privilege: Privilege) -> Option<Self> {
        match privilege {
            Privilege::Callback => None,
            Privilege::User => Some(Self::User),
            Privilege::Operator => Some(Self::Operator),
            Privilege::Administrator => Some(Self::Administrator),
        }
    }

    /// The level that a command needs (IPMI 2.0, appendix G; reads need USER, except for boot
    /// options).
    pub(in crate::ipmi) fn needed(net_fn: u8, command: u8) -> Self {
        match (net_fn, command) {
            // Chassis: control, identify, power restore policy, boot options.
            (0x00, 0x02 | 0x04 | 0x06 | 0x08 | 0x09) => Self::Operator,
            // Storage: write FRU; add, delete and clear SEL; set its clock.
            (0x0a, 0x12 | 0x44 | 0x46 | 0x47 | 0x49) => Self::Operator,
            // Application: cold and warm reset, user access and names, passwords.
            (0x06, 0x02 | 0x03 | 0x44 | 0x46 | 0x47) => Self::Administrator,
            _ => Self::User,
        }
    }
}
