//! The Redfish service of a simulated BMC: HTTP/1.1, over TLS or plain, on a port of its own.
//!
//! ```text
//! server.rs         listener, TLS, restarts   vendor_profiles.rs  differences of makes (the table)
//! faulty_stream.rs  connections with faults   profile.rs          what can differ
//! http.rs           one request, with faults  etag.rs, query.rs   rules of HTTP
//! service.rs        the order of checks       auth.rs, accounts.rs, session.rs  authorisation
//! path.rs           the known paths           errors.rs           refusals
//! documents/        responses to GET          actions.rs          effects of POST
//!                                             patch.rs            effects of PATCH and DELETE
//! ```
//!
//! Owns the protocol. Must never hold power state: the host does. Checked by DMTF's validators
//! (`tests/tests/rack/redfish_validators.rs`), not by Rackhand's client.

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
    Accepted, Allowable, Already, BootFacts, IfMatch, LedProperty, LogPlace, PostReport, Profile,
    Refusal, RestartFacts, TagKind, Telemetry,
};
pub use session::{Session, SessionTable};
pub use vendor_profiles::Vendor;

pub(super) use errors::refusal_body;
pub(super) use server::serve;
