//! Remediations that have lost their purpose or their state: the host was returned, the Cluster is
//! gone, or the stored state was removed.
//!
//! Invariants: nothing waits for ever for what does not return (L1), and nothing is taken over
//! without a record of what was done.

use super::{
    super::{BmcAccess, NodeFacts, OperationView, Reason, State, Step, Taint, WorkloadView},
    Decision, StepContext,
};

impl StepContext<'_> {
    /// Ends the remediation cleanly in any step. An operation at the agent is cancelled first.
    pub(super) fn orphaned(&self, s: &State) -> Option<Decision> {
        let early = matches!(s.step, Step::Pending | Step::Aborting);
        if early || s.step.is_terminal() {
            return None;
        }
        // Between two attempts nothing is held that the workload could depend on.
        let removed = || self.cluster_removed().filter(|_| s.step == Step::Retrying);
        let why = self
            .returned_to_owner()
            .or_else(|| self.cluster_gone())
            .or_else(removed)?;
        let running = matches!(
            self.o.operation,
            Some(OperationView::Running | OperationView::Staged { .. })
        );
        let may_run = running || self.o.operation.is_none() && s.agent_holds;
        Some(match s.step {
            Step::PoweringOff | Step::AwaitingConfirmation | Step::PoweringOn if may_run => {
                match self.agent_down() {
                    Some(down) => {
                        self.recheck(s.clone(), Reason::AgentUnreachable(down.to_owned()))
                    }
                    None if running => self.cancel_operation(s.clone(), why),
                    None => self.abort(s.clone(), why),
                }
            }
            _ => self.abort(s.clone(), why),
        })
    }

    /// Set if the remediation is deleted and baremetal-operator takes the host back, including its
    /// power.
    pub(super) fn returned_to_owner(&self) -> Option<Reason> {
        if !self.o.object.deleting {
            return None;
        }
        if let BmcAccess::HostGone { name } = &self.o.access {
            return Some(Reason::HostGone(name.clone()));
        }
        let bmh = self.o.bmh.as_ref().filter(|b| !b.detached)?;
        let name = bmh.name.clone();
        match (bmh.deleting, bmh.provisioned) {
            (true, _) => Some(Reason::HostDeleting(name)),
            (false, false) => Some(Reason::HostNotProvisioned(name)),
            (false, true) => None,
        }
    }

    pub(super) fn cluster_gone(&self) -> Option<Reason> {
        match &self.o.workload {
            WorkloadView::ClusterGone { name } => Some(Reason::ClusterGone(name.clone())),
            _ => None,
        }
    }

    /// Set if the Cluster object is gone. Nothing is begun then, but a host that is off is held
    /// until its workload is known to be gone, or drained (F3, F4).
    pub(super) fn cluster_removed(&self) -> Option<Reason> {
        let name = self.o.cluster.clone().filter(|_| self.o.cluster_removed)?;
        Some(Reason::ClusterGone(name))
    }

    /// F15: nothing is recorded, and the copy in the object says that the remediation has ended. A copy decides
    /// nothing, and what it forbids may be done by another remediation.
    pub(super) fn stay_ended(&self, step: Step) -> Decision {
        let mut s = State::new(self.now);
        if step == Step::Succeeded {
            return self.to(s, Step::Succeeded, Reason::Recovered);
        }
        let reason = Reason::StateLost(
            "the object says that it has ended: delete it, and create another one if the host is to be \
             power-cycled"
                .into(),
        );
        s.attempt.end_reason = Some(reason.clone());
        self.to(s, Step::Blocked, reason)
    }

    /// Set if our finalizer is on the object and the recorded state is not: something was done, and
    /// it is unknown what. A taint on the Node may be ours; it is neither left there silently nor
    /// attributed to somebody else.
    pub(super) fn state_lost(&self) -> Option<Reason> {
        let o = self.o;
        if !o.object.finalizer || !self.is_finalizer_ours() {
            return None;
        }
        let tainted = match &o.workload {
            WorkloadView::Present(node) if self.is_former_taint(node) => false,
            WorkloadView::Present(node) => node.taint != Taint::Absent,
            WorkloadView::Unreachable { why } => {
                let what = format!("it is unknown whether its node has our taint: {why}");
                return Some(lost(&what));
            }
            _ => false,
        };
        if tainted {
            let name = self.node().map_or("", |node| &node.name);
            let what = format!("the owner of the out-of-service taint on node {name} is unknown");
            return Some(lost(&what));
        }
        // Without baremetal-operator nobody else switches on a host that may have been switched off
        // here. If the agent holds the host for this remediation, it is switched on.
        let alone = o.bmh.is_none() && !o.held && !self.node().is_some_and(|node| node.ready);
        (o.object.deleting && alone)
            .then(|| lost("the host may be off, and nothing else switches it on"))
    }
}

impl StepContext<'_> {
    /// Whether the taint of the Node is that of a former remediation of ours, which this one takes over with the
    /// hold key: the key is there, no live list shows its remediation, and Rackhand has tainted the Node.
    pub(super) fn is_former_taint(&self, node: &NodeFacts) -> bool {
        node.taint == Taint::Ours && node.tainted_by_rackhand && self.has_orphaned_hold()
    }

    /// Whether the finalizer on an object without a recorded state is ours: its name is only ours, or what we leave
    /// while we work on an object is there.
    pub(super) fn is_finalizer_ours(&self) -> bool {
        let o = self.o;
        !o.object.finalizer_is_shared
            || o.object.finalizer_by_copy == Some(true)
            || self.holds()
            || o.held
    }
}

fn lost(what: &str) -> Reason {
    Reason::StateLost(format!(
        "{what}: make sure that the host is off or its workload is gone, remove the out-of-service taint, and switch \
         the host on, then the remediation continues"
    ))
}
