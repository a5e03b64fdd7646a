//! Waits, while the host is off, until no pod and no volume of the Node is left in the API (F3,
//! F4).

mod pods;

use super::{
    super::{Drain, DrainPolicy, NodeAction, Reason, State, Step, Taint, TaintOwner, WorkloadView},
    Command, Decision, Note, StepContext,
    evidence::LatestReading,
};

impl StepContext<'_> {
    /// Keeps the host off until the Node is drained. The pods of a Node that is gone are waited for
    /// as well.
    pub(super) fn draining(&self, s: State) -> Decision {
        if let Some(d) = self.interrupt_hold(&s) {
            return d;
        }
        match &self.o.workload {
            WorkloadView::Unreachable { why } => {
                let reason = Reason::WorkloadUnreachable(why.clone());
                return self.monitor_hold(s, reason, None);
            }
            WorkloadView::NotJoined
            | WorkloadView::Missing { .. }
            | WorkloadView::ClusterGone { .. } => {}
            WorkloadView::Present(node) => {
                if let Some(d) = self
                    .check_node(&s, node)
                    .or_else(|| self.lease_renewed(&s, node))
                {
                    return d;
                }
                if node.taint == Taint::Absent {
                    return self.untainted(s);
                }
            }
        }
        if let LatestReading::On(seen) | LatestReading::Unclear(seen) = self.power_now(&s) {
            return self.fence_violated(s, &seen);
        }
        let remains = match &self.o.drain {
            Some(drain) if drain.is_finished() => None,
            Some(drain) => Some(left(drain, &self.o.workload)),
            None => Some("pods and volumes".into()),
        };
        let late = self.late(&s, self.policy.drain_timeout);
        match (remains, self.policy.drain_blocked) {
            // A host that stays off anyway can wait for the drain.
            (Some(left), DrainPolicy::PowerOn) if late && !self.keeps_off(&s) => {
                self.drained(s, Some(left))
            }
            (Some(left), DrainPolicy::GiveUp) if late && self.withdrawn().is_none() => {
                self.give_up(s, left)
            }
            (Some(left), _) => {
                let reason = if late {
                    Reason::DrainBlocked(left)
                } else {
                    Reason::Draining(left)
                };
                if let Some(d) = self.delete_pods(&s, &reason) {
                    return d;
                }
                let poll = self.drain_poll(&s);
                self.monitor_hold(s, reason, Some(poll))
            }
            (None, _) => self.drained(s, None),
        }
    }

    /// Sets the taint that was recorded as ours with this step, on a reading that still proves off (F1). One that was set,
    /// and that somebody has removed, begins the drain anew; so does a Node that was deleted and is there again.
    fn untainted(&self, mut s: State) -> Decision {
        let deletes = s.attempt.node_action.unwrap_or(self.o.node_action) == NodeAction::Delete;
        let is_recorded = s.attempt.taint == Some(TaintOwner::Us);
        if !is_recorded || deletes || self.done(&Command::AddTaint) {
            s.attempt.taint = Some(TaintOwner::Us);
            return self.to(s, Step::Tainting, Reason::Tainting);
        }
        match self.require_off(&s, Reason::Tainting) {
            Some(d) => d,
            None => self.act(s, Reason::Tainting, Command::AddTaint),
        }
    }

    /// Reads the power state once more after the drain: a host that came on meanwhile may have
    /// started its pods again.
    fn drained(&self, mut s: State, left: Option<String>) -> Decision {
        let reason = Reason::Draining("pods and volumes".into());
        if let Some(d) = self.require_off(&s, reason) {
            return d;
        }
        s.attempt.drained = Some(self.now);
        self.count_deleted_pods(&mut s);
        if let Some(why) = self.offline() {
            return self.abort(s, why);
        }
        let note = match left {
            None => Note {
                warning: false,
                reason: "Drained",
                step: Some(Step::Draining),
                message: format!(
                    "no pod and no volume is left on the node{}",
                    deleted_pods(s.attempt.pods_deleted)
                ),
            },
            Some(left) => {
                let reason = Reason::DrainSkipped(left);
                Note {
                    warning: true,
                    reason: reason.label(),
                    step: None,
                    message: reason.to_string(),
                }
            }
        };
        let mut d = self.after_off(s, Reason::PowerOnRunning);
        d.notes.insert(0, note);
        d
    }

    /// Policy for a drain that does not end: no further attempt. Taint and power stay as they are
    /// while pods are left (F3, F4).
    fn give_up(&self, mut s: State, left: String) -> Decision {
        let reason = Reason::DrainGivenUp(left);
        self.count_deleted_pods(&mut s);
        if !s.is_recorded() {
            s.record_attempt(reason.clone(), self.now);
        }
        s.attempt.end_reason = Some(reason.clone());
        let mut d = self.to(s, Step::Fenced, reason);
        for note in &mut d.notes {
            note.warning = true;
        }
        d
    }
}

/// How many pods Rackhand has deleted, as the end of a sentence.
fn deleted_pods(pods: u32) -> String {
    match pods {
        0 => String::new(),
        1 => "; 1 pod was deleted by Rackhand".into(),
        n => format!("; {n} pods were deleted by Rackhand"),
    }
}

/// What is left on the Node. A volume of a Node that is gone may never go, because its CSI driver needs the Node to
/// detach it, and the Node comes back only with its host.
fn left(drain: &Drain, workload: &WorkloadView) -> String {
    let left = drain.describe();
    if let WorkloadView::Missing { name } = workload
        && drain.remaining_volumes().next().is_some()
    {
        return format!(
            "{left}. Node {name} does not exist any more, and its CSI driver may need it to detach a volume: create a Node \
             object {name} without a kubelet, and delete it when the volume is detached; or, because the host is \
             confirmed off, remove the finalizers of the VolumeAttachment"
        );
    }
    left
}
