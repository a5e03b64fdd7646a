//! Whether a Node is unhealthy, by its conditions (docs/reference/medik8s.md, Evaluation).
//!
//! Must never call a Node healthy about which it cannot say since when it is not.

use std::fmt;

use jiff::Timestamp;

use super::{Check, ConditionRule, NodeFacts};
use crate::health::deadline;

/// What the conditions of a Node come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// No rule fits.
    Healthy,
    /// A rule fits, and its time is not over: until when; `None`: nobody can say. Such a Node counts
    /// neither as healthy nor as unhealthy.
    Soon(Option<Timestamp>),
    /// A rule fits and its time is over.
    Matching(Cause),
}

/// Why a Node is unhealthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A condition has lasted for too long.
    Condition {
        /// Condition type.
        type_: String,
        /// Status of the condition.
        status: String,
        /// When it began to hold.
        since: Timestamp,
    },
    /// Its kubelet has said nothing since the Node was made.
    NeverJoined {
        /// When it was made.
        created: Timestamp,
    },
}

// === impl Cause ===

impl Cause {
    /// Since when what it speaks of holds.
    pub fn since(&self) -> Timestamp {
        match self {
            Self::Condition { since, .. } => *since,
            Self::NeverJoined { created } => *created,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition {
                type_,
                status,
                since,
            } => write!(f, "condition {type_} is {status} since {since}"),
            Self::NeverJoined { created } => {
                write!(f, "it has not joined since it was made at {created}")
            }
        }
    }
}

/// What makes, or will make, a Node unhealthy by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseDeadline {
    /// What makes the Node unhealthy.
    pub cause: Cause,
    /// After when; strictly.
    pub until: Timestamp,
}

/// What a rule finds: what makes the Node unhealthy, and after when; `None`: nobody can say.
type Finding = Option<CauseDeadline>;

/// All rules that match a Node, in their order.
fn findings(check: &Check, node: &NodeFacts) -> Vec<Finding> {
    if check.spares_terminating && node.is_terminating() {
        return Vec::new();
    }
    if let Some(timeout) = check.startup_timeout.filter(|_| !node.has_joined()) {
        let never_joined = node.created.map(|created| CauseDeadline {
            cause: Cause::NeverJoined { created },
            until: deadline(created, timeout),
        });
        return vec![never_joined];
    }
    let matching = |rule: &ConditionRule| {
        let condition = rule.matching(&node.conditions)?;
        Some(condition.last_transition.map(|since| CauseDeadline {
            cause: Cause::Condition {
                type_: rule.type_.clone(),
                status: rule.status.clone(),
                since,
            },
            until: deadline(since, rule.timeout),
        }))
    };
    check.conditions.iter().filter_map(matching).collect()
}

/// Judges one Node. One rule whose time is over wins over others whose time is not; a condition
/// that is absent matches no rule.
pub fn classify(check: &Check, node: &NodeFacts, now: Timestamp) -> Class {
    let findings = findings(check, node);
    let known = || findings.iter().flatten();
    if let Some(over) = known().find(|onset| now > onset.until) {
        return Class::Matching(over.cause.clone());
    }
    let first = known().map(|onset| onset.until).min();
    if findings.is_empty() {
        Class::Healthy
    } else {
        Class::Soon(first)
    }
}

/// All rules that match a Node, for those who ask why. Where the time of one of them is over,
/// [`classify`] calls the Node unhealthy.
pub fn onsets(check: &Check, node: &NodeFacts) -> Vec<CauseDeadline> {
    findings(check, node).into_iter().flatten().collect()
}
