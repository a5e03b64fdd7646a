//! Hands the power of a host back to baremetal-operator, and leaves it there while baremetal-operator uses
//! it (F16).
//!
//! Ironic remembers the power state that a host is to have, and forces the host back to it. So a host that
//! Rackhand switches on while Ironic has it as off goes off again, with nobody watching. Invariants: our hold
//! key goes only once the owner reports the host off; after that only the owner switches it on; a host that the
//! owner services or deprovisions receives no command of ours.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{
        BareMetalHostFacts, BmcAccess, HostView, OperationView, PowerDevice, PowerState, Reason,
        State, Step, Taint, TaintOwner, WorkloadView, handover::SILENT_OWNER,
    },
    Command, Decision, Note, RECHECK, StepContext, after,
    evidence::LatestReading,
    fenced::FENCED_WATCH,
    operation_id,
};

/// Interval in which the value of our hold key is changed until the owner reports the host off. Any change of an
/// annotation makes baremetal-operator look at the host at once, whatever its backoff.
const RENEW_EVERY: Duration = Duration::from_secs(30);

/// Time after which our hold key is removed again, where the webhook of its owner was away.
const HOLD_RETRY: Duration = Duration::from_secs(5);

/// Interval of reading whether baremetal-operator has switched the host on, during its grace period.
const OWNER_POLL: Duration = Duration::from_secs(1);

impl StepContext<'_> {
    /// The BareMetalHost whose baremetal-operator owns the power of the host.
    pub(super) fn owner(&self) -> Option<&BareMetalHostFacts> {
        let bmh = self.o.bmh.as_ref()?;
        (!bmh.detached && !bmh.deleting).then_some(bmh)
    }

    /// Whether a person has taken the power of the host from its owner, for this remediation.
    fn is_owner_overruled(&self) -> bool {
        self.o.object.override_owner.as_deref() == Some(self.o.object.uid.as_str())
    }

    /// When our hold key may be removed again; `None` if that need not be waited for.
    pub(super) fn hold_retry(&self) -> Option<Timestamp> {
        let bmh = self.o.bmh.as_ref().filter(|bmh| bmh.our_hold)?;
        let at = bmh.hold_refused.as_ref()?.at;
        let due = after(at, HOLD_RETRY);
        // A time ahead was taken before the clock was set back.
        (at <= self.now && self.now < due).then_some(due)
    }

    /// Whether the host is switched on although our hold key cannot be removed now: nobody acts on the key of a host
    /// that is detached, or whose owner a person has overruled after making sure that it does not run.
    pub(super) fn is_hold_kept(&self) -> bool {
        let is_detached = self.o.bmh.as_ref().is_some_and(|bmh| bmh.detached);
        self.hold_retry().is_some() && (is_detached || self.is_owner_overruled())
    }

    /// Removes our hold key; where that was refused a moment ago, goes on without it (`None`) or waits.
    pub(super) fn remove_hold(&self, s: &State) -> Option<Decision> {
        let bmh = self.o.bmh.as_ref().filter(|_| !self.is_hold_kept())?;
        let reason = match &bmh.hold_refused {
            Some(_) => Reason::OwnerDoesNotSwitchOn(owner_state(bmh)),
            None => Reason::PowerOnRunning,
        };
        Some(match self.hold_retry() {
            Some(due) => self.wait(s.clone(), reason, due),
            None => self.act(s.clone(), reason, Command::RemoveHold),
        })
    }

    /// Removes, from a host that was switched on, our hold key that could not be removed before; `None` if it has none
    /// or that was refused a moment ago.
    pub(super) fn remove_kept_hold(&self, s: &State, reason: &Reason) -> Option<Decision> {
        let is_due = self.holds() && self.hold_retry().is_none();
        is_due.then(|| self.act(s.clone(), reason.clone(), Command::RemoveHold))
    }

    /// F16: why our hold key has to stay; `None` once the owner has the host as off, or a person has taken the
    /// power from it.
    pub(super) fn await_owner_off(&self, s: &State) -> Option<Decision> {
        let bmh = self.owner()?;
        // A BMC that could not prove off to the agent reports nothing to Ironic either.
        let by_outlets = s.attempt.outlets.is_some();
        if bmh.powered_on == Some(false) || by_outlets || self.is_owner_overruled() {
            return None;
        }
        let reason = Reason::OwnerDoesNotReportOff(owner_state(bmh));
        let due = match bmh.hold_renewed {
            // A time ahead was written before the clock was set back.
            Some(at) if at <= self.now => after(at, RENEW_EVERY),
            _ => self.now,
        };
        let refused = bmh
            .hold_refused
            .as_ref()
            .filter(|refused| refused.at <= self.now);
        let due = refused.map_or(due, |refused| due.max(after(refused.at, RENEW_EVERY)));
        Some(if due <= self.now {
            self.act(s.clone(), reason, Command::RenewHold)
        } else {
            self.wait(s.clone(), reason, due)
        })
    }

    /// Records that our hold key is given up, before it is removed, or that the last key of others is gone; `None`
    /// if that is recorded, or the host has no owner.
    pub(super) fn record_release(&self, s: &State) -> Option<Decision> {
        self.owner()?;
        if s.attempt.handover.released.is_some() && !s.attempt.handover.held_by_others {
            return None;
        }
        let mut s = s.clone();
        s.attempt.handover.released = Some(self.now);
        s.attempt.handover.held_by_others = false;
        Some(self.quiet_write(s, Reason::PowerOnRunning))
    }

    /// F16: sets our hold key again that somebody else removed before the owner had the host as off; `None` if it was
    /// given up.
    pub(super) fn hold_again(&self, s: &State) -> Option<Decision> {
        let was_given_up = s.attempt.handover.released.is_some();
        (!was_given_up && self.await_owner_off(s).is_some())
            .then(|| self.act(s.clone(), Reason::PowerOnRunning, Command::AddHold))
    }

    /// Waits for others who keep the host off. The owner's time begins when the last of them is gone.
    pub(super) fn await_others(&self, s: &State, why: Reason) -> Decision {
        if s.attempt.handover.held_by_others {
            return self.recheck(s.clone(), why);
        }
        let mut s = s.clone();
        s.attempt.handover.held_by_others = true;
        self.write(s, why)
    }

    /// F16: leaves the power-on to the owner; `None` if there is none, or if the agent may switch the host on
    /// because Ironic has it as on. `Ok(())` once the host is on.
    pub(super) fn owner_switches_on(
        &self,
        s: &State,
        reason: Reason,
    ) -> Option<Result<(), Decision>> {
        // It cannot switch on a host whose outlets are off.
        let bmh = self
            .owner()
            .filter(|_| s.device() != PowerDevice::Outlets)?;
        let s = s.clone();
        // An older reading may be from before the power-off.
        let view = self.o.power.as_ref().filter(|view| view.asked >= s.since);
        let begun = s
            .attempt
            .handover
            .released
            .map_or(s.since, |at| at.max(s.since));
        let grace = after(begun, self.policy.cooperative_grace);
        let is_late = grace <= self.now;
        let agent_may = bmh.powered_on == Some(true) || self.is_owner_overruled();
        let (reason, poll) = match is_late {
            false => (reason, OWNER_POLL),
            true if agent_may => (reason, OWNER_POLL),
            true => (Reason::OwnerDoesNotSwitchOn(owner_state(bmh)), FENCED_WATCH),
        };
        let next = view.map_or(self.now, |view| after(view.answered, poll));
        let read = || self.act(s.clone(), reason.clone(), Command::ReadPower);
        match self.power_within(&s, poll.max(self.policy.hold_watch)) {
            LatestReading::On(_) if view.is_some() && self.exactly_on() => Some(Ok(())),
            fresh if view.is_none() || matches!(fresh, LatestReading::NotRead) => Some(Err(read())),
            _ if is_late && agent_may => None,
            _ if next <= self.now => Some(Err(read())),
            _ => {
                let until = if is_late { next } else { next.min(grace) };
                Some(Err(self.wait(s.clone(), reason.clone(), until)))
            }
        }
    }

    fn exactly_on(&self) -> bool {
        let reading = self
            .o
            .power
            .as_ref()
            .and_then(|view| view.result.as_ref().ok());
        reading.is_some_and(|r| r.state == PowerState::On)
    }

    /// F16: waits, after the Node is back, until the owner reports the host on; `None` once it does, or after the
    /// Node has been back for long enough without that. Its Event is [`Self::owner_silent`].
    pub(super) fn await_owner_on(&self, s: &State) -> Option<Decision> {
        let bmh = self.owner()?;
        if bmh.powered_on == Some(true) || self.is_owner_overruled() {
            return None;
        }
        let reason = Reason::OwnerDoesNotReportOn(bmh.name.clone());
        let mut s = s.clone();
        let Some(since) = s.attempt.handover.unreported else {
            s.attempt.handover.unreported = Some(self.now);
            return Some(self.quiet_write(s, reason));
        };
        let until = after(since, SILENT_OWNER);
        if until <= self.now && !self.is_read_off(&s) {
            return None;
        }
        // The host is read meanwhile, and one that goes off is switched on again.
        let until = match until <= self.now {
            true => after(self.now, RECHECK),
            false => until,
        };
        Some(self.monitor_boot(s, reason, until))
    }

    /// The Node is not back any more: the time of [`Self::await_owner_on`] begins anew.
    pub(super) fn not_back(&self, s: &State) -> Option<Decision> {
        s.attempt.handover.unreported?;
        let mut s = s.clone();
        s.attempt.handover.unreported = None;
        Some(self.quiet_write(s, Reason::WaitingForHealth))
    }

    /// The Event of a remediation that ends although the owner does not report the host on.
    pub(super) fn owner_silent(&self, s: &State) -> Option<Note> {
        let bmh = self
            .owner()
            .filter(|_| s.attempt.handover.unreported.is_some())?;
        (bmh.powered_on != Some(true) && !self.is_owner_overruled()).then(|| Note {
            warning: true,
            reason: "OwnerSilent",
            step: None,
            message: format!(
                "the node has been back for {} s and baremetal-operator still does not report it on: {}. \
                 If Ironic has the host as off, it switches it off again. See that baremetal-operator and \
                 Ironic run and that neither is paused for this host",
                SILENT_OWNER.as_secs(),
                owner_state(bmh)
            ),
        })
    }

    /// F16: what the owner starts is the owner's. While it services or deprovisions a host that is switched off
    /// for this remediation, nothing is sent, our hold key goes, and the taint stays.
    pub(super) fn owner_at_work(&self, s: &State) -> Option<Decision> {
        let switched = matches!(
            s.step,
            Step::PoweringOff
                | Step::AwaitingConfirmation
                | Step::ConfirmingOff
                | Step::Tainting
                | Step::Draining
                | Step::Fenced
                | Step::PoweringOn
        );
        let bmh = self.o.bmh.as_ref().filter(|b| switched && !b.detached)?;
        let why = match self.owner_works_on(bmh) {
            Some(why) => why,
            None if !s.attempt.handover.taken => return None,
            None if self.is_same_host(s) => {
                let mut s = s.clone();
                s.attempt.handover.taken = false;
                return Some(self.quiet_write(s, Reason::Working));
            }
            None => Reason::HostNotProvisioned(format!("{} for this Machine", bmh.name)),
        };
        let running = matches!(
            self.o.operation,
            Some(OperationView::Running | OperationView::Staged { .. })
        );
        let cancel = operation_id(&self.o.object.uid, s).map(|id| Command::Cancel { id });
        if let Some(cancel) = cancel.filter(|cancel| running && !self.done(cancel))
            && self.agent_down().is_none()
        {
            return Some(self.act(s.clone(), why, cancel));
        }
        if bmh.our_hold {
            return Some(self.act(s.clone(), why, Command::RemoveHold));
        }
        if let Some(d) = self.wait_for_other_agent(s) {
            return Some(d);
        }
        if s.attempt.handover.taken {
            return Some(self.recheck(s.clone(), why));
        }
        let mut s = s.clone();
        s.attempt.handover.taken = true;
        Some(self.write(s, why))
    }

    /// What the owner does with a host, if that excludes commands of ours.
    pub(super) fn owner_works_on(&self, bmh: &BareMetalHostFacts) -> Option<Reason> {
        let name = bmh.name.clone();
        if bmh.deleting {
            return Some(Reason::HostDeleting(name));
        }
        if !bmh.provisioned {
            return Some(Reason::HostNotProvisioned(name));
        }
        bmh.servicing.then_some(Reason::HostServicing(name))
    }

    /// Whether the host that its owner returns is still that of the Machine.
    fn is_same_host(&self, s: &State) -> bool {
        let found = match &self.o.host {
            HostView::Found(host) => s.host.as_ref() == Some(host),
            HostView::NotFound(_) => false,
        };
        found && self.o.machine.is_some()
    }

    /// F16: removes the taint from the Node of a host that its owner has taken, once the Node is gone or the host
    /// is read off; `None` if nothing is left to do.
    pub(super) fn clean_up_taken_node(&self, s: &State, reason: &Reason) -> Option<Decision> {
        let tainted =
            matches!(&self.o.workload, WorkloadView::Present(n) if n.taint == Taint::Ours);
        if s.attempt.taint != Some(TaintOwner::Us) || !tainted {
            return self.clean_up_node(s, reason);
        }
        let view = self.o.power.as_ref().filter(|view| view.asked >= s.since);
        if let Some(why) = self.bmc_down() {
            // Without the BareMetalHost the BMC cannot be read any more.
            let gone = matches!(self.o.access, BmcAccess::HostGone { .. });
            let reason = if gone { reason.clone() } else { why };
            return Some(self.recheck(s.clone(), reason));
        }
        match self.power_within(s, FENCED_WATCH) {
            LatestReading::Off if view.is_some() => self.clean_up_node(s, reason),
            fresh if view.is_none() || matches!(fresh, LatestReading::NotRead) => {
                Some(self.act(s.clone(), reason.clone(), Command::ReadPower))
            }
            _ => Some(self.recheck(s.clone(), reason.clone())),
        }
    }
}

/// What a BareMetalHost shows of its owner, for messages.
fn owner_state(bmh: &BareMetalHostFacts) -> String {
    let reported = match bmh.powered_on {
        Some(true) => "poweredOn true",
        Some(false) => "poweredOn false",
        None => "no power state",
    };
    let mut text = format!("BareMetalHost {} reports {reported}", bmh.name);
    if bmh.paused {
        text.push_str(", and is paused");
    }
    if let Some(error) = &bmh.error {
        text.push_str(", and its error is: ");
        text.push_str(error);
    }
    match &bmh.hold_refused {
        Some(refused) if bmh.our_hold => {
            text.push_str(", and our hold key cannot be changed: ");
            text.push_str(&refused.why);
            text.push_str(
                ". If a person takes the power, the key stays: make sure that baremetal-operator does not run, and does \
                 not start before the key is gone (without its ValidatingWebhookConfiguration it goes)",
            );
        }
        _ => {}
    }
    text
}
