//! Why a BMC could not be read or commanded.

use std::time::Duration;

/// What kind of failure: decides about retry and about the advice to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No connection: refused, no route, name not found, reset.
    Unreachable,
    /// No complete answer in time.
    Timeout,
    /// Certificate not trusted, or no common TLS version.
    Tls,
    /// User or password refused.
    Authentication,
    /// The user may not do this.
    Privilege,
    /// The answer is not what the protocol says.
    Protocol,
    /// No such system, or several and none named.
    System,
    /// Not now: starting up, out of sessions, overloaded.
    Busy,
    /// The BMC cannot do this at all.
    Unsupported,
    /// The BMC understood and said no.
    Refused,
    /// Our own configuration is wrong.
    Configuration,
}

impl ErrorKind {
    /// Whether the same call may work later without anybody changing anything.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::Timeout | Self::Protocol | Self::Busy | Self::Refused
        )
    }

    /// A label for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Authentication => "authentication",
            Self::Privilege => "privilege",
            Self::Protocol => "protocol",
            Self::System => "system",
            Self::Busy => "busy",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
            Self::Configuration => "configuration",
        }
    }
}

/// Why a BMC could not be read or commanded. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("BMC {bmc}: {message}")]
pub struct BmcError {
    /// The kind.
    pub kind: ErrorKind,
    /// The BMC's address, without credentials.
    pub bmc: String,
    /// What happened and what to do next.
    pub message: String,
    /// The BMC asked to wait this long (Retry-After).
    pub retry_after: Option<Duration>,
    /// Whether the request may have reached the BMC although no answer came back.
    pub maybe_sent: bool,
}
