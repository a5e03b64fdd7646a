//! Errors of BMC calls.

use std::time::Duration;

/// The kind of a failure; decides on retries and on the advice to the user.
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
    /// The account lacks the privilege.
    Privilege,
    /// The response violates the protocol.
    Protocol,
    /// The system does not exist, or there are several and the address names none.
    System,
    /// The BMC is starting, out of sessions, or overloaded.
    Busy,
    /// The BMC does not support this.
    Unsupported,
    /// Nothing was sent: the BMC can do this only by its power button, whose effect depends on the power
    /// state. The command for that is [`OnByButton`](crate::PowerCommand::OnByButton) or
    /// [`SoftOffByButton`](crate::PowerCommand::SoftOffByButton).
    ButtonOnly,
    /// The BMC has refused a command for its precondition, and has not carried it out (412, RFC 9110, 13.2.1; 428, RFC
    /// 6585, 3). The next one has the other form.
    Precondition,
    /// The BMC understood the request and rejected it.
    Refused,
    /// The configuration of this client is wrong.
    Configuration,
}

impl ErrorKind {
    /// Whether the same call may succeed later without a change of configuration.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::Timeout
                | Self::Protocol
                | Self::Busy
                | Self::Precondition
                | Self::Refused
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
            Self::ButtonOnly => "button-only",
            Self::Precondition => "precondition",
            Self::Refused => "refused",
            Self::Configuration => "configuration",
        }
    }
}

/// The error of a BMC call. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("BMC {bmc}: {message}")]
pub struct BmcError {
    /// The kind of failure, for decisions.
    pub kind: ErrorKind,
    /// The BMC's address, without credentials.
    pub bmc: String,
    /// What happened and what to do next.
    pub message: String,
    /// Time to wait before a retry (Retry-After).
    pub retry_after: Option<Duration>,
    /// Whether the request may have reached the BMC although no response arrived.
    pub maybe_sent: bool,
    /// Whether the call is known to have ended before a command reached the BMC. `false` for a command: it may have
    /// arrived, or it arrived and was refused.
    pub not_sent: bool,
}
