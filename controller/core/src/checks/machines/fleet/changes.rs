//! The changes that a fleet reports.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::checks::machines::{Action, HealthConditionWrite, Verdict};

/// What has changed since the last [`super::Fleet::take`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FleetChanges {
    /// Machines for which something may be due, see [`super::Fleet::wanted`]; in the order of their names.
    pub machines: BTreeSet<Arc<str>>,
    /// Whether the same is true of every unhealthy machine, of which there are too many to name, because the limit has
    /// opened or closed: see [`super::Fleet::unhealthy_after`].
    pub unhealthy: bool,
    /// Whether the limit or a counter may have changed.
    pub counts: bool,
    /// Whether the set of targets has changed.
    pub targets: bool,
}

/// What is due for a machine now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingAction<'a, A = Action> {
    /// UID of the Machine.
    pub uid: &'a str,
    /// The verdict on the Machine.
    pub verdict: &'a Verdict,
    /// The `HealthCheckSucceeded` to write, if any.
    pub condition: Option<HealthConditionWrite>,
    /// The action to carry out, if any.
    pub action: Option<A>,
}
