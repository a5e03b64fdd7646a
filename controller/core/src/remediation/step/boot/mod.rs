//! The boot, from the confirmed power-on until the Node is healthy again.

mod watch;

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::{
    super::{
        NodeFacts, OffEvidence, PinnedNode, Reason, State, Step, Strategy, Taint, TaintOwner,
        WorkloadView,
    },
    Command, Decision, Next, Note, RECHECK, RemediationOutcome, StepContext, after,
    node::identity::contradiction_with_pinned,
};

/// Time for a Node to report after its API was out of reach beyond the boot timeout. A kubelet
/// writes its status every 10 s.
const REPORT_GRACE: Duration = Duration::from_secs(60);

/// Progress of the boot timeout.
enum BootClock {
    Until(Timestamp),
    Over,
    /// It cannot be evaluated now, for this reason.
    Blind(Reason),
    /// A state must be written first.
    Write(Box<Decision>),
}

impl StepContext<'_> {
    /// Whether the Node is Ready and no live health check reports it as unhealthy or, where no check says, no condition
    /// persists that was the cause.
    pub(super) fn recovered(&self, s: &State) -> bool {
        let machine = self.o.machine.as_ref().filter(|m| !m.not_checked);
        let still_unhealthy = match machine.and_then(|m| m.health_check_succeeded) {
            Some(succeeded) => !succeeded,
            None => self.persisting_cause(s).is_some(),
        };
        self.node().is_some_and(|n| n.ready) && !still_unhealthy
    }

    /// Which of these conditions the Node shows; `None`: there are none, or no Node.
    pub(super) fn shown_causes(
        &self,
        checked: Option<&BTreeSet<(String, String)>>,
    ) -> Option<BTreeSet<(String, String)>> {
        let (node, checked) = self.node().zip(checked)?;
        let shown = node.conditions.iter();
        let shown = shown.map(|(kind, status)| (kind.clone(), status.clone()));
        Some(
            shown
                .filter(|condition| checked.contains(condition))
                .collect(),
        )
    }

    /// The condition of the Node that its check still calls unhealthy or, without the check, that was the cause.
    pub(super) fn persisting_cause(&self, s: &State) -> Option<(String, String)> {
        let checked = self.o.object.checked.as_ref().unwrap_or(&s.causes);
        self.shown_causes(Some(checked))?.pop_first()
    }

    /// Waits until the Node has reported after the power-on.
    pub(super) fn booting(&self, mut s: State) -> Decision {
        if let Some(why) = self.offline() {
            return self.abort(s, why);
        }
        if let Some(d) = self.remove_kept_hold(&s, &self.booting_reason(&s)) {
            return d;
        }
        // A host that was kept off, as for planned work, is left alone by its health check until the end: that is not
        // before it has booted.
        let was_kept_off = matches!(s.strategy, Strategy::PowerOff | Strategy::Evict);
        let nothing_to_undo = self.withdrawn().is_some()
            && !was_kept_off
            && s.attempt.taint != Some(TaintOwner::Us)
            && !self.o.object.node_backup;
        if self.has_booted(&s) || nothing_to_undo {
            return self.restored(s);
        }
        if let Some(d) = self.boots_as_other_node(&s, false) {
            return d;
        }
        match self.boot_clock(&s) {
            BootClock::Until(deadline) => {
                let reason = self.booting_reason(&s);
                let until = (self.hold_retry()).map_or(deadline, |retry| retry.min(deadline));
                self.monitor_boot(s, reason, until)
            }
            BootClock::Blind(why) => self.monitor_boot(s, why, after(self.now, RECHECK)),
            BootClock::Write(d) => *d,
            BootClock::Over => {
                if let Some(d) = self.boots_through_update(&s) {
                    return d;
                }
                if let Some(d) = self.boots_as_other_node(&s, true) {
                    return d;
                }
                s.attempt.end_reason = Some(Reason::BootTimeout);
                self.to(s, Step::Restoring, Reason::BootTimeout)
            }
        }
    }

    /// Removes what was added, and ends, without a record of the step for it: what is removed is recorded as ours, and
    /// its removal may be repeated. The step is entered where something has to be waited for.
    fn restored(&self, s: State) -> Decision {
        let d = self.restoring(s.clone());
        let needs_no_step = match &d.next {
            Next::Do(command) => matches!(
                command,
                Command::RemoveTaint
                    | Command::RestoreNode
                    | Command::RemoveHold
                    | Command::UnblockMove
                    | Command::UnblockHost
                    | Command::CollectBootLog
                    | Command::EndMachineRequest
                    | Command::RemoveFinalizer(_)
            ),
            Next::Done(_) => true,
            Next::Write if d.state.step == s.step => d.state.attempt.handover == s.attempt.handover,
            Next::Write => d.state.step == Step::Succeeded,
            Next::Wait(_) => false,
        };
        match needs_no_step {
            true => d,
            false => self.to(s, Step::Restoring, Reason::WaitingForHealth),
        }
    }

    /// Why a host that was switched on is waited for.
    pub(super) fn booting_reason(&self, s: &State) -> Reason {
        if self.has_restored_outlets(s) {
            Reason::OutletsRestored(self.outlet_names(s))
        } else {
            Reason::Booting
        }
    }

    fn has_booted(&self, s: &State) -> bool {
        let node = self.node();
        if node.is_some_and(|node| contradiction_with_pinned(s, node).is_some()) {
            return false;
        }
        match (node, &s.attempt.node) {
            // A kubelet renews its Lease up to half a minute before its first status of a boot. Until then the API
            // shows the status of before.
            (Some(node), Some(PinnedNode { boot_id, .. })) if !node.boot_id.is_empty() => {
                node.boot_id != *boot_id
            }
            (Some(node), Some(_)) => {
                Self::lease_moved(s, node) && node.ready && Self::reported_since_off(s, node)
            }
            (Some(node), None) => node.ready && Self::reported_since_off(s, node),
            (None, _) => false,
        }
    }

    /// Whether the kubelet has reported this boot and has yet to report Ready, within the boot timeout: the first status
    /// of a boot is never Ready.
    fn is_starting(&self, s: &State) -> bool {
        let is_unready = self.node().is_some_and(|n| !n.ready);
        is_unready && self.has_booted(s) && !matches!(self.boot_clock(s), BootClock::Over)
    }

    /// Whether a person requested this remediation by an annotation of the Machine, and the host was power-cycled and
    /// its Node is Ready. The annotation alone would make the Machine unhealthy for ever.
    fn is_request_fulfilled(&self, s: &State) -> bool {
        let machine = self.o.machine.as_ref();
        let is_requested = machine.is_some_and(|m| m.is_requested);
        is_requested && self.has_booted(s) && self.node().is_some_and(|n| n.ready)
    }

    /// Whether the Node was registered, or its condition Ready has changed, since the host was confirmed off, as far as
    /// the Node tells. For a Node without a boot id to compare.
    fn reported_since_off(s: &State, node: &NodeFacts) -> bool {
        let Some(off) = s.attempt.off.as_ref().map(OffEvidence::at) else {
            return true;
        };
        let is_registered = node.created.is_some_and(|created| created > off);
        is_registered || node.ready_since.is_none_or(|since| since > off)
    }

    /// Evaluates the boot timeout. A workload API that is out of reach proves nothing about the
    /// Node and must not cause another power cycle.
    fn boot_clock(&self, s: &State) -> BootClock {
        let mut s = s.clone();
        let limit = after(s.attempt.on.unwrap_or(s.since), self.policy.boot_timeout);
        let deadline = s.retry_at.map_or(limit, |at| at.max(limit));
        match &self.o.workload {
            WorkloadView::Unreachable { why } if deadline <= self.now => {
                let reason = Reason::WorkloadUnreachable(why.clone());
                if s.failure.is_some() {
                    return BootClock::Blind(reason);
                }
                s.failure = Some(why.clone());
                BootClock::Write(Box::new(self.write(s, reason)))
            }
            WorkloadView::Unreachable { .. } => BootClock::Until(deadline),
            _ if s.failure.is_some() => {
                s.failure = None;
                s.retry_at = Some(after(self.now, REPORT_GRACE.min(self.policy.boot_timeout)));
                BootClock::Write(Box::new(self.quiet_write(s, Reason::Booting)))
            }
            _ if deadline <= self.now => BootClock::Over,
            _ => BootClock::Until(deadline),
        }
    }

    /// Removes what was added (F9), then waits until the Node is healthy.
    pub(super) fn restoring(&self, s: State) -> Decision {
        if let Some(d) = self.clean_up_node(&s, &Reason::WaitingForHealth) {
            return d;
        }
        if self.holds() {
            return self.act(s, Reason::WaitingForHealth, Command::RemoveHold);
        }
        if let Some(d) = self.unblock_before_end(&s, Reason::WaitingForHealth) {
            return d;
        }
        let is_renamed = matches!(s.attempt.end_reason, Some(Reason::OtherNodeOnHost(_)));
        let boot_is_over =
            self.has_booted(&s) || is_renamed || s.attempt.end_reason == Some(Reason::BootTimeout);
        if boot_is_over && let Some(d) = self.collect_boot_log(&s) {
            return d;
        }
        if self.o.object.deleting {
            // A health check deletes the remediation as soon as the Node is back.
            let back = self.has_booted(&s) && self.node().is_some_and(|n| n.ready);
            let is_as_wanted = matches!(
                s.attempt.end_reason,
                None | Some(Reason::KeptOffUntilDeleted)
            );
            let outcome = match back && is_as_wanted {
                true => RemediationOutcome::Succeeded,
                false => RemediationOutcome::Withdrawn,
            };
            if back && let Some(d) = self.await_owner_on(&s) {
                return d;
            }
            let reason = s.attempt.end_reason.clone().unwrap_or(Reason::Recovered);
            let silent = self.owner_silent(&s);
            let mut d = self.finish(s, reason, outcome);
            d.notes.extend(silent);
            if d.next == Next::Do(Command::RemoveFinalizer(outcome)) {
                // No state is recorded for this end, and people look for it among the Events.
                d.notes.push(Note {
                    warning: false,
                    reason: match outcome {
                        RemediationOutcome::Succeeded => Step::Succeeded.label(),
                        _ => Reason::Withdrawn.label(),
                    },
                    step: Some(Step::Succeeded),
                    message: d.reason.to_string(),
                });
            }
            return d;
        }
        let mut s = s;
        // After a withdrawal the Node may still look as it did before the power-off.
        let same = self
            .node()
            .is_none_or(|n| contradiction_with_pinned(&s, n).is_none());
        if same && self.is_request_fulfilled(&s) && !self.done(&Command::EndMachineRequest) {
            return self.act(s, Reason::WaitingForHealth, Command::EndMachineRequest);
        }
        let recovered = self.recovered(&s) && same && self.has_booted(&s);
        match self.withdrawn() {
            Some(why) if !recovered && !self.is_starting(&s) => return self.abort(s, why),
            None if s.attempt.end_reason == Some(Reason::BootTimeout) => {
                return self.attempt_failed(s, Reason::BootTimeout);
            }
            None if is_renamed && !recovered => return self.attempt_ended_by_other_node(s),
            _ => {}
        }
        if recovered {
            if let Some(d) = self.await_owner_on(&s) {
                return d;
            }
            let silent = self.owner_silent(&s);
            s.attempt.end_reason = None;
            s.record_attempt(Reason::Recovered, self.now);
            let mut d = match s.rival() {
                Some(why) => self.give_way(s, why),
                None => self.to(s, Step::Succeeded, Reason::Recovered),
            };
            d.notes.extend(silent);
            return d;
        }
        if let Some(d) = self.not_back(&s) {
            return d;
        }
        // The verdict on the Machine follows that of the Node, without an event of the Node.
        let recheck = after(self.now, RECHECK);
        match self.boot_clock(&s) {
            BootClock::Write(d) => *d,
            BootClock::Over => match (self.boots_through_update(&s))
                .or_else(|| self.boots_as_other_node(&s, true))
            {
                Some(d) => d,
                None => self.attempt_failed(s, Reason::BootTimeout),
            },
            BootClock::Blind(why) => self.monitor_boot(s, why, recheck),
            BootClock::Until(deadline) => {
                self.monitor_boot(s, Reason::WaitingForHealth, recheck.min(deadline))
            }
        }
    }

    /// Removes the taint and the cordon that were added, and restores what the Node had; `None` if there is
    /// nothing to do.
    pub(super) fn clean_up_node(&self, s: &State, reason: &Reason) -> Option<Decision> {
        self.clean_up_taint(s, reason.clone())
            .or_else(|| self.uncordon(s, reason))
    }

    fn clean_up_taint(&self, s: &State, reason: Reason) -> Option<Decision> {
        let tainted = s.attempt.taint == Some(TaintOwner::Us);
        let kept = self.o.object.node_backup;
        if !tainted && !kept {
            return None;
        }
        match &self.o.workload {
            WorkloadView::Present(_) if kept => {
                Some(self.act(s.clone(), reason, Command::RestoreNode))
            }
            WorkloadView::Present(node) => match node.taint {
                Taint::Ours => Some(self.act(s.clone(), reason, Command::RemoveTaint)),
                // A taint with another value was set by a person.
                Taint::Absent | Taint::Other => None,
            },
            WorkloadView::Unreachable { why } => {
                Some(self.recheck(s.clone(), Reason::WorkloadUnreachable(why.clone())))
            }
            WorkloadView::NotJoined
            | WorkloadView::Missing { .. }
            | WorkloadView::ClusterGone { .. } => None,
        }
    }
}
