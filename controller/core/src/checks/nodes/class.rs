//! Whether a Node is unhealthy, by its conditions (docs/reference/medik8s.md, Evaluation).
//!
//! Must never treat a Node as healthy because the transition time of its condition is missing.

use std::fmt;

use jiff::Timestamp;

use super::{Check, ConditionRule, NodeFacts};
use crate::checks::machines::{LONG_AGO, deadline};

/// The health of a Node by its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// No unhealthy condition of the check matches the Node.
    Healthy,
    /// A rule matches, and its duration has not passed. The value is when it has; `None`: unknown. Such a
    /// Node counts neither as healthy nor as unhealthy.
    Soon(Option<Timestamp>),
    /// A rule matches, and its duration has passed.
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
        /// `lastTransitionTime` of the condition.
        since: Timestamp,
    },
    /// The kubelet has not reported since the Node was created.
    NeverJoined {
        /// `creationTimestamp` of the Node.
        created: Timestamp,
    },
}

// === impl Cause ===

impl Cause {
    /// When the cause began.
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
            } if *since == LONG_AGO => write!(
                f,
                "condition {type_} is {status}, for an unknown time (it has no lastTransitionTime)"
            ),
            Self::Condition {
                type_,
                status,
                since,
            } => write!(f, "condition {type_} is {status} since {since}"),
            Self::NeverJoined { created } => {
                write!(f, "it has not joined since its creation at {created}")
            }
        }
    }
}

/// A cause, and when it makes the Node unhealthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseDeadline {
    /// What makes the Node unhealthy.
    pub cause: Cause,
    /// The Node is unhealthy strictly after this time.
    pub until: Timestamp,
}

/// A matching rule with its deadline; `None`: it is not known when the Node was created.
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
        let since = condition.since();
        Some(Some(CauseDeadline {
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

/// Evaluates one Node. A rule whose duration has passed takes precedence over the others; an absent
/// condition matches no rule.
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

/// All causes of a Node with their deadlines, for explanations. Once one deadline has passed,
/// [`classify`] returns [`Class::Matching`].
pub fn onsets(check: &Check, node: &NodeFacts) -> Vec<CauseDeadline> {
    findings(check, node).into_iter().flatten().collect()
}
