//! The Redfish service of a simulated BMC: HTTP/1.1, over TLS or plain, on a port of its own.
//!
//! ```text
//! server.rs   listener, TLS, restarts      makes.rs     how makes differ (the table)
//! wire.rs     connections that tear        profile.rs   in what they can differ
//! http.rs     one request, with faults     etag.rs, query.rs   rules of HTTP
//! service.rs  the order of checks          auth.rs, accounts.rs, session.rs   who may
//! place.rs    which paths there are        tasks.rs     202 and after
//! documents/  what a GET shows             actions.rs   what a POST does
//! errors.rs   how it refuses               changes.rs   what a PATCH or DELETE does
//! ```
//!
//! Owns the protocol. Must never hold power state: the host does. Judged by DMTF's validators
//! (`tests/tests/rack/redfish_validators.rs`), not by the client that Rackhand has.

mod accounts;
mod actions;
mod auth;
mod documents;
mod errors;
mod etag;
mod faulty_stream;
mod http;
mod patch;
mod path;
mod profile;
mod query;
mod response;
mod server;
mod service;
mod session;
mod vendor_profiles;

pub use accounts::{Account, AccountTable, Role};
pub use profile::{
    Accepted, Allowable, Already, BootFacts, IfMatch, LightProperty, LogPlace, PostReport, Profile,
    Refusal, RestartFacts, TagKind, Telemetry,
};
pub use session::{Session, SessionTable};
pub use vendor_profiles::Vendor;

pub(super) use errors::refusal_body;
pub(super) use server::serve;
