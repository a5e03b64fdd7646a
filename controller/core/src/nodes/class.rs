//! Whether a Node is unhealthy, by its conditions (docs/reference/medik8s.md, Evaluation).
//!
//! Must never call a Node healthy about which it cannot say since when it is not.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Check, NodeFacts};

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
        /// Its status.
        status: String,
        /// Since when.
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
pub struct Onset {
    /// What.
    pub cause: Cause,
    /// After when; strictly.
    pub until: Timestamp,
}

/// So much later; the end of time where there is no such time.
pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Looks at one Node. One rule whose time is over wins over others whose time is not; a condition
/// that is absent fits no rule.
pub fn classify(check: &Check, node: &NodeFacts, now: Timestamp) -> Class {
    if check.spares_terminating && node.is_terminating() {
        return Class::Healthy;
    }
    if let Some(timeout) = check.startup_timeout.filter(|_| !node.has_joined()) {
        let Some(created) = node.created else {
            return Class::Soon(None);
        };
        let until = later(created, timeout);
        return if now > until {
            Class::Matching(Cause::NeverJoined { created })
        } else {
            Class::Soon(Some(until))
        };
    }
    let mut soon: Option<Option<Timestamp>> = None;
    for rule in &check.conditions {
        let fits = |c: &&crate::health::Condition| c.type_ == rule.type_;
        let Some(condition) = node.conditions.iter().find(fits) else {
            continue;
        };
        if condition.status != rule.status {
            continue;
        }
        let Some(since) = condition.last_transition else {
            soon = Some(soon.flatten());
            continue;
        };
        let until = later(since, rule.duration);
        if now > until {
            return Class::Matching(Cause::Condition {
                type_: rule.type_.clone(),
                status: rule.status.clone(),
                since,
            });
        }
        let first = soon.flatten().map_or(until, |known| known.min(until));
        soon = Some(Some(first));
    }
    soon.map_or(Class::Healthy, Class::Soon)
}

/// All rules that fit a Node, for those who ask why. Where one of them is over, [`classify`] calls the
/// Node unhealthy.
pub fn onsets(check: &Check, node: &NodeFacts) -> Vec<Onset> {
    if check.spares_terminating && node.is_terminating() {
        return Vec::new();
    }
    if let Some(timeout) = check.startup_timeout.filter(|_| !node.has_joined()) {
        let made = node.created.map(|created| Onset {
            cause: Cause::NeverJoined { created },
            until: later(created, timeout),
        });
        return made.into_iter().collect();
    }
    let fits = |rule: &super::ConditionRule| {
        let mut conditions = node.conditions.iter();
        let found = conditions.find(|c| c.type_ == rule.type_)?;
        let since = found
            .last_transition
            .filter(|_| found.status == rule.status)?;
        Some(Onset {
            cause: Cause::Condition {
                type_: rule.type_.clone(),
                status: rule.status.clone(),
                since,
            },
            until: later(since, rule.duration),
        })
    };
    check.conditions.iter().filter_map(fits).collect()
}
