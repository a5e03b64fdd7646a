//! The Redfish service of a simulated BMC: HTTP/1.1, over TLS or plain, on a port of its own.
//!
//! ```text
//! http/       listener, TLS, faults, rules of HTTP   vendor_profiles.rs  differences of makes (the table)
//! accounts/   accounts, sessions, authorisation      profile.rs          what can differ
//! service.rs  the order of checks                    errors.rs           refusals
//! path.rs     the known paths                        actions.rs          effects of POST
//! documents/  responses to GET                       patch.rs            effects of PATCH and DELETE
//! recording/  documents of a recorded service
//! ```
//!
//! Owns the protocol. Must never hold power state: the host does. Checked by DMTF's validators
//! (`tests/tests/rack/redfish_validators.rs`), not by Rackhand's client.

mod accounts;
mod actions;
mod documents;
mod errors;
mod http;
mod patch;
mod path;
mod profile;
mod recording;
mod service;
mod vendor_profiles;

pub use accounts::session::{Session, SessionTable};
pub use accounts::{Account, AccountTable, Role};
pub use profile::{
    Accepted, ActionMatch, Allowable, Already, BootFacts, IfMatch, LedProperty, LogPlace,
    PostReport, Profile, Refusal, RestartFacts, TagKind, Telemetry, UpdatePlace,
};
pub use recording::{Recording, RecordingError};
pub use vendor_profiles::Vendor;

pub(super) use errors::refusal_body;
pub(super) use http::server::serve;
