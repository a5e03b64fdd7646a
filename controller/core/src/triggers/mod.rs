//! What a label on a Node makes: one remediation for each time that somebody puts it there.
//!
//! Pure: the shell carries out one [`Decision`] for a Node, each of which is one write, and decides again. What a crash
//! or a late view may lead to follows from four facts:
//!
//! - A trigger has one name for its remediation of a Node ([`remediation_name`]), so there are never two.
//! - The remediation stays until the label is answered and the cooldown is over, so it is the record of both.
//! - The label is read live before a remediation is made, and changed only in the version that was read (F12).
//! - That the label is answered is recorded on the remediation after the label was changed. If that record is lost, a
//!   label that was put back meanwhile is answered together with the first one: nothing is switched twice for it.

mod labels;
mod left_alone;
mod names;
mod priority;
mod wait;

use std::time::Duration;

use jiff::Timestamp;

use crate::remediation::{State, Step};

pub use labels::{NodeLabel, is_restricted};
pub use left_alone::{Exclusions, MachineBehind, left_alone};
pub use names::remediation_name;
pub use priority::{Claim, acting};
pub use wait::{Obstacle, Wait};

/// How far a remediation is, as far as its trigger depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing has been switched.
    NotBegun,
    /// A power-off may have been sent, and the remediation has not ended.
    Begun,
    /// The Node is back.
    Succeeded,
    /// The host is off because the strategy keeps it off.
    KeptOff,
    /// No attempt is left, or it was aborted.
    Failed,
    /// It has failed, and keeps the host off.
    FailedOff,
}

impl Stage {
    /// By the recorded state; `None`: nothing was done yet.
    #[must_use]
    pub fn of(state: Option<&State>) -> Self {
        let Some(state) = state else {
            return Self::NotBegun;
        };
        let failed = state.failed().is_some();
        match state.step {
            // Nothing is switched yet, so that who takes the label away stops it.
            Step::Pending | Step::Evicting | Step::Holding if state.attempts.is_empty() => {
                Self::NotBegun
            }
            Step::Succeeded => Self::Succeeded,
            Step::Fenced if failed => Self::FailedOff,
            Step::Fenced | Step::Evicted => Self::KeptOff,
            Step::Escalated | Step::Blocked => Self::Failed,
            _ => Self::Begun,
        }
    }
}

/// The remediation that a trigger has made for a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnRemediation {
    /// How far it is.
    pub stage: Stage,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When it was recorded that its label is answered: the label was changed, or somebody has taken it away.
    pub answered: Option<Timestamp>,
}

/// What is known of the remediation of a trigger for a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Found {
    /// There is none.
    Nothing,
    /// There was one whose label was not answered, and somebody has deleted it.
    Lost,
    /// There is one.
    Remediation(OwnRemediation),
}

/// A Node as a trigger sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggeredNode {
    /// Name of the Node.
    pub name: String,
    /// Its label.
    pub label: NodeLabel,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The remediation of this trigger for the Node with this UID.
    pub found: Found,
    /// Why nothing is made for it now.
    pub obstacle: Option<Obstacle>,
}

/// How the label is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The label is removed: the Node is back.
    Remove,
    /// The label gets the value that says failed.
    Fail,
}

/// The next write for a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is to be done or told.
    Nothing,
    /// Waits.
    Wait(Wait),
    /// Makes the remediation, if a live read shows the label.
    Create,
    /// Changes the label, in the version of the Node that was read.
    Answer(Answer),
    /// Records on the remediation that the label is answered.
    Record,
    /// Deletes the remediation, which withdraws it if it has not ended.
    Delete,
}

/// The next write for a Node. `cooldown`: the time after an end in which the label waits.
#[must_use]
pub fn decide(node: &TriggeredNode, cooldown: Duration, now: Timestamp) -> Decision {
    if let Some(obstacle) = node.obstacle.as_ref().filter(|o| o.stops_everything()) {
        return match (node.label, node.found) {
            (NodeLabel::Set, _) | (_, Found::Remediation(_)) => {
                Decision::Wait(Wait::Obstacle(obstacle.clone()))
            }
            _ => Decision::Nothing,
        };
    }
    match node.found {
        Found::Nothing => without_remediation(node),
        // It was aborted: without an answer the label would lead to another one.
        Found::Lost if node.label == NodeLabel::Set => Decision::Answer(Answer::Fail),
        Found::Lost => Decision::Nothing,
        Found::Remediation(own) if own.deleting => while_deleted(node, own),
        Found::Remediation(own) => match own.answered {
            None => not_answered(node, own),
            Some(at) => answered(node, own, after(at, cooldown), now),
        },
    }
}

fn without_remediation(node: &TriggeredNode) -> Decision {
    if node.label != NodeLabel::Set || node.deleting {
        return Decision::Nothing;
    }
    match &node.obstacle {
        Some(obstacle) => Decision::Wait(Wait::Obstacle(obstacle.clone())),
        None => Decision::Create,
    }
}

/// Somebody deletes it, or we do after the label was answered.
fn while_deleted(node: &TriggeredNode, own: OwnRemediation) -> Decision {
    if own.answered.is_none() && node.label == NodeLabel::Set {
        return Decision::Answer(Answer::Fail);
    }
    Decision::Wait(Wait::Ending)
}

fn not_answered(node: &TriggeredNode, own: OwnRemediation) -> Decision {
    let is_set = node.label == NodeLabel::Set;
    match own.stage {
        // The label was taken away before anything was switched, or the Machine must be left alone.
        Stage::NotBegun if !is_set || node.is_left_alone() => Decision::Record,
        Stage::NotBegun | Stage::Begun => Decision::Wait(Wait::Remediation),
        Stage::Succeeded if !is_set => Decision::Record,
        Stage::Succeeded if node.ready => Decision::Answer(Answer::Remove),
        Stage::Succeeded => Decision::Wait(Wait::NodeNotReady),
        Stage::KeptOff if is_set => Decision::Wait(Wait::KeptOff),
        Stage::KeptOff => Decision::Record,
        Stage::Failed | Stage::FailedOff => match node.label {
            NodeLabel::Set | NodeLabel::Absent => Decision::Answer(Answer::Fail),
            NodeLabel::Failed | NodeLabel::Other => Decision::Record,
        },
    }
}

fn answered(
    node: &TriggeredNode,
    own: OwnRemediation,
    until: Timestamp,
    now: Timestamp,
) -> Decision {
    let is_set = node.label == NodeLabel::Set;
    match own.stage {
        Stage::NotBegun | Stage::KeptOff => Decision::Delete,
        // It has begun while its withdrawal was recorded.
        Stage::Begun => Decision::Wait(Wait::Remediation),
        Stage::FailedOff if node.label == NodeLabel::Absent => Decision::Delete,
        // A host that has failed stays as it is until a person decides.
        Stage::Failed | Stage::FailedOff
            if matches!(node.label, NodeLabel::Failed | NodeLabel::Other) =>
        {
            Decision::Wait(Wait::Failed)
        }
        Stage::Succeeded | Stage::Failed | Stage::FailedOff if now >= until => Decision::Delete,
        Stage::Succeeded | Stage::Failed | Stage::FailedOff if is_set => {
            Decision::Wait(Wait::Cooldown(until))
        }
        Stage::Succeeded | Stage::Failed | Stage::FailedOff => {
            Decision::Wait(Wait::Remembered(until))
        }
    }
}

/// What becomes of a remediation whose Node or trigger is gone, so that no label is to be answered.
#[must_use]
pub fn decide_orphan(own: OwnRemediation) -> Decision {
    match own.stage {
        _ if own.deleting => Decision::Wait(Wait::Ending),
        Stage::NotBegun | Stage::Succeeded | Stage::Failed => Decision::Delete,
        Stage::Begun => Decision::Wait(Wait::Remediation),
        // Only a person knows whether the host may come on.
        Stage::KeptOff => Decision::Wait(Wait::KeptOff),
        Stage::FailedOff => Decision::Wait(Wait::Failed),
    }
}

/// The decisions for all Nodes of a trigger, with at most `limit` new remediations: the next pass makes more. Those
/// that are made wait for budgets and the like.
#[must_use]
pub fn plan(
    nodes: &[TriggeredNode],
    cooldown: Duration,
    limit: usize,
    now: Timestamp,
) -> Vec<Decision> {
    let mut left = limit;
    let limited = |decision| match decision {
        Decision::Create if left == 0 => Decision::Wait(Wait::Obstacle(Obstacle::PassLimit)),
        Decision::Create => {
            left -= 1;
            Decision::Create
        }
        other => other,
    };
    let decisions = nodes.iter().map(|node| decide(node, cooldown, now));
    decisions.map(limited).collect()
}

/// When the earliest of these decisions may change without any change of an object.
#[must_use]
pub fn next_time(decisions: &[Decision]) -> Option<Timestamp> {
    let times = decisions.iter().filter_map(|decision| match decision {
        Decision::Wait(Wait::Cooldown(until) | Wait::Remembered(until)) => Some(*until),
        _ => None,
    });
    times.min()
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

impl TriggeredNode {
    fn is_left_alone(&self) -> bool {
        self.obstacle.as_ref().is_some_and(Obstacle::withdraws)
    }
}

#[cfg(test)]
mod tests;
