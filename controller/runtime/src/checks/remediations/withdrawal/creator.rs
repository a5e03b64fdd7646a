//! The creator of a remediation: the check that its annotation names.

use rackhand_api::names::kinds;

/// The check that created a remediation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Creator {
    /// The name of the check.
    pub(super) check: String,
    pub(super) uid: String,
}

/// The value of [`MADE_BY_ANNOTATION`] of a remediation.
pub(in crate::checks) fn made_by(check: &str, uid: &str) -> String {
    format!("{}/{check}/{uid}", kinds::MACHINE_HEALTH_CHECK)
}

// === impl Creator ===

impl Creator {
    /// Parses the value of [`MADE_BY_ANNOTATION`].
    pub(super) fn read(made_by: &str) -> Option<Self> {
        let mut parts = made_by.splitn(3, '/');
        let of_check = parts.next() == Some(kinds::MACHINE_HEALTH_CHECK);
        let (check, uid) = (parts.next()?, parts.next()?);
        (of_check && !check.is_empty() && !uid.is_empty()).then(|| Self {
            check: check.to_owned(),
            uid: uid.to_owned(),
        })
    }
}
