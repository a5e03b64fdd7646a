//! The validated rules of a check.
//!
//! Owns the model into which every dialect is parsed; must never depend on a Kubernetes kind.

use std::time::Duration;

use jiff::Timestamp;

use super::Condition;
use crate::values::int_or_percent::IntOrPercent;

/// When remediation is allowed, by the number of machines that are not healthy. Both ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// `maxUnhealthy` / `unhealthyLessThanOrEqualTo`.
    AtMost(IntOrPercent),
    /// `unhealthyRange` / `unhealthyInRange`; `min <= max`.
    Range {
        /// The lowest number at which remediation is allowed.
        min: u32,
        /// The highest number at which remediation is allowed.
        max: u32,
    },
    /// The limit cannot be parsed, and remediation is never allowed.
    Unreadable,
}

/// A condition that makes a machine unhealthy once it has held for `timeout`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionRule {
    /// Condition type.
    pub type_: String,
    /// Condition status, compared as plain text.
    pub status: String,
    /// How long the condition has to hold.
    pub timeout: Duration,
}

/// The rules of one MachineHealthCheck: all of Cluster API's, and those that OpenShift shares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    /// How long a Machine may be without a Node; `None`: without limit.
    pub startup_timeout: Option<Duration>,
    /// Conditions of the Node, OR-combined.
    pub node_conditions: Vec<ConditionRule>,
    /// Conditions of the Machine (v1beta2 list), OR-combined.
    pub machine_conditions: Vec<ConditionRule>,
    /// The limit; the default is 100%.
    pub limit: Limit,
    /// Whether the check names a remediation template (external remediation); else the owner remediates.
    pub external: bool,
    /// Whether the check or its Cluster is paused, so that nothing but that is written.
    pub paused: bool,
}

/// When a timeout fires. A timeout beyond the maximum timestamp never fires.
pub(crate) fn deadline(since: Timestamp, timeout: Duration) -> Timestamp {
    since.checked_add(timeout).unwrap_or(Timestamp::MAX)
}

// === impl ConditionRule ===

impl ConditionRule {
    /// The condition that matches. An absent condition matches no rule, not even one for `Unknown`.
    pub(crate) fn matching<'a>(&self, conditions: &'a [Condition]) -> Option<&'a Condition> {
        let found = conditions.iter().find(|c| c.type_ == self.type_)?;
        (found.status == self.status).then_some(found)
    }
}

// === impl Limit ===

impl Limit {
    /// How many more machines may fail before remediation stops; `None`: `not_healthy` machines exceed
    /// the limit already (docs/reference/cluster-api.md, The limit).
    pub fn allowance(self, expected: u32, not_healthy: u32) -> Option<u32> {
        let (min, max) = match self {
            Self::AtMost(limit) => (0, limit.of(expected)),
            Self::Range { min, max } => (min, i64::from(max)),
            Self::Unreadable => return None,
        };
        if not_healthy < min || i64::from(not_healthy) > max {
            return None;
        }
        let rest = max.saturating_sub(i64::from(not_healthy));
        Some(u32::try_from(rest).unwrap_or(u32::MAX))
    }

    /// The limit as it was written, with the number that a percentage results in.
    pub fn describe(self, expected: u32) -> String {
        match self {
            Self::AtMost(limit @ IntOrPercent::Percent(_)) => {
                format!(
                    "maxUnhealthy {limit} of {expected} is {}",
                    limit.of(expected)
                )
            }
            Self::AtMost(limit @ IntOrPercent::Int(_)) => format!("maxUnhealthy is {limit}"),
            Self::Range { min, max } => format!("unhealthyRange is [{min}-{max}]"),
            Self::Unreadable => "maxUnhealthy cannot be parsed".to_owned(),
        }
    }
}
