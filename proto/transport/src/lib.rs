//! Connections between controller, rack agent and command line.
//!
//! Owns: the identities in certificates, mutual TLS, the classification of failed calls, the admin server, and traces
//! across processes. Must never: decide about power, or know a message of the contract.

pub mod admin;
mod call;
mod connect;
pub mod identity;
pub mod otlp;
pub mod tls;
mod trace;

pub use call::{CallError, CallErrorKind, Refusal, classify, journal_of};
pub use connect::{
    CONNECT_TIMEOUT, ConnectError, agent_not_after, connect, connect_lazy, connect_lazy_over,
    connect_local,
};
pub use identity::{Identity, SpiffeId};
pub use tls::{ClientTls, ServerTls, TlsError, TlsFiles, WebTls};
pub use trace::{TraceContext, TraceError};
