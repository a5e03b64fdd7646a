//! What can happen next, and what it does to the world.

use rackhand_core::remediation::{Next, OperationEvent, Step, Taint};

use crate::{
    remediation::{
        breakage::Breakage,
        world::{
            Flash, Power, Process, Registration, Sleep, World,
            evictions::NodeCordon,
            operation::{Phase, Run},
            outlets::Outlets,
            restore::Backup,
        },
    },
    time::until,
};

/// A fault; each costs one of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The controller crashes and loses everything that is not written. Another one takes over.
    Crash,
    /// A write or a command fails before it has an effect.
    Lost,
    /// A command has its effect, and the controller does not learn of it.
    AnswerLost,
    /// Time passes although somebody has something to do.
    Delay,
    /// The agent is restarted.
    AgentRestart,
    /// The agent is started anew with an empty journal.
    JournalWiped,
    /// The BMC stops answering, until it answers again.
    Silent,
    /// The BMC is reset and takes its host for off. It is not reset between a power-off that it took and its
    /// effect: nothing that can be read would tell.
    BmcReset,
    /// The same between a reading of on and the power-off that follows, which it refuses as already off.
    BmcResetAtOff,
    /// The controller is suspended after it has sent a call, and another one takes over. The call arrives
    /// at any later time.
    Deposed,
    /// Somebody switches the host on.
    Button,
    /// Somebody removes our hold key.
    HoldRemoved,
    /// The remediation is deleted.
    Deleted,
    /// The Node is deleted and made anew under the same name.
    NodeReplaced,
    /// The kubelet registers under another name from the next boot on; a host that runs boots at once.
    Renamed,
    /// A confirmation is put on the object before it is asked for, and nobody switches anything off.
    EarlyConfirmation,
    /// A person switches the host off by hand and confirms that it is off.
    Person,
    /// The etcd of the management cluster is restored from a backup.
    Restored,
    /// A PDU stops answering, until it answers again.
    PduSilent,
    /// Somebody switches an outlet on.
    OutletOn,
    /// An operator switches the other host on that the outlets feed.
    SiblingOn,
    /// An operator switches that host off.
    SiblingOff,
    /// The kubelet that hangs goes on, and reports.
    Recovers,
    /// An update of the firmware of the host begins.
    FlashBegins,
    /// A kubelet that works hangs from now on.
    Hangs,
    /// A person cordons the Node.
    Cordoned,
    /// A person removes the cordon while pods are evicted, and the pod that has left comes back.
    PodReturns,
    /// Whoever made the remediation gives it up.
    GivenUp,
    /// A person has the host switched after all that was to be left on.
    AskedOff,
    /// Somebody switches that host on by its button, and its BMC stops answering, until it answers again. The button
    /// is not pressed between the reading of that BMC and the command after it: nothing that can be read would tell.
    SiblingLost,
}

/// Everything that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The controller observes and decides.
    Decide,
    /// The controller carries out its decision.
    Carry,
    /// The controller claims its term at the agent: after a takeover, or because the journal is new.
    Claim,
    /// The call of a deposed controller arrives.
    Late,
    /// The agent does the next act of its operation.
    Agent,
    /// A change of power takes effect.
    Power,
    /// The host has booted.
    Boot,
    /// baremetal-operator looks at the host.
    Operator,
    /// Ironic forces the host to the state that it has stored.
    Force,
    /// The kubelet stops a pod that does not tolerate the taint.
    Evict,
    /// Kubernetes deletes the pod of a tainted Node that is not Ready.
    ForceDelete,
    /// The volume of the deleted pod is detached, and the pod is started on another host at once: no
    /// later start can be worse.
    Detach,
    /// The kubelet ends the pod that was evicted.
    PodEnds,
    /// The budget of the pod permits its eviction.
    BudgetPermits,
    /// The kubelet renews its Lease.
    Renew,
    /// The kubelet reports its first status of a boot.
    Report,
    /// The watch shows that the Node has changed since it was read.
    Watch,
    /// The control plane no longer hears the kubelet.
    Unheard,
    /// The BMC answers again.
    Answers,
    /// A BMC that was reset learns whether its host is on.
    Learns,
    /// The PDU answers again.
    PduAnswers,
    /// The BMC of the other host that the outlets feed answers again.
    SiblingAnswers,
    /// The workload API answers again.
    WorkloadAnswers,
    /// The update of firmware ends.
    FlashEnds,
    /// A backup of the management cluster is made.
    BackUp,
    /// The controller deals with a hold that an ended remediation has left at the agent.
    LeftHold,
    /// Nobody has anything to do before the next deadline, and time passes until then.
    Time,
    /// Something goes wrong.
    Fault(Fault),
}

/// All faults.
pub const FAULTS: [Fault; 18] = [
    Fault::Crash,
    Fault::Lost,
    Fault::AnswerLost,
    Fault::Delay,
    Fault::AgentRestart,
    Fault::JournalWiped,
    Fault::Silent,
    Fault::BmcReset,
    Fault::BmcResetAtOff,
    Fault::Deposed,
    Fault::Button,
    Fault::HoldRemoved,
    Fault::Deleted,
    Fault::NodeReplaced,
    Fault::Renamed,
    Fault::EarlyConfirmation,
    Fault::Person,
    Fault::Restored,
];

impl World {
    /// What has to happen before time passes.
    fn urgent(&self) -> Vec<Action> {
        let mut all = Vec::new();
        if self.process.held.is_some() {
            all.push(Action::Carry);
        } else if self.done.is_none() && self.process.sleep == Sleep::Awake {
            all.push(Action::Decide);
        }
        if !self.claimed && (self.done.is_none() || self.has_left_hold()) {
            all.push(Action::Claim);
        }
        if self.agent.due().is_some_and(|t| until(t).is_zero()) {
            all.push(Action::Agent);
        }
        if let Power::GoingOff(t) | Power::GoingOn(t) = self.host.power
            && until(t).is_zero()
        {
            all.push(Action::Power);
        }
        if self.host.boot.is_some_and(|t| until(t).is_zero()) {
            all.push(Action::Boot);
        }
        all
    }

    /// What may happen now or later.
    fn optional(&self) -> Vec<Action> {
        let heard = self.is_heard();
        let shown_ready =
            self.node.ready || self.registration == Registration::Other { ready: true };
        let tainted = self.node.taint != Taint::Absent;
        // Another renewal is another state only if somebody remembers the last one.
        let last = self.node.lease.to_string();
        let pinned = self.object.state.as_ref();
        let pinned = pinned.and_then(|s| s.attempt.lease_at_off.as_deref());
        let all = [
            (Action::Operator, self.can_operate()),
            (Action::Force, self.can_force()),
            (Action::Evict, heard && tainted && self.pod.bound),
            (
                Action::ForceDelete,
                tainted && !self.node.ready && self.pod.bound,
            ),
            (
                Action::Detach,
                !self.pod.bound && self.pod.volume && (tainted || !self.pod.process),
            ),
            (Action::Renew, heard && pinned == Some(last.as_str())),
            (
                Action::Report,
                self.late_status && heard && !self.is_reported(),
            ),
            (Action::Watch, self.is_watch_behind()),
            (
                Action::Unheard,
                (!self.host.up || self.leaving.is_some() && self.host.hung) && shown_ready,
            ),
            (Action::PodEnds, heard && self.is_evicted()),
            (
                Action::BudgetPermits,
                self.forbids_eviction() && self.pod.bound && self.may_evict(),
            ),
            (Action::Answers, self.bmc.silent && !self.has_dead_bmc()),
            (Action::Learns, self.bmc.reset),
            (Action::PduAnswers, self.outlets.is_some_and(|o| o.silent)),
            (
                Action::SiblingAnswers,
                self.outlets.is_some_and(|o| o.sibling_silent),
            ),
            (Action::WorkloadAnswers, self.is_workload_away()),
            (Action::FlashEnds, self.flash == Some(Flash::Running)),
            (Action::Late, self.late.is_some()),
            (Action::BackUp, self.can_back_up()),
            (Action::LeftHold, self.can_end_left_hold()),
        ];
        all.into_iter()
            .filter(|(_, on)| *on)
            .map(|(a, _)| a)
            .collect()
    }

    /// When the next thing is due.
    fn next_due(&self) -> Option<std::time::Duration> {
        let sleep = match self.process.sleep {
            Sleep::Watching(t) | Sleep::Paused(t) if self.done.is_none() => Some(t),
            _ => None,
        };
        let power = match self.host.power {
            Power::GoingOff(t) | Power::GoingOn(t) => Some(t),
            Power::On | Power::Off => None,
        };
        let all = [sleep, power, self.agent.due(), self.host.boot];
        let all = all.into_iter().flatten().map(until);
        all.filter(|d| !d.is_zero()).min()
    }

    /// Whether this fault can happen and makes a difference now.
    fn can(&self, fault: Fault) -> bool {
        let p = &self.process;
        let held = p.held.as_ref().map(|h| &h.next);
        let command = matches!(held, Some(Next::Do(_)));
        let open = self.agent.current().is_some();
        let off = matches!(self.host.power, Power::Off);
        if self.done.is_some() && fault != Fault::Restored {
            return false;
        }
        match fault {
            Fault::Crash => **p != Process::new(),
            Fault::Lost => held.is_some(),
            Fault::AnswerLost => command,
            Fault::Delay => !self.urgent().is_empty() && self.next_due().is_some(),
            Fault::AgentRestart => open,
            Fault::JournalWiped => !self.agent.ledger.operations.is_empty(),
            Fault::Silent => !self.bmc.silent,
            Fault::BmcReset => !self.bmc.reset && !self.bmc.silent && self.host.power == Power::On,
            Fault::BmcResetAtOff => self.is_about_to_switch_off(),
            Fault::Deposed => self.late.is_none() && self.sends(),
            Fault::Button => off && self.is_fed(),
            Fault::PduSilent => self.outlets.is_some_and(|o| !o.silent),
            Fault::OutletOn => self.outlets.is_some_and(|o| !o.on[0]),
            Fault::SiblingOn => self.outlets.is_some_and(|o| o.sibling == Some(false)),
            Fault::SiblingOff => self.outlets.is_some_and(|o| o.sibling == Some(true)),
            Fault::SiblingLost => {
                let is_read = |run: &Run| run.phase == Phase::Checked;
                let is_off = |o: Outlets| o.sibling == Some(false) && o.feeds();
                self.outlets.is_some_and(is_off) && !self.agent.runs.iter().any(is_read)
            }
            Fault::HoldRemoved => self.hold == Some(true),
            // A remediation that is deleted at once after a restore leaves its host as it is (docs/lifecycle.md).
            Fault::Deleted => !self.object.deleting && self.backup != Backup::Restored,
            Fault::NodeReplaced => true,
            Fault::Renamed => self.registration == Registration::Pinned,
            Fault::Recovers => self.host.up && self.host.hung,
            Fault::FlashBegins => self.flash == Some(Flash::Ahead) && self.host.power == Power::On,
            Fault::Hangs => self.host.up && !self.host.hung,
            Fault::Cordoned => self.node.cordon == NodeCordon::Absent,
            Fault::PodReturns => self.can_return(),
            Fault::GivenUp => self.leaving.is_some_and(|leaving| !leaving.given_up),
            Fault::AskedOff => self.is_left_on(),
            Fault::EarlyConfirmation => {
                let step = self.object.state.as_ref().map(|s| s.step);
                let early = step.is_none_or(|s| matches!(s, Step::Pending | Step::Holding));
                early && held.is_none() && !self.object.confirmed
            }
            Fault::Person => {
                let step = self.object.state.as_ref().map(|s| s.step);
                step == Some(Step::AwaitingConfirmation) && !self.object.confirmed
            }
            Fault::Restored => self.can_restore(),
        }
    }

    /// Everything that can happen now.
    pub fn enabled(&self, faults: &[Fault]) -> Vec<Action> {
        // After the end, what an operation or a late call still does is all that matters.
        let ended = self.done.is_some() && self.agent.current().is_none() && self.late.is_none();
        let ended = ended && !(self.budget > 0 && self.can_restore()) && !self.has_left_hold();
        if self.wrong.is_some() || ended {
            return Vec::new();
        }
        let urgent = self.urgent();
        let mut all = urgent.clone();
        all.extend(self.optional());
        if urgent.is_empty() && self.next_due().is_some() {
            all.push(Action::Time);
        }
        if self.budget > 0 {
            // Runs without a takeover, or without a restore, are those of the other worlds; not those with
            // an interrupt.
            let awaited = [
                (Fault::Deposed, !self.deposed && !self.interrupts),
                (Fault::Restored, self.backup != Backup::Restored),
            ];
            let mut awaited = awaited.into_iter();
            let due = awaited.find(|(fault, due)| *due && faults.contains(fault));
            let due = due.map(|(fault, _)| fault).filter(|_| self.budget == 1);
            let can = faults.iter().filter(|f| self.can(**f));
            let can = can.filter(|f| due.is_none_or(|due| due == **f));
            all.extend(can.map(|f| Action::Fault(*f)));
        }
        all
    }

    /// The world after an action.
    #[must_use]
    pub fn next(&self, action: Action, breakage: Option<Breakage>) -> Self {
        let mut w = self.clone();
        match action {
            Action::Decide => w.decides(breakage),
            Action::Carry => {
                if let Some(held) = w.process.held.take() {
                    w.carries(held, breakage, true);
                }
            }
            Action::Claim => {
                w.agent.claim(w.sent.term);
                w.claimed = true;
            }
            Action::Late => w.late_call_arrives(breakage),
            Action::Agent => w.agent_acts(breakage),
            Action::Power => match w.host.power {
                Power::GoingOff(_) => w.cut(),
                _ => w.powered(),
            },
            Action::Boot => w.booted(),
            Action::Operator => w.operates(),
            Action::Force => w.forces(),
            Action::Evict => (w.pod.bound, w.pod.process) = (false, false),
            Action::ForceDelete => w.pod.bound = false,
            Action::Detach => (w.pod.volume, w.pod.elsewhere) = (false, true),
            Action::PodEnds => w.pod_ends(),
            Action::BudgetPermits => w.budget_permits(),
            Action::Renew => w.renew(),
            Action::Report => w.report(),
            Action::Watch => w.process.shell.node.forget(),
            Action::Unheard => {
                w.node.ready = false;
                if let Registration::Other { ready } = &mut w.registration {
                    *ready = false;
                }
            }
            Action::Answers => w.bmc.silent = false,
            Action::Learns => w.bmc.reset = false,
            Action::PduAnswers => w.pdu_is_silent(false),
            Action::SiblingAnswers => w.sibling_answers(),
            Action::WorkloadAnswers => w.workload_answers(),
            Action::FlashEnds => w.flash = Some(Flash::Ended),
            Action::BackUp => w.back_up(),
            Action::LeftHold => w.ends_left_hold(breakage),
            Action::Time => w.passes(),
            Action::Fault(fault) => {
                w.budget = w.budget.saturating_sub(1);
                w.fails(fault, breakage);
            }
        }
        let ours = matches!(
            action,
            Action::Decide | Action::Carry | Action::Time | Action::BackUp
        );
        if !ours {
            w.changed();
        }
        if !matches!(action, Action::Time | Action::Fault(Fault::Delay)) {
            w.note_changes(self);
        }
        w
    }

    fn passes(&mut self) {
        if let Some(passed) = self.next_due() {
            self.pass(passed);
        }
    }

    fn fails(&mut self, fault: Fault, breakage: Option<Breakage>) {
        match fault {
            Fault::Crash => self.new_leader(),
            Fault::FlashBegins => self.flash = Some(Flash::Running),
            Fault::Hangs => self.host.hung = true,
            Fault::Cordoned => self.node.cordon = NodeCordon::Person,
            Fault::PodReturns => self.pod_returns(),
            Fault::GivenUp => self.given_up(),
            Fault::AskedOff => self.asked_off(),
            Fault::Lost => {
                if let Some(held) = self.process.held.take() {
                    self.call_failed(&held.next);
                }
            }
            Fault::AnswerLost => {
                if let Some(held) = self.process.held.take() {
                    self.carries(held, breakage, false);
                }
            }
            Fault::Delay => self.passes(),
            Fault::AgentRestart => {
                self.agent.restart();
                self.process.shell.operation_event(OperationEvent::Lost);
            }
            Fault::JournalWiped => {
                self.agent.wipe();
                // Nobody knows of the interrupt any more, so it may be sent again.
                self.interrupted = 0;
                self.claimed = false;
                self.process.shell.operation_event(OperationEvent::Lost);
            }
            Fault::Silent => (self.bmc.silent, self.was_silent) = (true, true),
            Fault::BmcReset => self.resets_bmc(),
            Fault::BmcResetAtOff => self.resets_bmc_at_off(breakage),
            Fault::Deposed => self.deposed(),
            Fault::Button => self.switch(true),
            Fault::HoldRemoved => self.hold = Some(false),
            Fault::Deleted => self.object.deleting = true,
            Fault::NodeReplaced => {
                self.node.uid = self.node.uid.saturating_add(1);
                self.node.taint = Taint::Absent;
                self.node.cordon = NodeCordon::Absent;
            }
            Fault::Renamed => self.renamed(),
            Fault::Recovers => {
                self.host.hung = false;
                self.report();
            }
            Fault::EarlyConfirmation => self.object.confirmed = true,
            Fault::Person => {
                self.cut();
                self.object.confirmed = true;
            }
            Fault::Restored => self.restore(),
            Fault::PduSilent => self.pdu_is_silent(true),
            Fault::OutletOn => self.outlet_button(),
            Fault::SiblingOn => self.switch_sibling(true),
            Fault::SiblingOff => self.switch_sibling(false),
            Fault::SiblingLost => self.sibling_is_lost(),
        }
    }
}
