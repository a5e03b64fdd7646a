//! Deletes the pods of a host that is confirmed off, instead of waiting for the garbage collector of pods.
//!
//! Invariant: pods are deleted only of the Node that was pinned with the evidence of this attempt, while the
//! BMC reports off and our taint is on (F1).

use std::time::Duration;

use super::super::{
    super::{NodeFacts, PodDeletion, PodRef, Reason, State, Taint, TaintOwner, keep_names},
    Command, Decision, Next, StepContext, after,
    node::identity::{is_pinned, is_unproven},
};

/// Pods of one command. The proof is checked again before each.
const BATCH: usize = 32;

/// Interval of listing the pods of a Node that was tainted a moment ago, until they are Terminating.
/// Kubernetes evicts them within milliseconds of the taint.
const EVICTION_POLL: Duration = Duration::from_millis(200);
/// Time after the taint in which that interval applies. A pod that is not evicted by then tolerates the taint
/// for some time.
const EVICTION_TIME: Duration = Duration::from_secs(3);

impl StepContext<'_> {
    /// The deletion of the next pods, or the reading of the BMC before it; `None` if no pod can be deleted
    /// now.
    pub(super) fn delete_pods(&self, s: &State, reason: &Reason) -> Option<Decision> {
        let node = self.node_out_of_service(s)?;
        let pods = self.deletable_pods();
        if pods.is_empty() {
            return None;
        }
        match self.require_off(s, reason.clone()) {
            // A BMC that cannot be read now must not keep the garbage collector's work from being noticed.
            Some(d) if matches!(d.next, Next::Wait(_)) => None,
            Some(d) => Some(d),
            None => {
                let node = node.uid.clone();
                let command = Command::DeletePods { node, pods };
                Some(self.act(s.clone(), reason.clone(), command))
            }
        }
    }

    /// Interval of listing pods and volumes.
    pub(super) fn drain_poll(&self, s: &State) -> Duration {
        let drain = self.o.drain.as_ref();
        let awaits_eviction =
            drain.is_some_and(|drain| drain.remaining().any(|pod| !pod.is_terminating));
        let fresh = after(s.since, EVICTION_TIME) > self.now;
        if fresh && awaits_eviction && self.node_out_of_service(s).is_some() {
            return EVICTION_POLL.min(self.policy.drain_poll);
        }
        self.policy.drain_poll
    }

    /// The Node, if its pods may be deleted: it is the one that was pinned with the evidence of off, on the
    /// machine that was switched off, and the taint on it is that of this attempt.
    fn node_out_of_service(&self, s: &State) -> Option<&NodeFacts> {
        let node = self.node()?;
        let proven = s.attempt.off.is_some() && is_pinned(s, node) && !is_unproven(s);
        let tainted = s.attempt.taint == Some(TaintOwner::Us) && node.taint == Taint::Ours;
        let immediate = self.policy.pod_deletion == PodDeletion::Immediate;
        (immediate && proven && tainted).then_some(node)
    }

    /// The next pods to delete. Each version of a pod is deleted once.
    fn deletable_pods(&self) -> Vec<PodRef> {
        let pods = self.o.drain.iter().flat_map(|drain| &drain.pods);
        pods.filter(|pod| pod.is_deletable() && !self.o.pod_deletions.has(&pod.id))
            .take(BATCH)
            .map(|pod| pod.id.clone())
            .collect()
    }

    /// Adds the pods that were deleted to those of this attempt.
    pub(super) fn count_deleted_pods(&self, s: &mut State) {
        let deleted = self.o.pod_deletions.deleted.len();
        let deleted = u32::try_from(deleted).unwrap_or(u32::MAX);
        s.attempt.pods_deleted = s.attempt.pods_deleted.saturating_add(deleted);
        keep_names(
            &mut s.attempt.deleted_pods,
            self.o.pod_deletions.deleted.iter(),
        );
    }
}
