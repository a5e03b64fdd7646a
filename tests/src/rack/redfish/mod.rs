//! The Redfish service of a simulated BMC: HTTP/1.1, over TLS or plain, on a port of its own.
//!
//! ```text
//! server.rs   listener, TLS, faults        auth.rs     who may
//! routes.rs   what a request does          session.rs  sessions
//! documents.rs  what it shows              errors.rs   how it refuses
//! profile.rs  how makes differ
//! ```
//!
//! Owns the protocol. Must never hold power state: the host does.

mod auth;
mod documents;
mod errors;
mod profile;
mod routes;
mod server;
mod session;

pub use profile::{Accepted, Allowable, Already, Profile, Vendor};
pub use session::{Session, SessionTable};

pub(super) use server::serve;
