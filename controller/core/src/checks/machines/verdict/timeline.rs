//! When each cause of one machine begins to count, for explanations.
//!
//! Evaluates [`judge`] at the times at which its verdict changes. Must never hold a rule of its own.

use jiff::Timestamp;

use super::super::{Cause, Check, ClusterFacts, MachineFacts, NodeView, Verdict, judge};

/// A cause, and from when on it makes the machine unhealthy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Onset {
    /// Why the machine is unhealthy, or will be.
    pub cause: Cause,
    /// From when on the cause counts; `None`: it counts already, and no object records since when.
    pub at: Option<Timestamp>,
}

/// Every cause that the present facts lead to in the course of time, in that order.
///
/// The result contains each rule that matches now, whether or not its timeout has passed. A startup timeout of which no
/// object records the beginning begins `now`.
pub fn onsets(
    check: &Check,
    cluster: &ClusterFacts,
    machine: &MachineFacts,
    node: &NodeView,
    now: Timestamp,
) -> Vec<Onset> {
    let machine = &MachineFacts {
        starting_since: machine.starting_since.or(Some(now)),
        ..machine.clone()
    };
    let mut found: Vec<Onset> = Vec::new();
    let mut at = Timestamp::MIN;
    loop {
        let judgement = judge(check, cluster, machine, node, at);
        if let Verdict::Unhealthy { causes } = judgement.verdict {
            let known: Vec<Cause> = found.iter().map(|onset| onset.cause.clone()).collect();
            let since = (at != Timestamp::MIN).then_some(at);
            found.extend(
                causes
                    .into_iter()
                    .filter(|cause| !known.contains(cause))
                    .map(|cause| Onset { cause, at: since }),
            );
        }
        match judgement.changes_at {
            Some(next) if next > at => at = next,
            _ => return found,
        }
    }
}
