//! The controller in the model: it observes, decides and carries out.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_core::remediation::{
    Begun, BootLog, Command, HostEvidence, LeaseMemory, Next, Pace, PowerDevice, PowerReading,
    PowerView, RemediationOutcome, State, Taint, Turn, UpdateReading, UpdateStatus,
    deletion_is_justified, is_passed_at_once,
};

use crate::{
    remediation::{
        breakage::Breakage,
        judge::Wrong,
        observe::{decide, policy},
        world::{
            Changed, Flash, Held, Node, Power, Process, Sleep, World,
            agent::Beginning,
            operation::{flash, is_interrupt, reading},
            outlets::outlet_reading,
        },
    },
    time::NOW,
};

impl World {
    /// Observes and decides.
    pub(crate) fn decides(&mut self, breakage: Option<Breakage>) {
        let (process, _, d) = decide(self, breakage);
        self.process = process.into();
        match d.next {
            Next::Wait(t) => self.turned(Turn::Wait(Some(t))),
            Next::Done(outcome) => {
                self.done = Some(outcome);
                let state = self.object.state.clone();
                self.judge_undone(outcome, state.as_ref());
                self.judge_left();
                self.judge_outlets_left();
                self.judge_other_host();
                let off = matches!(self.host.power, Power::Off | Power::GoingOff(_));
                let told = matches!(
                    outcome,
                    RemediationOutcome::Failed | RemediationOutcome::Escalated
                );
                if off && !told && self.hold.is_none() && !self.was_silent {
                    self.broken(Wrong::LeftOff);
                }
                self.process = Process::new().into();
            }
            next => {
                self.judge_beginning(&d.state);
                self.judge_reading(&d.state, &next);
                let is_off = matches!(next, Next::Do(Command::PowerOff { .. }));
                let recorded = self.process.shell.state.as_ref();
                let is_passed =
                    next == Next::Write && is_passed_at_once(recorded, &d.state, &d.reason, true);
                self.process.held = Some(Held {
                    switches_healthy_off: is_off
                        && d.state.attempt.taint.is_none()
                        && self.runs_as_other_node(),
                    ends_awaited_pod: is_off && self.has_awaited_pod() && !self.has_sent(),
                    state: d.state,
                    next,
                    is_passed,
                    // A patch carries the version that was read.
                    changed: Changed {
                        node: self.is_watch_behind() && breakage != Some(Breakage::KeptTaints),
                        ..Changed::default()
                    },
                    hold: self.hold,
                    sent: self.sent,
                });
            }
        }
    }

    /// Carries out a decision; `noted`: the controller learns that it was.
    pub(crate) fn carries(&mut self, mut held: Held, breakage: Option<Breakage>, noted: bool) {
        self.process.sleep = Sleep::Awake;
        held.sent = self.next_call();
        if Self::is_refused(&held, breakage) {
            return self.call_failed(&held.next);
        }
        let next = held.next.clone();
        let turn = match &next {
            Next::Write => {
                let mut state = held.state;
                if let Some(b) = breakage {
                    b.write(&mut state);
                }
                self.object.state = Some(state);
                if noted {
                    self.process.shell.written(self.object.state.as_ref());
                }
                Turn::Again
            }
            Next::Do(command) => {
                let answers = self.process.shell.evictions.clone();
                let skipped = breakage.is_some_and(|b| b.skips(command));
                let state = self.object.state.clone().unwrap_or_else(|| State::new(NOW));
                let worked = skipped || self.execute(&held, &state, command, breakage);
                if !worked {
                    return self.call_failed(&next);
                }
                let is_of_node = matches!(
                    command,
                    Command::AddTaint
                        | Command::RemoveTaint
                        | Command::Cordon { .. }
                        | Command::Uncordon { .. }
                );
                let begins = matches!(command, Command::PowerOff { .. } | Command::PowerOn { .. });
                if noted {
                    if begins {
                        self.process.shell.began(Begun::Accepted);
                        self.process.shell.follow();
                    }
                    self.process.shell.done(command);
                    if is_of_node {
                        let answer =
                            crate::remediation::observe::node(self, &mut LeaseMemory::default());
                        self.process.shell.node.changed(answer);
                    }
                }
                if !noted {
                    self.process.shell.evictions = answers;
                }
                Turn::Did(command.clone())
            }
            Next::Wait(_) | Next::Done(_) => return,
        };
        if noted {
            self.turned(turn);
        } else {
            self.call_failed(&next);
        }
    }

    /// A call failed, or its answer was lost.
    pub(crate) fn call_failed(&mut self, next: &Next) {
        self.process.sleep = Sleep::Awake;
        let shell = &mut self.process.shell;
        match next {
            Next::Write | Next::Do(Command::AddFinalizer | Command::RemoveFinalizer(_)) => {
                shell.write_failed();
            }
            Next::Do(Command::PowerOff { .. } | Command::PowerOn { .. }) => {
                shell.began(Begun::Unclear);
            }
            // So is evidence that was not collected.
            Next::Do(command @ Command::CollectEvidence { .. }) => {
                self.collect_evidence(false, false);
                self.process.shell.done(command);
                return self.turned(Turn::Did(command.clone()));
            }
            Next::Do(Command::CollectBootLog) => {
                self.process.shell.boot_log(BootLog::default());
                self.process.shell.done(&Command::CollectBootLog);
                return self.turned(Turn::Did(Command::CollectBootLog));
            }
            // A reading that fails is a reading.
            Next::Do(Command::ReadPower) => {
                self.read_power(None);
                self.process.shell.done(&Command::ReadPower);
                return self.turned(Turn::Did(Command::ReadPower));
            }
            _ => {}
        }
        self.turned(Turn::Failed);
    }

    /// When the next turn is taken. A pause is rounded up to seconds, so that fewer states differ only in
    /// their times.
    fn turned(&mut self, turn: Turn) {
        let after = |d: Duration| NOW.checked_add(d).unwrap_or(Timestamp::MAX);
        self.process.sleep = match self.process.shell.turned(turn, NOW) {
            Pace::Now => Sleep::Awake,
            Pace::Pause(pause) => {
                let rounded = u64::from(pause.subsec_nanos() > 0);
                Sleep::Paused(after(Duration::from_secs(pause.as_secs() + rounded)))
            }
            Pace::Sleep(longest) if longest.is_zero() => Sleep::Awake,
            Pace::Sleep(longest) => Sleep::Watching(after(longest)),
        };
    }

    /// The controller reads the power; `None`: the answer is lost, or the BMC is silent.
    fn read_power(&mut self, read: Option<PowerReading>) {
        let view = PowerView {
            asked: NOW,
            answered: NOW,
            lease: Some(self.node.lease.to_string()),
            result: read.ok_or_else(|| "the BMC does not answer".into()),
        };
        self.process.shell.power_read(view);
    }

    /// The controller has collected evidence; unless `read`, the response is lost, or the BMC is silent.
    /// `interrupted`: an interrupt was begun.
    fn collect_evidence(&mut self, read: bool, interrupted: bool) {
        let mut evidence = HostEvidence::new(0, NOW);
        evidence.interrupted = interrupted;
        evidence.interrupt = interrupted.then(|| "sent".into());
        if read {
            evidence.set_log(&[]);
        } else {
            evidence.missing.push("no answer".into());
        }
        self.process.shell.evidence(evidence);
    }

    /// Carries out a command of this state, and judges it.
    fn execute(
        &mut self,
        held: &Held,
        state: &State,
        command: &Command,
        breakage: Option<Breakage>,
    ) -> bool {
        match command {
            Command::AddFinalizer => self.object.finalizer = true,
            Command::RemoveFinalizer(_) => self.object.finalizer = false,
            Command::AddHold => {
                self.hold = self.hold.map(|_| true);
                self.owner.renewed = false;
            }
            // A move is blocked by somebody else, and no key of a former remediation is in this world.
            Command::RemoveOrphanedHolds { .. }
            | Command::BlockMove
            | Command::UnblockMove
            | Command::UnblockHost
            | Command::EndMachineRequest => {}
            // Only that the value has changed matters.
            Command::RenewHold => self.owner.renewed = true,
            Command::RemoveHold => {
                self.judge_power_on(state);
                self.hold = self.hold.map(|_| false);
                self.owner.renewed = false;
                // Where it is not set, the BareMetalHost gets another version all the same.
                if let Some(late) = &mut self.late {
                    late.changed.host |= breakage != Some(Breakage::LateHoldTaken);
                }
            }
            Command::PowerOff {
                id,
                device,
                command_after,
                system_uuid,
                during_update,
                ..
            } => {
                let limit = policy(self).power_off_timeout;
                match self.begin(held, (id, false), *command_after, limit) {
                    Beginning::Started => {
                        if let Some(run) = self.agent.runs.last_mut() {
                            run.expects = !system_uuid.is_empty();
                            run.during_update = *during_update;
                        }
                        self.judge_power_off(state, id, held);
                        if *device == PowerDevice::Outlets {
                            self.judge_outlets_off(state);
                        }
                    }
                    Beginning::Known => {}
                    Beginning::Refused => return false,
                }
            }
            Command::PowerOn { id, device } => {
                let limit = policy(self).power_on_timeout;
                match self.begin(held, (id, true), Duration::ZERO, limit) {
                    Beginning::Started => {
                        self.judge_power_on(state);
                        self.judge_owner(*device);
                        self.ended_off = true;
                    }
                    Beginning::Known => {}
                    Beginning::Refused => return false,
                }
            }
            Command::Cancel { id } => return self.agent.cancel(held.sent, id),
            Command::CollectEvidence { interrupt } => {
                if held.hold == Some(true) {
                    self.broken(Wrong::Intent);
                }
                // A refusal prevents no reading.
                let is_begun = interrupt
                    .as_ref()
                    .is_some_and(|interrupt| self.begin_interrupt(held, &interrupt.id));
                let read = self.read_bmc().is_some();
                self.collect_evidence(read, is_begun);
            }
            Command::CollectBootLog => self.process.shell.boot_log(BootLog::default()),
            Command::ReadUpdates => {
                let status = match (self.read_bmc(), self.flash) {
                    (None, _) => UpdateStatus::Unknown("no answer".into()),
                    (Some(_), Some(Flash::Running)) => UpdateStatus::Running(flash()),
                    (Some(_), _) => UpdateStatus::Idle,
                };
                let read = UpdateReading { at: NOW, status };
                self.process.shell.updates_read(read);
            }
            Command::ReadPower => {
                let bmc = self.read_bmc();
                let by_outlets = state.reads_outlets();
                let outlets = self.outlets.filter(|_| by_outlets);
                let read = bmc.map(|state| self.identified(reading(state, 0)));
                self.read_power(read);
                if let Some(outlets) = outlets {
                    let bmc = self.process.shell.power.take();
                    self.read_power(outlets.read().map(|state| outlet_reading(state, 0)));
                    let read = self.process.shell.power.take();
                    self.process.shell.power = read.map(|read| PowerView::of_outlets(read, bmc));
                }
            }
            Command::Release => {
                let held_off = self.agent.holds();
                let is_taken = self.agent.release(held.sent);
                self.ended_off |= is_taken && held_off;
                return is_taken;
            }
            Command::AddTaint => {
                let guarded = !breakage.is_some_and(Breakage::is_unguarded);
                if guarded && self.process.shell.reading_stands(NOW).is_err() {
                    return false;
                }
                self.judge_taint(state, held.hold);
                self.node.taint = Taint::Ours;
            }
            Command::RemoveTaint => {
                if held.changed.node {
                    self.broken(Wrong::Unseen);
                }
                self.judge_return(state);
                self.node.taint = Taint::Absent;
            }
            Command::DeletePods { node, pods } => {
                let guarded = !breakage.is_some_and(Breakage::deletes_unguarded);
                if guarded && self.guard_deletion(node).is_err() {
                    return false;
                }
                if *node != format!("uid-{}", self.node.uid) {
                    self.broken(Wrong::PodDeletion);
                }
                self.delete_pods(held, state, node);
                for pod in pods {
                    self.process.shell.pod_deleted(pod.clone(), Ok(()));
                }
            }
            Command::Cordon { .. } => self.sets_cordon(true),
            Command::Uncordon { .. } => self.sets_cordon(false),
            Command::EvictPods { node, pods } => self.evicts(node, pods, breakage),
            Command::SoftOff { .. }
            | Command::BackUpNode
            | Command::DeleteNode { .. }
            | Command::RestoreNode
            | Command::Escalate { .. } => return false,
        }
        true
    }

    /// Whether the controller is about to send a call that changes something.
    pub(crate) fn sends(&self) -> bool {
        let Some(held) = &self.process.held else {
            return false;
        };
        match &held.next {
            Next::Write => true,
            Next::Do(
                Command::ReadPower
                | Command::ReadUpdates
                | Command::CollectEvidence { interrupt: None }
                | Command::CollectBootLog,
            ) => false,
            // The age of the reading is checked immediately before the taint is sent.
            Next::Do(Command::AddTaint) => self.process.shell.reading_stands(NOW).is_ok(),
            Next::Do(Command::DeletePods { node, .. }) => self.guard_deletion(node).is_ok(),
            Next::Do(_) => true,
            Next::Wait(_) | Next::Done(_) => false,
        }
    }

    /// The call stays on its way, and another controller leads.
    pub(crate) fn deposed(&mut self) {
        let sent = self.next_call();
        let held = self.process.held.take();
        self.late = held.map(|held| Held { sent, ..held });
        self.deposed = true;
        self.new_leader();
    }

    /// Notes which objects have other versions than before.
    pub(crate) fn note_changes(&mut self, before: &Self) {
        // The Lease is an object of its own.
        let node = Node {
            lease: before.node.lease,
            ..self.node.clone()
        };
        let now = Changed {
            object: self.object != before.object,
            record: self.object.state != before.object.state,
            node: node != before.node,
            host: (self.hold, self.owner.reported) != (before.hold, before.owner.reported),
            pod: self.pod.bound != before.pod.bound || self.host.boots != before.host.boots,
        };
        let own = self.process.held.as_ref();
        if now == Changed::default() || own.is_none() && self.late.is_none() {
            return;
        }
        let calls = self.process.held.iter_mut().chain(&mut self.late);
        for Held { changed, .. } in calls {
            changed.object |= now.object;
            changed.record |= now.record;
            changed.node |= now.node;
            changed.host |= now.host;
            changed.pod |= now.pod;
        }
    }

    /// Whether the API server refuses the write of a decision, because it carries the
    /// `resourceVersion` of its observation (F7).
    fn is_refused(held: &Held, breakage: Option<Breakage>) -> bool {
        let (changed, ignored) = match &held.next {
            // A host that comes on is switched off again before it boots (F3), so that no run within the
            // budget shows what the version of the pod prevents.
            Next::Do(Command::DeletePods { .. }) => return held.changed.pod,
            Next::Do(Command::AddTaint | Command::Cordon { .. } | Command::Uncordon { .. }) => {
                (held.changed.node, Breakage::NodeVersionIgnored)
            }
            Next::Do(Command::RemoveTaint) => (held.changed.node, Breakage::ChangedUntainted),
            Next::Do(Command::AddHold | Command::RenewHold | Command::RemoveHold) => {
                (held.changed.host, Breakage::HostVersionIgnored)
            }
            // Without its copy, only the record is written.
            Next::Write if held.is_passed => (held.changed.record, Breakage::ObjectVersionIgnored),
            Next::Write | Next::Do(Command::AddFinalizer | Command::RemoveFinalizer(_)) => {
                (held.changed.object, Breakage::ObjectVersionIgnored)
            }
            _ => return false,
        };
        changed && breakage != Some(ignored)
    }

    /// The call of a deposed controller arrives.
    pub(crate) fn late_call_arrives(&mut self, breakage: Option<Breakage>) {
        let Some(mut held) = self.late.take() else {
            return;
        };
        if breakage.is_some_and(Breakage::takes_former_leaders) {
            held.sent = self.next_call();
        }
        if Self::is_refused(&held, breakage) {
            return;
        }
        match held.next.clone() {
            Next::Write => self.object.state = Some(held.state),
            Next::Do(Command::AddTaint) => {
                self.judge_taint(&held.state, held.hold);
                self.node.taint = Taint::Ours;
            }
            Next::Do(Command::DeletePods { node, .. }) => {
                self.delete_pods(&held, &held.state, &node);
            }
            // Nobody waits for the evidence.
            Next::Do(Command::CollectEvidence { interrupt }) => {
                if let Some(interrupt) = interrupt {
                    self.begin_interrupt(&held, &interrupt.id);
                }
            }
            Next::Do(command) => {
                self.execute(&held, &held.state, &command, breakage);
            }
            Next::Wait(_) | Next::Done(_) => {}
        }
        if self.done.is_some() {
            self.judge_left();
        }
    }

    fn begin(
        &mut self,
        held: &Held,
        operation: (&str, bool),
        wait: Duration,
        limit: Duration,
    ) -> Beginning {
        // A power-off overtakes an interrupt that has not been sent.
        let another_runs = self.agent.runs.iter().any(|run| !is_interrupt(&run.id));
        let beginning = self.agent.begin(held.sent, operation, wait, limit);
        if beginning == Beginning::Started {
            if another_runs {
                self.broken(Wrong::TwoOperations);
            }
            if self.done.is_some() {
                self.broken(Wrong::Late);
            }
        }
        beginning
    }

    /// Begins a diagnostic interrupt; whether the agent accepts it, or did before.
    fn begin_interrupt(&mut self, held: &Held, id: &str) -> bool {
        let limit = policy(self).evidence_timeout;
        let beginning = self.begin(held, (id, false), Duration::ZERO, limit);
        beginning != Beginning::Refused
    }

    /// The checks immediately before pods are deleted: the age of the reading, and a live read of the Node.
    fn guard_deletion(&self, node: &str) -> Result<(), String> {
        let stands = self.process.shell.reading_stands(NOW);
        stands.map_err(|why| why.to_string())?;
        let live = crate::remediation::observe::node(self, &mut LeaseMemory::default());
        Ok(deletion_is_justified(Some(&live), node)?)
    }

    /// The API server deletes the pod at once, whatever runs. F1: as for the taint, which is on.
    fn delete_pods(&mut self, held: &Held, state: &State, node: &str) {
        if !self.pod.bound {
            return;
        }
        let is_pinned = state.attempt.node.as_ref().is_some_and(|n| n.uid == node);
        if !is_pinned || !self.is_proven(state, held.hold) {
            self.broken(Wrong::PodDeletion);
        }
        self.pod.bound = false;
    }
}
