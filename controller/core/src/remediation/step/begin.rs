//! From the remediation to the hold on the host. Nothing is switched here.

use std::time::Duration;

use super::{
    super::{
        HostView, Mode, NodeGonePolicy, PinnedNode, Reason, State, Step, WorkloadView, on_wall,
        policy::HEALTH_GRACE,
    },
    Command, Decision, Next, RemediationOutcome, StepContext, after,
};

/// Interval of looking for the marks of a maintenance, which take a second or two.
const MARKS_WATCH: Duration = Duration::from_secs(2);

impl StepContext<'_> {
    /// Checks every precondition before anything is touched (A1).
    pub(super) fn pending(&self, s: State) -> Decision {
        let d = self.pending_next(s);
        let d = self.remember_node_down(d);
        match d.next {
            // What waits does not make a move wait.
            Next::Wait(_) => self.unblock_waiting(&d).unwrap_or(d),
            _ => d,
        }
    }

    fn pending_next(&self, mut s: State) -> Decision {
        let o = self.o;
        // Outlets that may be off although nothing was begun are from before the state was set back.
        if let Some(d) = self.return_outlets(&s) {
            return d;
        }
        if self.withdrawn().is_some()
            && let Some(d) = self.finish_lost_power_off(&s)
        {
            return d;
        }
        match self.withdrawn() {
            Some(why @ Reason::Withdrawn) if s.step == Step::Pending && !s.outlets_may_be_off() => {
                return self.finish(s, why, RemediationOutcome::Withdrawn);
            }
            Some(why) => return self.abort(s, why),
            None => {}
        }
        s = self.with_rival_by_finalizer(s);
        if let Some(why) = s.rival() {
            return self.give_way(s, why);
        }
        if s.step == Step::Retrying && self.recovered(&s) {
            if !s.is_off_taken_back() {
                s.record_attempt(Reason::Recovered, self.now);
            }
            return self.back_before_off(s);
        }
        if (s.step == Step::Pending || s.other_node.is_some())
            && !o.object.paused
            && let Some(d) = self.node_came_back(&s)
        {
            return d;
        }
        if s.step == Step::Retrying && self.stale_node_deleted(&s) {
            return self.back_before_off(s);
        }
        if let Some(d) = self.held_by_update(&s) {
            return d;
        }
        if let Some(d) = self.missing_node(&s) {
            return d;
        }
        if self.ready_to_begin().is_ok()
            && let Some(d) = self.stopped_by_other_node(&s)
        {
            return d;
        }
        let host = match (self.ready_to_begin(), &o.conflict) {
            (Ok(_), Some(why @ Reason::PolicyLimitReached(_)))
                if s.keep_off.is_none() && !s.outlets_may_be_off() =>
            {
                s.record_attempt(why.clone(), self.now);
                return self.attempts_exhausted(s);
            }
            (Ok(_), Some(why)) if why.is_of_marks() => {
                return self.wait(s, why.clone(), after(self.now, MARKS_WATCH));
            }
            (Ok(_), Some(why)) => return self.recheck(s, why.clone()),
            (Ok(host), None) => host,
            (Err(why @ Reason::HostOffline(_)), _) => return self.abort(s, why),
            (Err(why), _) => return self.recheck(s, why),
        };
        if let Some(why) = self.refused_entry(&s, &host) {
            return self.recheck(s, why);
        }
        s.refused_entry = None;
        if let Some(d) = self.held_by_firmware(&s) {
            return d;
        }
        s.mode = match &o.bmh {
            Some(bmh) if !bmh.detached => Mode::Cooperative,
            _ => Mode::Direct,
        };
        s.strategy = self.policy.strategy;
        s.policy = Some(Box::new(self.policy.clone()));
        if let Some(causes) = self.shown_causes(o.object.checked.as_ref()) {
            s.causes = causes;
        }
        s.host = Some(host);
        // F9: recorded before it is added.
        s.finalizer |= !o.object.finalizer;
        s.other_node = None;
        s.former_lease = None;
        self.record_node(&mut s);
        self.leave_pending(s)
    }

    /// Ends a remediation whose Node is back before this attempt has switched the host off. Where a power-off was taken
    /// back, the agent holds the host, which is released first.
    fn back_before_off(&self, s: State) -> Decision {
        match s.is_off_taken_back() {
            true => self.abort(s, Reason::Recovered),
            false => self.to(s, Step::Succeeded, Reason::Recovered),
        }
    }

    /// Waits while the owner of the Machine updates it in place, as it announces: a power-off in the middle could
    /// leave the host unusable, and its Node may restart. The wait has an end, because an update may fail.
    fn held_by_update(&self, s: &State) -> Option<Decision> {
        let what = self.o.machine.as_ref()?.updating.clone()?;
        if self.ready_to_begin().is_err() {
            return None;
        }
        let since = s.attempt.updating_since.unwrap_or(self.now);
        let until = after(since, self.policy.update_timeout);
        let shown = on_wall(until, self.o.wall_ahead);
        let reason = Reason::MachineUpdating(format!("{what}; for no longer than until {shown}"));
        if s.attempt.updating_since.is_none() {
            let mut s = s.clone();
            s.attempt.updating_since = Some(self.now);
            return Some(self.write(s, reason));
        }
        (self.now < until).then(|| self.wait(s.clone(), reason, until))
    }

    /// F11: the Node of a remediation that waits may become Ready by itself, or through another
    /// remediation of the same host. A Node that has been Ready all the time is cycled as
    /// requested, because the remediation then has another cause.
    fn node_came_back(&self, s: &State) -> Option<Decision> {
        let node = self.node().filter(|n| n.ready && s.node_was_down)?;
        let mut s = s.clone();
        let renewed = node.renewed();
        // The first renewal that is read may be from before the move.
        if s.former_lease.as_deref() == Some("") && !renewed.is_empty() {
            s.former_lease = Some(renewed.into());
            return Some(self.quiet_write(s, Reason::WaitingForRenewal));
        }
        if let Some(node) = self.o.unrenewed_node(&s) {
            let until = self.lease_quiet_from(node)?;
            return Some(self.wait(s, Reason::WaitingForRenewal, until));
        }
        if self.recovered(&s) {
            return Some(self.back_before_off(s));
        }
        // The health check may not have evaluated the Node yet; if the verdict has another cause,
        // it remains.
        let Some(since) = s.node_back else {
            s.node_back = Some(self.now);
            return Some(self.quiet_write(s, Reason::WaitingForHealth));
        };
        let until = after(since, HEALTH_GRACE);
        if self.now < until {
            return Some(self.wait(s, Reason::WaitingForHealth, until));
        }
        s.node_was_down = false;
        s.node_back = None;
        Some(self.quiet_write(s, Reason::Working))
    }

    /// F11: a check made the remediation for a failure that may have been over before any controller saw it: the Node
    /// became Ready after that, or cannot be seen; the check calls the Machine healthy; or the remediation is a copy,
    /// whose age is not known. What a person requests is carried out.
    pub(in super::super) fn may_be_older_than_recovery(&self) -> bool {
        let Some(made) = self.o.object.made_by_check else {
            return false;
        };
        let Some(node) = self.node() else {
            return true;
        };
        let machine = self.o.machine.as_ref();
        let is_healthy = machine.is_some_and(|m| m.health_check_succeeded == Some(true));
        let copied = machine.and_then(|m| m.created).zip(node.created);
        let is_copy = copied.is_some_and(|(machine, node)| machine > node);
        let is_back = node.ready_since.is_some_and(|since| since > made);
        node.ready && (is_healthy || is_copy || is_back)
    }

    /// Records that the Node was down while the remediation waits, see [`Self::node_came_back`].
    fn remember_node_down(&self, d: Decision) -> Decision {
        let down = self.node().is_some_and(|n| !n.ready);
        let known = d.state.node_was_down && d.state.node_back.is_none();
        if !down || known || !matches!(d.next, Next::Wait(_)) || d.state.step != Step::Pending {
            return d;
        }
        let mut s = d.state;
        s.node_was_down = true;
        s.node_back = None;
        self.quiet_write(s, d.reason)
    }

    /// Handles a withdrawn remediation whose state was lost: by the state nothing was done, but the
    /// agent holds the host for it.
    pub(super) fn finish_lost_power_off(&self, s: &State) -> Option<Decision> {
        let host_known = s.host.is_some() || matches!(self.o.host, HostView::Found(_));
        let began = self.o.object.finalizer && self.owns_finalizer(s);
        if s.step != Step::Pending || !host_known || !began {
            return None;
        }
        self.finish_by_power_on(s, Duration::ZERO)
    }

    /// Handles a Node that is gone before anything was done.
    fn missing_node(&self, s: &State) -> Option<Decision> {
        let WorkloadView::Missing { name } = &self.o.workload else {
            return None;
        };
        if self.o.object.by_node && s.step == Step::Pending {
            return Some(self.abort(s.clone(), Reason::NodeNotFound(name.clone())));
        }
        let replace = self.policy.node_gone == NodeGonePolicy::Replace
            && !s.outlets_may_be_off()
            && self.o.object.policy.is_ok()
            && !self.o.object.paused
            && s.keep_off.is_none()
            && self.stopped_by_other_node(s).is_none();
        replace.then(|| {
            let mut s = s.clone();
            s.record_attempt(Reason::NodeGone(name.clone()), self.now);
            self.attempts_exhausted(s)
        })
    }

    fn ready_to_begin(&self) -> Result<super::super::HostRef, Reason> {
        let o = self.o;
        if let Err(e) = &o.object.policy {
            return Err(Reason::InvalidSpec(e.to_string()));
        }
        if o.object.paused {
            return Err(Reason::Paused);
        }
        if let Some(why) = self.cluster_gone().or_else(|| self.cluster_removed()) {
            return Err(why);
        }
        if o.machine.is_none() {
            return Err(Reason::MachineNotFound("the Machine is gone".into()));
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

    fn host_not_fit(&self) -> Option<Reason> {
        let bmh = self.o.bmh.as_ref()?;
        let name = bmh.name.clone();
        if bmh.deleting {
            return Some(Reason::HostDeleting(name));
        }
        if bmh.paused {
            return Some(Reason::HostPaused(name));
        }
        if bmh.disable_power_off {
            return Some(Reason::UnsupportedHost(format!(
                "BareMetalHost {name} has spec.disablePowerOff"
            )));
        }
        if bmh.servicing {
            return Some(Reason::HostServicing(name));
        }
        // In other states baremetal-operator ignores the hold key and would switch the
        // host on again.
        if !bmh.detached && !bmh.provisioned {
            return Some(Reason::HostNotProvisioned(name));
        }
        None
    }

    pub(super) fn record_node(&self, s: &mut State) {
        if let Some(node) = self.node() {
            s.attempt.node = Some(PinnedNode::of(node));
        }
    }

    /// F9: before anything is added that has to be removed again.
    pub(super) fn add_finalizer(&self, s: &State) -> Option<Decision> {
        (!self.o.object.finalizer)
            .then(|| self.act(s.clone(), Reason::Started, Command::AddFinalizer))
    }

    /// Returns to waiting if another member of the control plane has failed since this one was let through (F6), or
    /// its host was frozen. Nothing is switched yet.
    pub(super) fn refused_again(&self, s: &State) -> Option<Decision> {
        let why @ (Reason::ControlPlaneQuorum(_) | Reason::HeldByPolicy(_)) =
            self.o.conflict.clone()?
        else {
            return None;
        };
        Some(self.wait_to_begin(s, why))
    }

    /// Waits while a mark is missing by which health checks leave the host of a maintenance alone: one that acted now
    /// would replace the Machine of a host on which somebody is about to work.
    pub(super) fn unmarked(&self, s: &State) -> Option<Decision> {
        let why = self.o.conflict.clone().filter(Reason::is_of_marks)?;
        Some(self.wait(s.clone(), why, after(self.now, MARKS_WATCH)))
    }

    /// The same in the last moment before a host is switched. One that has failed is fenced: its pods wait for that.
    pub(super) fn unmarked_before_off(&self, s: &State) -> Option<Decision> {
        self.unmarked(s).filter(|_| self.can_end_pods(s))
    }

    pub(super) fn wait_to_begin(&self, s: &State, why: Reason) -> Decision {
        if let Some(d) = self
            .uncordon(s, &why)
            .or_else(|| self.unblock_move(s, why.clone()))
        {
            return d;
        }
        let step = if s.attempts.is_empty() {
            Step::Pending
        } else {
            Step::Retrying
        };
        let mut s = s.clone();
        if s.step == Step::Evicting {
            // It is told if the host fails meanwhile, and nothing asks the API server before the fence.
            self.count_evicted(&mut s);
        }
        s.cordoned = None;
        self.to(s, step, why)
    }

    /// F16: gives way to an owner that services or deprovisions the host before anything was switched.
    pub(super) fn taken_before_off(&self, s: &State) -> Option<Decision> {
        let bmh = self.o.bmh.as_ref().filter(|b| !b.detached)?;
        let why = self.owner_works_on(bmh)?;
        if let Some(d) = self.cancel_interrupt(s, &why) {
            return Some(d);
        }
        if bmh.our_hold {
            return Some(self.act(s.clone(), why, Command::RemoveHold));
        }
        Some(self.wait_to_begin(s, why))
    }

    /// F2: makes the intent durable before the power-off.
    pub(super) fn holding(&self, mut s: State) -> Decision {
        let rival = || s.rival();
        if let Some(d) = self.return_outlets(&s) {
            return d;
        }
        // Nothing is switched yet, so this one can still give way to CAPM3's own controller.
        if let Some(why) = self.withdrawn().or_else(|| self.offline()).or_else(rival) {
            return self.abort(s, why);
        }
        if !self.holds()
            && let Some(d) = self.refused_again(&s)
        {
            return d;
        }
        if let Some(d) = self.taken_before_off(&s) {
            return d;
        }
        if let Some(d) = self.resume_before_hold(&s) {
            return d;
        }
        // An owner that switches may have seen the hold.
        let is_taken = self.holds() && s.mode == Mode::Cooperative;
        if !is_taken && let Some(d) = self.unmarked_before_off(&s) {
            return d;
        }
        // A move may have begun: what is not held yet is not held any more (F16).
        if !self.holds() && self.o.object.paused {
            return match self.cancel_interrupt(&s, &Reason::Paused) {
                Some(d) => d,
                None => self.wait_to_begin(&s, Reason::Paused),
            };
        }
        if let Some(d) = self.check_other_node_before_hold(&s) {
            return d;
        }
        if !self.holds()
            && let Some(d) = self.firmware_before_hold(&s, |why| self.wait_to_begin(&s, why))
        {
            return d;
        }
        if let Some(d) = self.add_finalizer(&s) {
            return d;
        }
        if let Some(d) = self.collect_evidence(&s) {
            return d;
        }
        if let Some(d) = self.block_move(&s) {
            return d;
        }
        if self.o.bmh.is_some() && !self.holds() {
            // Its owner asks the operating system as soon as it sees the hold.
            if s.mode == Mode::Cooperative && !s.attempt.soft_off && self.wants_soft_off(&s) {
                s.attempt.soft_off = true;
                return self.quiet_write(s, Reason::Holding);
            }
            return self.act(s, Reason::Holding, Command::AddHold);
        }
        s = self.with_collected_evidence(s);
        if s.mode == Mode::Direct && self.wants_soft_off(&s) {
            s.attempt.soft_off = true;
            return self.to(s, Step::ShuttingDown, Reason::AskingToShutDown);
        }
        self.power_off_next(s)
    }
}
