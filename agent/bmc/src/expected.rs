//! The identity that a system must have, and how a reading differs from it.

use std::fmt;

use rackhand_identity::{IdentityMatch, compare_serials, compare_system_uuids};

use crate::SystemIdentity;

/// Identity that a system must have; `None` is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Expected {
    /// SMBIOS system UUID, in either byte order.
    pub system_uuid: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// A system that reports no identity is not the expected one.
    pub is_required: bool,
}

/// A difference between the expected and the reported identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mismatch {
    /// The compared property.
    pub what: &'static str,
    /// The expected value.
    pub expected: String,
    /// The value that the BMC reports; empty: it reports none.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            expected,
            found,
        } = self;
        if found.is_empty() {
            write!(f, "no {what}, expected {expected}")
        } else {
            write!(f, "{what} {found}, expected {expected}")
        }
    }
}

impl Expected {
    /// Whether nothing is expected, in which case every system is the expected one.
    pub fn is_empty(&self) -> bool {
        self.system_uuid.is_none() && self.serial.is_none()
    }

    /// Compares the reported identity. A value that either side lacks is not compared, and equal UUIDs
    /// settle it, because serial numbers have several notations.
    pub fn compare(&self, found: &SystemIdentity) -> IdentityMatch {
        match (self.compare_uuids(found), self.compare_serials(found)) {
            (IdentityMatch::Unknown, serials) => serials,
            (uuids, _) => uuids,
        }
    }

    /// The difference to the reported identity, if any.
    pub fn mismatch(&self, found: &SystemIdentity) -> Option<Mismatch> {
        let difference = |what, expected: &Option<String>, found: &Option<String>| {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            Some(Mismatch {
                what,
                expected: text(expected),
                found: text(found),
            })
        };
        let uuid = || difference("system UUID", &self.system_uuid, &found.system_uuid);
        let serial = || difference("serial number", &self.serial, &found.serial);
        match (self.compare_uuids(found), self.compare_serials(found)) {
            (IdentityMatch::Same, _) | (IdentityMatch::Unknown, IdentityMatch::Same) => None,
            (IdentityMatch::Different, _) => uuid(),
            (IdentityMatch::Unknown, IdentityMatch::Different) => serial(),
            (IdentityMatch::Unknown, IdentityMatch::Unknown) if !self.is_required => None,
            _ if self.system_uuid.is_some() => uuid(),
            _ if self.serial.is_some() => serial(),
            _ => None,
        }
    }

    fn compare_uuids(&self, found: &SystemIdentity) -> IdentityMatch {
        match (&self.system_uuid, &found.system_uuid) {
            (Some(expected), Some(found)) => compare_system_uuids(expected, found),
            _ => IdentityMatch::Unknown,
        }
    }

    fn compare_serials(&self, found: &SystemIdentity) -> IdentityMatch {
        match (&self.serial, &found.serial) {
            (Some(expected), Some(found)) => compare_serials(expected, found),
            _ => IdentityMatch::Unknown,
        }
    }
}
