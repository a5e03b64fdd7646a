//! The objects that a view is computed from, from any source.

use std::collections::BTreeSet;

use crate::checks::FleetObjects;

/// Objects at one time, from a cluster or from files.
#[derive(Default)]
pub(super) struct Snapshot {
    /// Whether the objects come from files, in which any object may be missing.
    pub(super) from_files: bool,
    /// Objects of any kind, and the Nodes.
    pub(super) seen: FleetObjects,
    /// Kinds of remediations that the cluster does not serve, as `Kind of group/version`.
    pub(super) not_served: BTreeSet<String>,
    /// Whether OpenShift's own Machine controllers run, or why that is not known.
    pub(super) controllers: Option<Result<bool, String>>,
    /// What could not be read, or is unusual.
    pub(super) notes: Vec<String>,
}
