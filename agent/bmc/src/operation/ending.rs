//! How a power operation can be over, in words.

use std::{fmt, time::Duration};

use crate::{ErrorKind, PowerCommand, PowerState, SystemIdentity, UuidMatch, same_system_uuid};

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
    /// Off, by force: the host did not shut down, or the BMC could not ask it to.
    Forced,
    /// On again after having been off.
    Cycled {
        /// Whether the host was off when the operation came.
        was_off: bool,
    },
    /// The BMC took a command that leads to no state of its own.
    Taken {
        /// Which.
        command: PowerCommand,
        /// What was read after it.
        state: Option<PowerState>,
    },
    /// The BMC reports off and took no power-off command of this operation. That proves nothing:
    /// after a reset of its own a BMC may report off for a host that runs.
    NotTaken,
    /// No answer came to a command that is not sent twice. Nobody knows whether it was carried
    /// out.
    Unknown {
        /// Which.
        command: PowerCommand,
        /// What was read after it.
        state: Option<PowerState>,
    },
    /// The host was asked to shut down and did not in its time; nobody wanted it forced.
    NotShutDown {
        /// Its time.
        limit: Duration,
        /// The last reading.
        last: Option<PowerState>,
    },
    /// The host is off, where the command needs one that has power. Nothing was sent.
    NeedsPower {
        /// Which.
        command: PowerCommand,
    },
    /// The deadline passed before the command could be sent.
    NotSent {
        /// Which.
        command: PowerCommand,
        /// The last reading.
        last: Option<PowerState>,
        /// The deadline.
        after: Duration,
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

impl Ending {
    /// Whether what was asked for has come true.
    pub fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Confirmed { .. } | Self::Forced | Self::Cycled { .. } | Self::Taken { .. }
        )
    }
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
            Self::Forced => f.write_str("confirmed off, by force: the host did not shut down"),
            Self::Cycled { was_off: false } => f.write_str("was off, and is confirmed on again"),
            Self::Cycled { was_off: true } => {
                f.write_str("was off already, was switched off once more, and is confirmed on")
            }
            Self::NotTaken => f.write_str(
                "off is not confirmed: the BMC reports off, but took no power-off command of this \
                 operation; next: power off",
            ),
            Self::Taken { command, state } => {
                write!(f, "the BMC took the {}; {}", command.words(), Last(*state))
            }
            Self::Unknown { command, state } => write!(
                f,
                "no answer to the {}, so nobody knows whether it was carried out ({}); it is not \
                 sent again by itself: look at the host's console, and ask again if it is needed",
                command.words(),
                Last(*state)
            ),
            Self::NotShutDown { limit, last } => write!(
                f,
                "the host did not shut down within {limit:?}, it was not forced: {}; next: power \
                 off",
                Last(*last)
            ),
            Self::NeedsPower { command } => write!(
                f,
                "the host is off, and a {} needs one that is on: nothing was sent; next: power on",
                command.words()
            ),
            Self::NotSent {
                command,
                last,
                after,
            } => write!(
                f,
                "the {} was not sent within {after:?}: {}",
                command.words(),
                Last(*last)
            ),
            Self::Unconfirmed {
                wanted,
                last,
                after,
            } => write!(
                f,
                "not confirmed {} within {after:?}: {}",
                state_word(*wanted),
                Last(*last)
            ),
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

/// The last reading, in a sentence.
struct Last(Option<PowerState>);

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(state) => write!(f, "the last reading was {}", state_word(state)),
            None => f.write_str("the BMC could not be read"),
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
        ErrorKind::Refused => "the BMC refuses the command",
        _ => "the BMC failed",
    }
}
