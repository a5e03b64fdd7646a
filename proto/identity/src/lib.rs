//! Comparison of reported host identities (F5, F14).
//!
//! Owns the interpretation of SMBIOS system UUIDs and serial numbers, and the selection of characters of foreign
//! texts that are shown, for the controller, the agent and the BMC clients. Must never treat two unknown
//! identities as equal. It depends on nothing, so that every crate can use it.

mod serial;
pub mod text;
mod uuid;

pub use serial::{compare_serials, is_known_text};
pub use uuid::{SystemUuid, compare_system_uuids};

/// Result of comparing two identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdentityMatch {
    /// Both are known and name one host.
    Same,
    /// Both are known and name two hosts.
    Different,
    /// At least one is not known: empty, unreadable, or a placeholder of the firmware.
    Unknown,
}
