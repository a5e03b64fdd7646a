//! What has nobody left to bring it back for: its host was given back, its cluster or its state is gone.
//!
//! Must never wait for ever for what does not come back (L1), nor take over what it does not remember.

use super::{
    super::{Because, BmcAccess, OperationView, State, Step, Taint, WorkloadView},
    Cx, Decision,
};

impl Cx<'_> {
    /// Ends it cleanly, in whatever step. What the agent does for it is stopped first.
    pub(super) fn orphaned(&self, s: &State) -> Option<Decision> {
        let early = matches!(s.step, Step::Pending | Step::Aborting);
        if early || s.step.is_terminal() {
            return None;
        }
        // Between two attempts nothing is in hand that the workload could still need.
        let removed = || self.cluster_removed().filter(|_| s.step == Step::Retrying);
        let why = self
            .given_back()
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
                        self.recheck(s.clone(), Because::AgentUnreachable(down.to_owned()))
                    }
                    None if running => self.stop_operation(s.clone(), why),
                    None => self.abort(s.clone(), why),
                }
            }
            _ => self.abort(s.clone(), why),
        })
    }

    /// Withdrawn with its Machine: baremetal-operator takes the host back, and its power with it.
    pub(super) fn given_back(&self) -> Option<Because> {
        if !self.o.request.deleting {
            return None;
        }
        if let BmcAccess::HostGone { name } = &self.o.access {
            return Some(Because::HostGone(name.clone()));
        }
        let bmh = self.o.bmh.as_ref().filter(|b| !b.detached)?;
        let name = bmh.name.clone();
        match (bmh.deleting, bmh.provisioned) {
            (true, _) => Some(Because::HostDeleting(name)),
            (false, false) => Some(Because::HostNotProvisioned(name)),
            (false, true) => None,
        }
    }

    pub(super) fn cluster_gone(&self) -> Option<Because> {
        match &self.o.workload {
            WorkloadView::ClusterGone { name } => Some(Because::ClusterGone(name.clone())),
            _ => None,
        }
    }

    /// The Cluster object is gone. Nothing new is begun; but a host that is off is held until its workload
    /// is known to be gone, or drained (F3, F4).
    pub(super) fn cluster_removed(&self) -> Option<Because> {
        let name = self.o.cluster.clone().filter(|_| self.o.cluster_removed)?;
        Some(Because::ClusterGone(name))
    }

    /// Our finalizer is on the object and what we wrote is not: something was done, and nobody knows
    /// what. A taint on the Node may be ours: it is neither left there in silence nor taken for
    /// somebody else's.
    pub(super) fn state_lost(&self) -> Option<Because> {
        let o = self.o;
        if !o.request.finalizer {
            return None;
        }
        let tainted = match &o.workload {
            WorkloadView::Present(node) => node.taint != Taint::Absent,
            WorkloadView::Unreachable { why } => {
                let what = format!("it cannot be seen whether its node carries our taint: {why}");
                return Some(Because::StateLost(what));
            }
            _ => false,
        };
        if tainted {
            let name = self.node().map_or("", |node| &node.name);
            let what = format!("nobody knows whose the out-of-service taint on node {name} is");
            return Some(Because::StateLost(what));
        }
        // Without baremetal-operator nobody else switches on what we may have switched off. Where the
        // agent holds the host for us, that is known, and done.
        let alone = o.bmh.is_none() && !o.held && !self.node().is_some_and(|node| node.ready);
        (o.request.deleting && alone).then(|| {
            Because::StateLost("the host may be off, and nobody else switches it on".into())
        })
    }
}
