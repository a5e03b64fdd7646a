//! How a power operation can be over, in words.

use std::{fmt, time::Duration};

use rackhand_bmc::{ErrorKind, PowerState, SystemIdentity, UuidMatch, same_system_uuid};

/// Whom the BMC must manage; what is `None` is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Expected {
    /// SMBIOS system UUID, in either byte order.
    pub system_uuid: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

/// Two identities that should be one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mismatch {
    /// Which value.
    pub what: &'static str,
    /// What we were told.
    pub expected: String,
    /// What the BMC says.
    pub found: String,
}

impl Expected {
    /// What speaks against the system behind the BMC. A value that either side does not know
    /// says nothing, and a UUID that agrees settles it: serials are written in more than one way.
    pub fn mismatch(&self, found: &SystemIdentity) -> Option<Mismatch> {
        if let (Some(expected), Some(found)) = (&self.system_uuid, &found.system_uuid) {
            match same_system_uuid(expected, found) {
                UuidMatch::Same => return None,
                UuidMatch::Different => {
                    return Some(Mismatch {
                        what: "system UUID",
                        expected: expected.clone(),
                        found: found.clone(),
                    });
                }
                UuidMatch::Unknown => {}
            }
        }
        match (&self.serial, &found.serial) {
            (Some(expected), Some(found)) if !same_serial(expected, found) => Some(Mismatch {
                what: "serial number",
                expected: expected.clone(),
                found: found.clone(),
            }),
            _ => None,
        }
    }
}

fn same_serial(a: &str, b: &str) -> bool {
    a.trim().eq_ignore_ascii_case(b.trim())
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The state was read as often as asked.
    Confirmed {
        /// The state.
        state: PowerState,
        /// Whether we had to command it.
        commanded: bool,
    },
    /// The deadline passed first.
    Unconfirmed {
        /// What was asked for.
        wanted: PowerState,
        /// The last reading.
        last: Option<PowerState>,
        /// The deadline.
        after: Duration,
    },
    /// It could not work.
    Failed(ErrorKind),
    /// The BMC manages another system.
    IdentityMismatch(Mismatch),
    /// Somebody stopped it.
    Cancelled,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirmed { state, commanded } => {
                let word = state_word(*state);
                if *commanded {
                    write!(f, "confirmed {word}")
                } else {
                    write!(f, "confirmed {word}; no command was needed")
                }
            }
            Self::Unconfirmed {
                wanted,
                last,
                after,
            } => {
                let word = state_word(*wanted);
                write!(f, "not confirmed {word} within {after:?}: ")?;
                match last {
                    Some(state) => write!(f, "the last reading was {}", state_word(*state)),
                    None => f.write_str("the BMC could not be read"),
                }
            }
            Self::Failed(kind) => f.write_str(advice(*kind)),
            Self::IdentityMismatch(Mismatch {
                what,
                expected,
                found,
            }) => write!(
                f,
                "the BMC manages another system: {what} {found}, expected {expected}; check the \
                 BMC address of this host"
            ),
            Self::Cancelled => f.write_str("cancelled before the next command"),
        }
    }
}

/// A power state as people write it.
pub fn state_word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => "on",
        PowerState::Off => "off",
        PowerState::PoweringOn => "powering on",
        PowerState::PoweringOff => "powering off",
        PowerState::Unknown => "unknown",
    }
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Authentication => {
            "the BMC refuses user or password; tried no further, so as not to lock the account"
        }
        ErrorKind::Privilege => {
            "the BMC's user may not do this; give it the right to power control"
        }
        ErrorKind::Tls => "the BMC's certificate is not trusted; set its CA or fingerprint",
        ErrorKind::System => "the BMC does not have this system; check the system in its address",
        ErrorKind::Unsupported => "the BMC cannot do this",
        ErrorKind::Configuration => "the configuration for this BMC is wrong",
        _ => "the BMC failed",
    }
}
