//! A host that was to be fenced because its Node had failed, and whose Node is Ready again before anything was sent.
//!
//! Invariants: a pod that is waited for does not lose its power on a host that works; nothing is taken back once a
//! command was sent, or may have been.

use super::{
    super::super::{
        super::{
            Mode, NodeFacts, OperationOutcome, OperationView, PowerDevice, Reason, State, Step,
            Strategy,
        },
        Command, Decision, Note, StepContext,
    },
    Outlook,
};

impl StepContext<'_> {
    /// Goes from the hold back to the eviction; `None` if the power-off goes on. Once the BareMetalHost of an owner that
    /// switches has the hold, it may have been switched.
    pub(in crate::remediation::step) fn resume_before_hold(&self, s: &State) -> Option<Decision> {
        let node = self.waited_for_again(s)?;
        if s.mode == Mode::Cooperative && self.holds() {
            return None;
        }
        Some(self.resume(s.clone(), node))
    }

    /// The same while the operating system is to be asked, and was not.
    pub(in crate::remediation::step) fn resume_before_soft_off(
        &self,
        s: &State,
    ) -> Option<Decision> {
        let node = self.waited_for_again(s)?;
        Some(self.resume(s.clone(), node))
    }

    /// The same from a power-off of which nothing was sent. One that is queued at the agent, or has a BMC that does not
    /// answer, is cancelled first.
    pub(in crate::remediation::step) fn resume_before_off(&self, s: &State) -> Option<Decision> {
        let node = self.waited_for_again(s)?;
        let is_unsent = s.mode == Mode::Direct && !s.attempt.soft_off && s.has_sent_nothing();
        if !is_unsent || self.agent_down().is_some() || self.operation_lost().is_some() {
            return None;
        }
        let mut s = s.clone();
        match &self.o.operation {
            None => {}
            Some(OperationView::Running | OperationView::Staged { .. }) => {
                return Some(self.cancel_operation(s, evicting()));
            }
            Some(
                OperationView::Finished {
                    outcome:
                        OperationOutcome::Cancelled
                        | OperationOutcome::Interrupted
                        | OperationOutcome::Unconfirmed { .. }
                        | OperationOutcome::Failed { .. },
                    commands_sent: 0,
                }
                | OperationView::Rejected { .. },
            ) => {}
            Some(OperationView::Finished { .. }) => return None,
        }
        if self.o.operation.is_some() || s.tries > 0 {
            // The ids of operations that were begun must not be used again.
            s.power_off_repeats = s.power_off_repeats.saturating_add(1);
            s.attempt.update_refusals = s.attempt.update_refusals.saturating_add(1);
        }
        Some(self.resume(s, node))
    }

    /// The Node, if it is Ready again by its Lease too, and was to be fenced although its pods are waited for.
    fn waited_for_again(&self, s: &State) -> Option<&NodeFacts> {
        let a = &s.attempt;
        let eviction = a.eviction.as_ref()?;
        let was_cut_short = !eviction.finished || s.strategy == Strategy::Evict;
        let is_first = a.taint.is_none() && a.off.is_none() && a.end_reason.is_none();
        let has_outlets = a.outlets.is_some() || s.device() != PowerDevice::Bmc;
        if !self.is_patient(s) || !was_cut_short || !is_first || has_outlets || s.keep_off.is_some()
        {
            return None;
        }
        match self.outlook(s) {
            Outlook::Alive(node) if node.ready => {
                let is_renewed = node.lease.is_none() || self.lease_quiet_from(node).is_some();
                is_renewed.then_some(node)
            }
            _ => None,
        }
    }

    fn resume(&self, mut s: State, node: &NodeFacts) -> Decision {
        if let Some(d) = self.cancel_interrupt(&s, &evicting()) {
            return d;
        }
        if self.holds() || self.hold_may_arrive(&s) {
            return self.act(s, evicting(), Command::RemoveHold);
        }
        if let Some(d) = self.unblock_move(&s, evicting()) {
            return d;
        }
        let former = s.attempt.eviction.take().unwrap_or_default();
        s.attempt.eviction = Some(Box::new(self.eviction_again(*former, true)));
        s.attempt.soft_off = false;
        let name = &node.name;
        let note = Note {
            step: None,
            warning: false,
            reason: "EvictionResumed",
            message: format!(
                "node {name} is Ready again, and no power-off was sent to its host: its pods are waited for again"
            ),
        };
        let mut d = self.to(s, Step::Evicting, evicting());
        d.notes = vec![note];
        d
    }
}

fn evicting() -> Reason {
    Reason::Evicting("the pods of the node".into())
}
