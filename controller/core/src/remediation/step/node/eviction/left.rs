//! What has left a host that is still on, what has not, and what keeps it, for people.

use std::collections::BTreeSet;

use super::super::super::{
    super::{Drain, EvictionResult, State, keep_names, list},
    StepContext,
};

/// Budgets and refusals that one message names.
const NAMED: usize = 5;

impl StepContext<'_> {
    /// Adds the pods that were evicted in this step to those of the attempt.
    pub(super) fn count_evicted(&self, s: &mut State) {
        if let Some(eviction) = &mut s.attempt.eviction {
            let evictions = &self.o.evictions;
            eviction.evicted = eviction.evicted.saturating_add(evictions.evicted());
            keep_names(&mut eviction.pods, evictions.evicted_pods());
        }
    }

    /// What is left on a host that has failed, and which of it a PodDisruptionBudget kept; empty if nothing is left.
    pub(super) fn overruled(&self, drain: &Drain) -> String {
        let left = drain.describe_evictable();
        let mut budgets = BTreeSet::new();
        let mut kept = Vec::new();
        for pod in drain.evictable() {
            if let Some(EvictionResult::Blocked(by)) =
                self.o.evictions.of(pod).map(|answer| &answer.result)
            {
                budgets.insert(by.as_str());
                kept.push(pod.id.to_string());
            }
        }
        let Some(kept) = list("pod", "pods", &kept) else {
            return left;
        };
        let budgets: Vec<&str> = budgets.into_iter().take(NAMED).collect();
        let budgets = budgets.join(", ");
        format!("{left}; PodDisruptionBudget {budgets} forbade the eviction of {kept}")
    }

    /// What has not left, and what keeps it.
    pub(super) fn what_is_left(&self, drain: &Drain) -> String {
        let answers = drain.evictable().filter_map(|pod| {
            if pod.is_terminating && pod.has_finalizers {
                return Some(format!("the finalizers of {}", pod.id));
            }
            let answer = self.o.evictions.of(pod).filter(|_| !pod.is_terminating)?;
            match &answer.result {
                EvictionResult::Blocked(by) => Some(format!("PodDisruptionBudget {by}")),
                EvictionResult::Refused(why) | EvictionResult::Failed(why) => Some(why.clone()),
                EvictionResult::Evicted | EvictionResult::Gone => None,
            }
        });
        let mut answers: Vec<String> = answers.collect();
        answers.sort();
        answers.dedup();
        answers.truncate(NAMED);
        let what = drain.describe_evictable();
        match answers.is_empty() {
            true => what,
            false => format!("{what}, kept by {}", answers.join("; ")),
        }
    }
}
