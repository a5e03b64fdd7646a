//! What is recorded about pods that are to leave a host that is still on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::remediation::{NodeFacts, PodRef};

/// The eviction of the pods of a Node, before anything is switched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// When its time is over.
    pub until: Timestamp,
    /// Whether the Node was Ready when that was decided.
    pub ready: bool,
    /// Pods that had not left when the last one was seen to leave. Counted only on a Node that is not Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// When that was.
    pub moved: Timestamp,
    /// Pods that the API server evicted. Only reported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub evicted: u32,
    /// The first of them by name, see `keep_names`. Only reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// The first pods by name whose eviction budgets forbade when it was requested last before the remediation went back
    /// to waiting. Only reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<ForbiddenEviction>,
    /// Whether all of them have left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
}

impl Default for Eviction {
    /// One of which nothing is known.
    fn default() -> Self {
        Self {
            until: Timestamp::UNIX_EPOCH,
            ready: false,
            left: None,
            moved: Timestamp::UNIX_EPOCH,
            evicted: 0,
            pods: Vec::new(),
            forbidden: Vec::new(),
            finished: false,
        }
    }
}

/// A pod whose eviction was forbidden.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForbiddenEviction {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The PodDisruptionBudgets, as `namespace/name`, or why they cannot be named.
    pub by: String,
}

/// How many pods of an attempt are kept by name, of those that were evicted and of those that were deleted.
const PODS_NAMED: usize = 5;
/// Characters of such a name that are kept.
const LONGEST_NAME: usize = 128;

/// Adds pods to those that are kept by name, as `namespace/name`, in the order of their names: the first of them.
pub(in crate::remediation) fn keep_names<'a>(
    kept: &mut Vec<String>,
    pods: impl Iterator<Item = &'a PodRef>,
) {
    let room = PODS_NAMED.saturating_sub(kept.len());
    let names: BTreeSet<String> = pods
        .map(|pod| pod.to_string().chars().take(LONGEST_NAME).collect())
        .filter(|name| !kept.contains(name))
        .collect();
    kept.extend(names.into_iter().take(room));
}

/// The pods whose eviction was forbidden last, each with its budgets: the first of them by name.
pub(in crate::remediation) fn forbidden<'a>(
    answers: impl Iterator<Item = (&'a PodRef, &'a str)>,
) -> Vec<ForbiddenEviction> {
    let short = |text: &str| text.chars().take(LONGEST_NAME).collect::<String>();
    let by_name: BTreeMap<String, String> = answers
        .map(|(pod, by)| (short(&pod.to_string()), short(by)))
        .collect();
    let first = by_name.into_iter().take(PODS_NAMED);
    first
        .map(|(pod, by)| ForbiddenEviction { pod, by })
        .collect()
}

/// A Node that this remediation cordons, written before it does (F9).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CordonedNode {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`. A later Node of the same name is not uncordoned.
    pub uid: String,
    /// Whether the cordon was seen on the Node since it was recorded last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
    /// How often somebody else has removed it, each time within half an hour after the last time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed: u32,
    /// When it was recorded the last time that it is to be set again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Timestamp>,
}

/// Time without a removal after which earlier ones do not count any more.
const CALM: Duration = Duration::from_secs(1800);
/// Pauses, in seconds, between setting a cordon again and the next time, while somebody else goes on removing it.
const PAUSES: [u64; 4] = [10, 30, 90, 300];

impl CordonedNode {
    /// The Node as observed now.
    pub(in crate::remediation) fn of(node: &NodeFacts) -> Self {
        Self {
            name: node.name.clone(),
            uid: node.uid.clone(),
            seen: false,
            removed: 0,
            again: None,
        }
    }

    /// How often it was removed, as far as that counts now.
    fn counted(&self, now: Timestamp) -> u32 {
        let is_old = (self.again).is_none_or(|at| plus(at, CALM) <= now || at > now);
        if is_old { 0 } else { self.removed }
    }

    /// When a cordon that was removed is set again: at once the first time, then after longer and longer pauses. Nobody
    /// wins by writing faster, and the API server does not pay for it.
    pub(in crate::remediation) fn due(&self, now: Timestamp) -> Timestamp {
        let times = usize::try_from(self.counted(now)).unwrap_or(usize::MAX);
        let pause = match times {
            0 => return now,
            _ => PAUSES.get(times - 1).or(PAUSES.last()),
        };
        let pause = Duration::from_secs(pause.copied().unwrap_or_default());
        self.again.map_or(now, |at| plus(at, pause))
    }

    /// It was removed, and is set again now.
    pub(in crate::remediation) fn again(&self, now: Timestamp) -> Self {
        Self {
            seen: false,
            removed: self.counted(now).saturating_add(1),
            again: Some(now),
            ..self.clone()
        }
    }
}

fn plus(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}
