//! What a fleet tells of its machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::health::{Action, HealthConditionWrite, Verdict};

/// What has changed since the last [`super::Fleet::take`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FleetChanges {
    /// Machines that may want something now, see [`super::Fleet::wanted`]; in the order of their names.
    pub machines: BTreeSet<Arc<str>>,
    /// The gate or a counter may read otherwise than before.
    pub counts: bool,
    /// A name has come to the targets, or has left them.
    pub targets: bool,
}

/// What a machine wants now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingAction<'a, A = Action> {
    /// The UID of the Machine that it is about.
    pub uid: &'a str,
    /// The verdict that it follows from.
    pub verdict: &'a Verdict,
    /// The `HealthCheckSucceeded` that it should carry.
    pub condition: Option<HealthConditionWrite>,
    /// What to do.
    pub action: Option<A>,
}
