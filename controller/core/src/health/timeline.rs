//! When each cause of one machine begins to count, for people who ask why.
//!
//! Owns nothing but the question: [`judge`] is asked at the times that it names itself. Must never
//! hold a rule of its own.

use jiff::Timestamp;

use super::{Cause, Check, ClusterFacts, MachineFacts, NodeView, Verdict, judge};

/// A cause, and from when on it makes the machine unhealthy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Onset {
    /// The cause.
    pub cause: Cause,
    /// From when on; `None`: at once, and nobody has written down since when.
    pub at: Option<Timestamp>,
}

/// Every cause that the facts, as they stand, lead to in the course of time, in that order.
///
/// A rule that matches now is there, whether its time is over or still runs.
pub fn onsets(
    check: &Check,
    cluster: &ClusterFacts,
    machine: &MachineFacts,
    node: &NodeView,
) -> Vec<Onset> {
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
