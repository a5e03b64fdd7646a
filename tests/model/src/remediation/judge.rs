//! Rules that an act can break, and what judges the acts of the controller by what is true in the world.

use rackhand_core::remediation::{
    Command, LATEST_READING_AGE, Mode, Next, OffEvidence, State, Step, Taint, operation_id,
};

use crate::{
    remediation::world::{Held, Registration, UID, World, evictions::NodeCordon},
    time::NOW,
};

/// A rule that was broken by an act; states in which something is wrong are not continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    /// F1: our taint without proof, on a running host, unheld, or on another Node than the pinned one.
    Taint,
    /// F1: a pod was deleted without proof, on a running host, or of another Node than the pinned one.
    PodDeletion,
    /// F2: a power-off that is not in the stored state, or without our hold.
    Intent,
    /// F4: a power-on before the drain was finished.
    EarlyOn,
    /// F6: an operation was begun while another one of the host had not ended.
    TwoOperations,
    /// F9: something of ours was left at the end.
    Left,
    /// F9: the host was left off at the end, although its BMC answers and no failure was reported.
    LeftOff,
    /// A command to the BMC after the end.
    Late,
    /// F2, F8: the outlets were switched off before the BMC had failed, or without it in the state.
    Outlets,
    /// F5: the outlets were switched off although the BMC belongs to another system.
    Identity,
    /// F9: an outlet was left off at the end.
    OutletsLeft,
    /// F5: another host, to which our BMC belongs, was left off at the end.
    OtherLeftOff,
    /// A running host lost its power with the outlets of ours.
    Sibling,
    /// A diagnostic interrupt of a host that is not being fenced, or more than one in an attempt.
    Interrupt,
    /// F14: a power-off of a host on which another Node runs.
    Healthy,
    /// The taint was removed before the Node had reported after the boot.
    Unreported,
    /// F16: a power-on by the agent while Ironic has the host as off.
    BehindOwner,
    /// F16: a host that is back while Ironic has it as off.
    Undone,
    /// F12: a power-off on the word of a state from before the power-on.
    Outdated,
    /// F11: a remediation began although its Node was Ready again.
    Recovered,
    /// The host lost its power while its firmware was written.
    Bricked,
    /// F12: a change of the Node that had to be read was not seen.
    Unseen,
    /// A pod was ended although its budget forbids it and nobody has permitted that.
    Budget,
    /// A host was switched off that a person had asked to be left on.
    LeftOn,
    /// The cordon of somebody else was taken for ours, or removed.
    Cordon,
    /// A pod of another Node than the one that was read was evicted.
    EvictedOther,
}

/// Whether a remediation is over with this step, or goes to its end.
pub(crate) fn is_end(step: Step) -> bool {
    step.is_terminal() || step == Step::Aborting
}

impl World {
    /// Records the first rule that was broken.
    pub fn broken(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    /// F9: nothing of ours is left at the end.
    pub(crate) fn judge_left(&mut self) {
        if self.object.finalizer
            || self.hold == Some(true)
            || self.agent.holds() && !self.has_left_hold()
            || self.node.taint == Taint::Ours
            || self.node.cordon == NodeCordon::Ours
        {
            self.broken(Wrong::Left);
        }
    }

    /// F11: a Node that is Ready again stays as it is, once that could be read.
    pub(crate) fn judge_beginning(&mut self, decided: &State) {
        let before = self.process.shell.state.as_ref();
        let is_pending =
            |s: &State| s.step == Step::Pending && s.node_was_down && s.former_lease.is_none();
        let begins = before.is_some_and(is_pending) && decided.step.takes_host();
        let kept = self.process.shell.node.kept.as_ref();
        let is_old = kept.is_some_and(|kept| {
            kept.asked
                .checked_add(LATEST_READING_AGE)
                .is_ok_and(|t| t <= NOW)
        });
        let runs = self.registration == Registration::Pinned && self.node.ready;
        if begins && is_old && runs {
            self.broken(Wrong::Recovered);
        }
    }

    /// F12: what rests on the Node rests on it as it is, or as it was a moment ago.
    pub(crate) fn judge_reading(&mut self, decided: &State, next: &Next) {
        let shell = &self.process.shell;
        let Some(kept) = shell.node.kept.as_ref().filter(|kept| !kept.is_live) else {
            return;
        };
        let stands_until = kept.asked.checked_add(LATEST_READING_AGE);
        let is_old = stands_until.is_ok_and(|until| until <= NOW);
        let before = shell.state.as_ref().map(|before| before.step);
        let rests_on_it = match next {
            Next::Do(Command::PowerOff { .. }) => decided.mode == Mode::Direct,
            Next::Do(Command::PowerOn { .. }) => is_old,
            Next::Write => before != Some(decided.step) && is_end(decided.step),
            _ => false,
        };
        if rests_on_it && self.is_watch_behind() {
            self.broken(Wrong::Unseen);
        }
    }

    /// F2: the power-off is in the stored state, and the host is held. F12: that state is not of before the
    /// power-on.
    pub(crate) fn judge_power_off(&mut self, state: &State, id: &str, held: &Held) {
        let hold = held.hold;
        if held.switches_healthy_off {
            self.broken(Wrong::Healthy);
        }
        let is_ours = operation_id(UID, state).is_some_and(|stored| stored == id);
        if !is_ours || !state.agent_holds || hold == Some(false) {
            self.broken(Wrong::Intent);
        }
        if self.ended_off {
            self.broken(Wrong::Outdated);
        }
        if self.is_left_on() {
            self.broken(Wrong::LeftOn);
        }
        if held.ends_awaited_pod {
            self.broken(Wrong::Budget);
        }
    }

    /// A diagnostic interrupt crashes a host. It is sent once, unless the journal is lost, and only to a host that
    /// is about to be switched off.
    pub(crate) fn judge_interrupt(&mut self) {
        if self.done.is_some() {
            self.broken(Wrong::Late);
        }
        let step = self.object.state.as_ref().map(|s| s.step);
        let is_fenced = matches!(
            step,
            Some(
                Step::Holding | Step::PoweringOff | Step::AwaitingConfirmation
                    // It was accepted before the remediation was withdrawn.
                    | Step::Aborting
            )
        );
        if !is_fenced || self.ended_off || self.interrupted > 0 {
            self.broken(Wrong::Interrupt);
        }
    }

    /// F1: proven in this attempt, for the pinned Node, on a host that is held and not running.
    pub(crate) fn judge_taint(&mut self, state: &State, hold: Option<bool>) {
        let uid = format!("uid-{}", self.node.uid);
        let is_pinned = state.attempt.node.as_ref().is_some_and(|n| n.uid == uid);
        if !is_pinned || !self.is_proven(state, hold) {
            self.broken(Wrong::Taint);
        }
    }

    /// Whether the host was proven off in this attempt, is held, and does not run.
    pub(crate) fn is_proven(&self, state: &State, hold: Option<bool>) -> bool {
        let proven = match &state.attempt.off {
            Some(OffEvidence::Bmc { taken, .. } | OffEvidence::Outlets { taken, .. }) => {
                taken.proof.is_some()
            }
            Some(OffEvidence::Person { .. }) => self.object.confirmed,
            None => false,
        };
        let held = state.mode == Mode::Direct || hold != Some(false);
        state.attempt.lease_at_off.is_some() && proven && held && !self.host.up
    }

    /// The Node that loses its taint has reported since it was switched on.
    pub(crate) fn judge_return(&mut self, state: &State) {
        let is_boot = matches!(state.step, Step::Booting | Step::Restoring);
        let is_back = is_boot && state.attempt.end_reason.is_none();
        if is_back && self.registration == Registration::Pinned && !self.is_reported() {
            self.broken(Wrong::Unreported);
        }
    }

    /// F4: drained, unless nothing was moved.
    pub(crate) fn judge_power_on(&mut self, state: &State) {
        let left = self.pod.bound || self.pod.volume;
        let ours = self.node.taint == Taint::Ours;
        if left && ours && state.step != Step::Aborting {
            self.broken(Wrong::EarlyOn);
        }
    }
}
