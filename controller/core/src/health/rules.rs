//! What a check asks for, validated.
//!
//! Owns the model into which every dialect is read; must never depend on a Kubernetes kind.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::Condition;

/// A limit given as a count or a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntOrPercent {
    /// As is; may exceed the fleet, may be negative (never acts).
    Int(i64),
    /// Of the expected machines, rounded down (docs/reference/cluster-api.md, The limit).
    Percent(u32),
}

/// When remediation is allowed, by the number of machines that are not healthy. Both ends count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// `maxUnhealthy` / `unhealthyLessThanOrEqualTo`.
    AtMost(IntOrPercent),
    /// `unhealthyRange` / `unhealthyInRange`; `min <= max`.
    Range {
        /// Lower end.
        min: u32,
        /// Upper end.
        max: u32,
    },
}

/// A condition that makes unhealthy once it has held for longer than `timeout`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionRule {
    /// Condition type.
    pub type_: String,
    /// Condition status, compared as it stands.
    pub status: String,
    /// For how long.
    pub timeout: Duration,
}

/// One MachineHealthCheck, read and validated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    /// How long a Machine may be without a Node; `None`: for ever.
    pub startup_timeout: Option<Duration>,
    /// Conditions of the Node, OR-combined.
    pub node_conditions: Vec<ConditionRule>,
    /// Conditions of the Machine (v1beta2 list), OR-combined.
    pub machine_conditions: Vec<ConditionRule>,
    /// The limit; Cluster API's default is 100%.
    pub limit: Limit,
    /// Whether a remediation template is named (external remediation) or the owner remediates.
    pub external: bool,
    /// The check or its Cluster is paused: nothing is written but that.
    pub paused: bool,
}

/// The instant at which a timeout fires. One that lies past the end of time never does.
pub(crate) fn deadline(since: Timestamp, timeout: Duration) -> Timestamp {
    since.checked_add(timeout).unwrap_or(Timestamp::MAX)
}

// === impl ConditionRule ===

impl ConditionRule {
    /// The condition that matches. One that is absent matches no rule, not even one for `Unknown`.
    pub(crate) fn matching<'a>(&self, conditions: &'a [Condition]) -> Option<&'a Condition> {
        let found = conditions.iter().find(|c| c.type_ == self.type_)?;
        (found.status == self.status).then_some(found)
    }
}

// === impl IntOrPercent ===

impl IntOrPercent {
    /// The number that it means for a fleet. A share is rounded down: 40% of 6 is 2, of 2 it is 0
    /// (docs/reference/cluster-api.md, The limit).
    pub fn of(self, expected: u32) -> i64 {
        match self {
            Self::Int(count) => count,
            Self::Percent(share) => {
                let scaled = u64::from(expected) * u64::from(share) / 100;
                i64::try_from(scaled).unwrap_or(i64::MAX)
            }
        }
    }

    /// The number that it means for a fleet, where a share is rounded up; a negative one is 0.
    pub(crate) fn rounded_up(self, expected: u32) -> u64 {
        match self {
            Self::Int(count) => u64::try_from(count).unwrap_or(0),
            Self::Percent(share) => (u64::from(expected) * u64::from(share)).div_ceil(100),
        }
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(count) => write!(f, "{count}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

// === impl Limit ===

impl Limit {
    /// How many more machines may fail before remediation stops, 0 included; `None`: not allowed
    /// with this many that are not healthy (docs/reference/cluster-api.md, The limit).
    pub fn allowance(self, expected: u32, not_healthy: u32) -> Option<u32> {
        let (min, max) = match self {
            Self::AtMost(limit) => (0, limit.of(expected)),
            Self::Range { min, max } => (min, i64::from(max)),
        };
        if not_healthy < min || i64::from(not_healthy) > max {
            return None;
        }
        let rest = max.saturating_sub(i64::from(not_healthy));
        Some(u32::try_from(rest).unwrap_or(u32::MAX))
    }

    /// The limit as it was written, and the number that a share comes to.
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
        }
    }
}
