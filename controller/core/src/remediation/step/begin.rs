//! From the request to a host that is held: nothing is switched here.

use std::time::Duration;

use super::{
    super::{
        Because, HostView, Mode, NodeGone, NodeMark, State, Step, WorkloadView,
        policy::HEALTH_GRACE,
    },
    Command, Cx, Decision, Next, Outcome, after,
};

impl Cx<'_> {
    /// Everything that must hold before anything is touched (A1).
    pub(super) fn pending(&self, s: State) -> Decision {
        let d = self.pending_next(s);
        self.keep_node_down(d)
    }

    fn pending_next(&self, mut s: State) -> Decision {
        let o = self.o;
        if self.withdrawn().is_some()
            && let Some(d) = self.held_from_before(&s)
        {
            return d;
        }
        match self.withdrawn() {
            Some(why @ Because::Withdrawn) if s.step == Step::Pending => {
                return self.leave(s, why, Outcome::Withdrawn);
            }
            Some(why) => return self.abort(s, why),
            None => {}
        }
        if s.step == Step::Retrying && self.recovered() {
            s.record_attempt(Because::Recovered, self.now);
            return self.to(s, Step::Succeeded, Because::Recovered);
        }
        if s.step == Step::Pending
            && !o.request.paused
            && let Some(d) = self.node_came_back(&s)
        {
            return d;
        }
        if let Some(d) = self.no_node(&s) {
            return d;
        }
        let host = match (self.ready_to_begin(), &o.conflict) {
            (Ok(_), Some(why)) => return self.recheck(s, why.clone()),
            (Ok(host), None) => host,
            (Err(why @ Because::HostOffline(_)), _) => return self.abort(s, why),
            (Err(why), _) => return self.recheck(s, why),
        };
        if !o.request.finalizer {
            return self.act(s, Because::Started, Command::AddFinalizer);
        }
        s.mode = match &o.bmh {
            Some(bmh) if !bmh.detached => Mode::Cooperative,
            _ => Mode::Direct,
        };
        s.strategy = self.policy.strategy;
        s.host = Some(host);
        self.mark_node(&mut s);
        self.to(s, Step::Holding, Because::Started)
    }

    /// F11: a request may wait for long, and its Node may come back by itself or through another
    /// remediation of the same host. A Node that was Ready all the time is cycled as asked: somebody wants
    /// that for another reason.
    fn node_came_back(&self, s: &State) -> Option<Decision> {
        let ready = self.node().is_some_and(|n| n.ready);
        if !ready || !s.node_was_down {
            return None;
        }
        let mut s = s.clone();
        if self.recovered() {
            return Some(self.to(s, Step::Succeeded, Because::Recovered));
        }
        // Its health check still reports it as unhealthy, perhaps only because it has not evaluated the
        // Node yet. If it has another cause, that remains.
        let Some(since) = s.node_back else {
            s.node_back = Some(self.now);
            return Some(self.quiet_write(s, Because::WaitingForHealth));
        };
        let until = after(since, HEALTH_GRACE);
        if self.now < until {
            return Some(self.wait(s, Because::WaitingForHealth, until));
        }
        s.node_was_down = false;
        s.node_back = None;
        Some(self.quiet_write(s, Because::Working))
    }

    /// What a request that waits keeps of its Node, see [`Self::node_came_back`].
    fn keep_node_down(&self, d: Decision) -> Decision {
        let down = self.node().is_some_and(|n| !n.ready);
        let known = d.state.node_was_down && d.state.node_back.is_none();
        if !down || known || !matches!(d.next, Next::Wait(_)) || d.state.step != Step::Pending {
            return d;
        }
        let mut s = d.state;
        s.node_was_down = true;
        s.node_back = None;
        self.quiet_write(s, d.because)
    }

    /// Withdrawn before anything was done as far as is written, and the agent holds the host for us all
    /// the same: what was written is lost.
    pub(super) fn held_from_before(&self, s: &State) -> Option<Decision> {
        let host_known = s.host.is_some() || matches!(self.o.host, HostView::Found(_));
        if s.step != Step::Pending || !host_known || !self.o.request.finalizer {
            return None;
        }
        self.finish_by_power_on(s, Duration::ZERO)
    }

    /// The Node is gone before anything was done: there may be nothing to do.
    fn no_node(&self, s: &State) -> Option<Decision> {
        let WorkloadView::Missing { name } = &self.o.workload else {
            return None;
        };
        if self.o.request.by_node && s.step == Step::Pending {
            return Some(self.abort(s.clone(), Because::NodeNotFound(name.clone())));
        }
        let replace = self.policy.node_gone == NodeGone::Replace
            && self.o.request.policy.is_ok()
            && !self.o.request.paused
            && s.keep_off.is_none();
        replace.then(|| {
            let mut s = s.clone();
            s.record_attempt(Because::NodeGone(name.clone()), self.now);
            self.exhausted(s)
        })
    }

    fn ready_to_begin(&self) -> Result<super::super::HostRef, Because> {
        let o = self.o;
        if let Err(e) = &o.request.policy {
            return Err(Because::InvalidSpec(e.to_string()));
        }
        if o.request.paused {
            return Err(Because::Paused);
        }
        if let Some(why) = self.cluster_gone().or_else(|| self.cluster_removed()) {
            return Err(why);
        }
        if o.machine.is_none() {
            return Err(Because::MachineNotFound("the Machine is gone".into()));
        }
        let host = match &o.host {
            HostView::Found(host) => host.clone(),
            HostView::NotFound(why) => return Err(why.clone()),
        };
        if let Some(why) = self.offline().or_else(|| self.host_not_fit()) {
            return Err(why);
        }
        match self.bmc_down() {
            Some(why) => Err(why),
            None => Ok(host),
        }
    }

    fn host_not_fit(&self) -> Option<Because> {
        let bmh = self.o.bmh.as_ref()?;
        let name = bmh.name.clone();
        if bmh.deleting {
            return Some(Because::HostDeleting(name));
        }
        if bmh.paused {
            return Some(Because::HostPaused(name));
        }
        if bmh.disable_power_off {
            return Some(Because::UnsupportedHost(format!(
                "BareMetalHost {name} has spec.disablePowerOff"
            )));
        }
        if bmh.servicing {
            return Some(Because::HostServicing(name));
        }
        // Elsewhere baremetal-operator ignores the hold key and would switch the host on again.
        if !bmh.detached && !bmh.provisioned {
            return Some(Because::HostNotProvisioned(name));
        }
        None
    }

    pub(super) fn mark_node(&self, s: &mut State) {
        if let Some(node) = self.node() {
            s.node = Some(NodeMark::of(node));
        }
    }

    /// F6: another member of the control plane has failed since this one got its turn. Nothing is
    /// switched yet: it waits for its turn again.
    pub(super) fn quorum_lost(&self, s: &State) -> Option<Decision> {
        let why @ Because::ControlPlaneQuorum(_) = self.o.conflict.clone()? else {
            return None;
        };
        let step = if s.attempts.is_empty() {
            Step::Pending
        } else {
            Step::Retrying
        };
        Some(self.to(s.clone(), step, why))
    }

    /// F2: intent is durable before the power-off.
    pub(super) fn holding(&self, mut s: State) -> Decision {
        let rival = || {
            let rival = self.o.conflict.clone();
            rival.filter(|why| matches!(why, Because::RivalController(_)))
        };
        // Two that came at the same time: nothing is switched yet, so this one can still step back.
        if let Some(why) = self.withdrawn().or_else(|| self.offline()).or_else(rival) {
            return self.abort(s, why);
        }
        if !self.holds()
            && let Some(d) = self.quorum_lost(&s)
        {
            return d;
        }
        if self.o.bmh.is_some() && !self.holds() {
            return self.act(s, Because::Holding, Command::AddHold);
        }
        s.agent_holds = true;
        // It was given for something else: nobody has asked for it in this attempt.
        s.person_heard = self.person_confirms();
        let grace = match s.mode {
            Mode::Cooperative => self.policy.cooperative_grace,
            Mode::Direct => Duration::ZERO,
        };
        let limit = self.policy.power_off_timeout.saturating_add(grace);
        let d = self.to(s, Step::PoweringOff, Because::PowerOffRunning);
        self.pinned_with(d, limit)
    }
}
