//! The creator of a remediation: the check that its annotation names, or a version of this program that did
//! not write that annotation.

use kube::api::DynamicObject;
use rackhand_api::names::kinds;

use crate::store::api::FIELD_MANAGER;

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

/// Whether this program created an object: it manages the owner references, which only the creation sets.
pub(super) fn is_created_by_us(object: &DynamicObject) -> bool {
    let entries = object.metadata.managed_fields.iter().flatten();
    let mut ours = entries.filter(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
    ours.any(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|f| f.0.pointer("/f:metadata/f:ownerReferences").is_some())
    })
}
