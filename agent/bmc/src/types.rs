//! What every BMC protocol has in common.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use jiff::Timestamp;

/// What the BMC itself says about the power of its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// Exactly on.
    On,
    /// Exactly off: Redfish `Off`, IPMI power bit clear. Nothing else is off (F1).
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

/// A BMC has taken a command. That says nothing about its being done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// As sent, for example `ForceOff`.
    pub command: String,
    /// What was answered, in short, for example `204`, or `409: already off`.
    pub answer: String,
}

/// A boxed future of a BMC call.
pub type BmcFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BmcError>> + Send + 'a>>;

/// One BMC. Every call has a deadline of its own; none retries a command that is not idempotent.
pub trait Bmc: Send + Sync + fmt::Debug {
    /// The address without credentials, for messages.
    fn address(&self) -> &str;

    /// Reads power state and identity, never from a cache of ours.
    fn power(&self) -> BmcFuture<'_, PowerReading>;

    /// Hard power-off. "Already off" is `Ok`.
    fn off(&self) -> BmcFuture<'_, Accepted>;

    /// Power-on. "Already on" is `Ok`.
    fn on(&self) -> BmcFuture<'_, Accepted>;

    /// Gives back what the BMC keeps for us (sessions). Called before the client is dropped.
    fn close(&self) -> BmcFuture<'_, ()>;
}

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
