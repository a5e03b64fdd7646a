//! The remediation objects of checks: created from a template, deleted, and withdrawn once their check no longer
//! requires them.

pub(super) mod external_remediations;
pub(super) mod lifecycle;
pub(crate) mod orphan_scan;
pub(super) mod template;
pub(super) mod withdrawal;
