//! Outcomes of power operations, and their messages.

use std::{fmt, time::Duration};

use super::proof::{LEAST_UPTIME, LONGEST_UPTIME};
use crate::{ErrorKind, FirmwareUpdate, PowerCommand, PowerState, expected::Mismatch};

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The state was confirmed.
    Confirmed {
        /// The confirmed state.
        state: PowerState,
        /// Whether a command was needed.
        commanded: bool,
    },
    /// Forced off: the host did not shut down, or the BMC could not request it.
    Forced {
        /// Whether the host may have been requested to shut down: the BMC took the request, or did not answer it.
        requested: bool,
    },
    /// On again after having been off.
    Cycled {
        /// Whether the host was off when the operation began.
        was_off: bool,
    },
    /// The BMC accepted a command that leads to no state of its own.
    Taken {
        /// The command that was requested.
        command: PowerCommand,
        /// The power state after it.
        state: Option<PowerState>,
    },
    /// The BMC reports off but took no power-off of this operation, and did not refuse it with the exact message
    /// for "already off". That proves nothing: after its own reset a BMC may report off for a running host.
    NotTaken,
    /// The BMC reports off, and took a power-off of this operation or refused it as already off, but nothing
    /// proves that it knows the state: it reported off before the command already, or may have restarted since.
    Unproven {
        /// The uptime that its manager reports, if any.
        uptime: Option<Duration>,
    },
    /// A command that is not repeated got no response. Whether it was carried out is unknown.
    Unknown {
        /// The command that was requested.
        command: PowerCommand,
        /// The power state after it.
        state: Option<PowerState>,
    },
    /// The host did not shut down within its limit, and was not to be forced.
    NotShutDown {
        /// The time limit of the shutdown.
        limit: Duration,
        /// The last reading.
        last: Option<PowerState>,
    },
    /// The host is off, but the command needs power. Nothing was sent.
    NeedsPower {
        /// The command that was requested.
        command: PowerCommand,
    },
    /// The deadline passed before the command could be sent.
    NotSent {
        /// The command that was requested.
        command: PowerCommand,
        /// The last reading.
        last: Option<PowerState>,
        /// The deadline that passed.
        after: Duration,
    },
    /// The deadline passed before the state was confirmed.
    Unconfirmed {
        /// The requested state.
        wanted: PowerState,
        /// The last reading.
        last: Option<PowerState>,
        /// The deadline that passed.
        after: Duration,
    },
    /// A permanent failure.
    Failed(ErrorKind),
    /// The BMC manages another system than expected.
    IdentityMismatch(Mismatch),
    /// An update of firmware runs, so the next command that takes the power was not sent.
    FirmwareUpdate {
        /// The update that the BMC was found to run.
        update: FirmwareUpdate,
        /// Number of commands that were sent before it was seen. They may still take effect; a cycle has switched its
        /// host on again.
        commands: u32,
    },
    /// The operation was cancelled.
    Cancelled,
    /// The caller is gone, so nothing more is sent (F17).
    CallerGone {
        /// Whether the operation was a cycle that ended with a power-on before off was confirmed.
        is_on: bool,
    },
    /// The hooks of its runner stopped it.
    Stopped,
}

impl Outcome {
    /// Whether the requested result was reached.
    pub fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Confirmed { .. } | Self::Forced { .. } | Self::Cycled { .. } | Self::Taken { .. }
        )
    }
}

impl fmt::Display for Outcome {
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
            Self::Forced { requested: true } => {
                f.write_str("confirmed off, by force: the host did not shut down")
            }
            Self::Forced { requested: false } => f.write_str(
                "confirmed off, by force: the host was not requested to shut down, because the BMC took no such \
                 request",
            ),
            Self::Cycled { was_off: false } => f.write_str("was off, and is confirmed on again"),
            Self::Cycled { was_off: true } => {
                f.write_str("was already off, was sent another power-off, and is confirmed on")
            }
            Self::NotTaken => write!(
                f,
                "off is not confirmed: the BMC reports off, but gives no answer to the power-off, or refuses it \
                 without reporting that the host is already off, which proves nothing; {WAYS_OUT}"
            ),
            Self::Unproven { uptime } => write!(
                f,
                "off is not proven: the BMC reported off before it was sent the power-off, or was \
                 interrupted since, and after a reset of its own a BMC may report off for a host that \
                 runs; {}; {WAYS_OUT}",
                Uptime(*uptime)
            ),
            Self::Taken { command, state } => {
                write!(
                    f,
                    "the BMC accepted the {}; {}",
                    command.words(),
                    Last(*state)
                )
            }
            Self::Unknown { command, state } => write!(
                f,
                "no answer to the {}, so it is unknown whether it was carried out ({}); it is not \
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
                "the host is off, and a {} requires power: nothing was sent; next: power on",
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
            Self::IdentityMismatch(mismatch) if mismatch.found.is_empty() => write!(
                f,
                "it is not known which system the BMC manages: it reports {mismatch}, and an equal one is \
                 required"
            ),
            Self::IdentityMismatch(mismatch) => write!(
                f,
                "the BMC manages another system: {mismatch}; check the BMC address of this host"
            ),
            Self::FirmwareUpdate { update, commands } => {
                write!(
                    f,
                    "firmware is being updated ({update}), and a host that loses its power now may be unusable \
                     afterwards: "
                )?;
                match commands {
                    0 => f.write_str("nothing was sent")?,
                    1 => f.write_str(
                        "nothing more was sent after the first command, which may still take effect",
                    )?,
                    sent => write!(
                        f,
                        "nothing more was sent after {sent} commands, which may still take effect"
                    )?,
                }
                f.write_str("; wait for its end, or ask again with --during-firmware-update")
            }
            Self::Cancelled => f.write_str("cancelled before the next command"),
            Self::CallerGone { is_on } => {
                f.write_str(
                    "ended early, because the program that asked for it has ended or does not renew its lease",
                )?;
                f.write_str(if *is_on {
                    "; the host is confirmed on"
                } else {
                    ""
                })
            }
            Self::Stopped => f.write_str("stopped before the next step"),
        }
    }
}

/// Advice to a person for an off without a proof.
const WAYS_OUT: &str = "what would prove it: readings of on before the power-off without interruption, the \
                        outlets of the host in the inventory (off, or below its standby_watts), or a \
                        power-off by its outlets; otherwise look at the host itself";

/// The uptime of the manager, in a clause.
struct Uptime(Option<Duration>);

impl fmt::Display for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("this BMC reports no LastResetTime of its manager, which could show it"),
            Some(uptime) if uptime > LONGEST_UPTIME => f.write_str(
                "the LastResetTime of its manager is years ago, which a clock that was set later explains",
            ),
            Some(uptime) => write!(
                f,
                "its manager has been up for only {}, and {} before the first reading of off are a \
                 proof: try again later",
                minutes(uptime),
                minutes(LEAST_UPTIME)
            ),
        }
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
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

/// The word for a power state in messages.
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
            "the BMC refuses user or password; not retried, so that the account is not locked"
        }
        ErrorKind::Privilege => "the BMC account lacks the privilege for power control; grant it",
        ErrorKind::Tls => "the BMC's certificate is not trusted; set its CA or fingerprint",
        ErrorKind::System => "the BMC does not have this system; check the system in its address",
        ErrorKind::Unsupported => "the BMC cannot do this",
        ErrorKind::ButtonOnly => "the BMC can do this only by its power button",
        ErrorKind::Configuration => "the configuration for this BMC is wrong",
        ErrorKind::Refused => "the BMC refuses the command",
        _ => "the BMC failed",
    }
}
