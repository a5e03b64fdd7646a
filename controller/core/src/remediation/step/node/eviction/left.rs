//! What has left a host that is still on, what has not, and what keeps it, for people.

use std::collections::BTreeSet;

use super::super::super::{
    super::{Drain, EvictionResult, ForbiddenEviction, State, forbidden, keep_names, list},
    StepContext,
};

/// Budgets and refusals that one message names.
const NAMED: usize = 5;

/// Which budgets forbade the eviction of which pods; `None` if none did.
pub(super) fn who_forbade(kept: &[ForbiddenEviction]) -> Option<String> {
    let pods: Vec<String> = kept.iter().map(|kept| kept.pod.clone()).collect();
    let pods = list("pod", "pods", &pods)?;
    let budgets: BTreeSet<&str> = kept.iter().map(|kept| kept.by.as_str()).collect();
    let budgets: Vec<&str> = budgets.into_iter().take(NAMED).collect();
    let budgets = budgets.join(", ");
    Some(format!(
        "PodDisruptionBudget {budgets} forbade the eviction of {pods}"
    ))
}

impl StepContext<'_> {
    /// Adds the pods that were evicted in this step to those of the attempt, and keeps whose eviction was forbidden.
    pub(in crate::remediation::step) fn count_evicted(&self, s: &mut State) {
        if let Some(eviction) = &mut s.attempt.eviction {
            let evictions = &self.o.evictions;
            eviction.evicted = eviction.evicted.saturating_add(evictions.evicted());
            keep_names(&mut eviction.pods, evictions.evicted_pods());
            let now = forbidden(evictions.forbidden());
            if !now.is_empty() {
                eviction.forbidden = now;
            }
        }
    }

    /// What is left on a host that has failed, and which of it a PodDisruptionBudget kept, by the latest answers or, where
    /// there are none, by earlier ones; empty if nothing is left.
    pub(super) fn overruled(&self, drain: &Drain, earlier: &[ForbiddenEviction]) -> String {
        let left = drain.describe_evictable();
        let kept = drain.evictable().filter_map(|pod| {
            let name = pod.id.to_string();
            let by = match self.o.evictions.of(pod).map(|answer| &answer.result) {
                Some(EvictionResult::Blocked(by)) => by.clone(),
                Some(_) => return None,
                None => earlier.iter().find(|kept| kept.pod == name)?.by.clone(),
            };
            Some(ForbiddenEviction { pod: name, by })
        });
        match who_forbade(&kept.collect::<Vec<_>>()) {
            Some(who) => format!("{left}; {who}"),
            None => left,
        }
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
