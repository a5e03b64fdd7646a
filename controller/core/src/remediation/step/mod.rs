//! Decides the next step of a remediation, as one pure function of observation, stored state and
//! time.
//!
//! Invariant: an effect is returned only if the state that justifies it has been written before.

mod abort;
mod attempts;
mod begin;
mod boot;
mod confirm;
mod drain;
mod evidence;
mod fenced;
mod handover;
mod host_evidence;
mod move_block;
mod node;
mod orphan;
mod power;
mod rival;

pub use abort::outcome;
pub use evidence::LATEST_READING_AGE;

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::{
    AgentPin, AgentView, Attempt, BmcAccess, NodeFacts, Observation, PodRef, Policy, PowerDevice,
    Progress, Reason, State, Step, Strategy, WorkloadView,
};

/// One effect on the outside world. Each is idempotent or identified by data, so repeating it is
/// harmless.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// Adds our finalizer to the object and, where it has none, the annotation of [`Self::BlockMove`].
    AddFinalizer,
    /// Removes our finalizer, which ends the remediation, and our annotation of [`Self::BlockMove`].
    RemoveFinalizer(RemediationOutcome),
    /// Sets our hold key on the BareMetalHost (F2) and, where it has none, the annotation of [`Self::BlockMove`].
    AddHold,
    /// Changes the value of our hold key, so that baremetal-operator looks at the host at once (F16).
    RenewHold,
    /// Removes our hold key from the BareMetalHost.
    RemoveHold,
    /// Removes hold keys of ours from the BareMetalHost whose remediations are gone.
    RemoveOrphanedHolds {
        /// The annotations.
        keys: BTreeSet<String>,
    },
    /// Sets the annotation that makes clusterctl wait on the object and on the BareMetalHost, where they have none.
    BlockMove,
    /// Removes that annotation where it is ours.
    UnblockMove,
    /// Removes that annotation from the BareMetalHost.
    UnblockHost,
    /// Begins a soft off at the agent.
    SoftOff {
        /// Id of the operation.
        id: String,
        /// Time for the operating system to shut down.
        limit: Duration,
        /// System UUID that the BMC must report (F5); empty if unknown.
        system_uuid: String,
        /// Serial number that the BMC must report (F5); empty if unknown.
        serial: String,
    },
    /// Begins a hard power-off at the agent.
    PowerOff {
        /// Id of the operation.
        id: String,
        /// What switches the host off.
        device: PowerDevice,
        /// Time for which the agent only reads the power state, because baremetal-operator acts
        /// first.
        command_after: Duration,
        /// System UUID that the BMC must report (F5); empty if unknown.
        system_uuid: String,
        /// Serial number that the BMC must report (F5); empty if unknown.
        serial: String,
        /// Whether it is sent although an update of firmware runs. Otherwise the agent reads that first.
        during_update: bool,
    },
    /// Begins a power-on at the agent.
    PowerOn {
        /// Id of the operation.
        id: String,
        /// What switches the host on.
        device: PowerDevice,
    },
    /// Cancels an operation before its next command.
    Cancel {
        /// The id of the operation.
        id: String,
    },
    /// Reads from the BMC, through the agent, what may show why the host failed, until
    /// [`Observation::step_until`] at the latest.
    CollectEvidence {
        /// The diagnostic interrupt that the agent begins before it reads.
        interrupt: Option<Interrupt>,
    },
    /// Reads what the event log of the BMC recorded since the power-off.
    CollectBootLog,
    /// Reads from the BMC whether its firmware or that of the host is being updated.
    ReadUpdates,
    /// Reads the power state now, from the BMC, and from the outlets where [`State::reads_outlets`].
    ReadPower,
    /// Releases the hold in the agent's journal.
    Release,
    /// Adds the out-of-service taint to the Node.
    AddTaint,
    /// Removes the out-of-service taint from the Node.
    RemoveTaint,
    /// Keeps the scheduler from the Node.
    Cordon {
        /// UID of the Node.
        node: String,
    },
    /// Lets the scheduler use a Node again that this remediation has cordoned.
    Uncordon {
        /// UID of the Node.
        node: String,
    },
    /// Evicts pods of the cordoned Node through the Eviction API.
    EvictPods {
        /// UID of the Node.
        node: String,
        /// The pods, as they were observed.
        pods: Vec<PodRef>,
    },
    /// Deletes pods of the tainted Node, with grace period 0.
    DeletePods {
        /// UID of the Node.
        node: String,
        /// The pods, in the versions that were observed.
        pods: Vec<PodRef>,
    },
    /// Saves the Node's labels and annotations on the object, before the Node is deleted.
    BackUpNode,
    /// Deletes the Node.
    DeleteNode {
        /// UID of the Node, so that a later Node of the same name is not deleted.
        uid: String,
    },
    /// Restores saved labels and annotations on the Node, then removes them from the object.
    RestoreNode,
    /// Removes the annotation from the Machine that requested this remediation: it requests one power cycle.
    EndMachineRequest,
    /// Hands the Machine over to its owner.
    Escalate {
        /// Whether the BareMetalHost is marked unhealthy as well.
        retire: bool,
    },
}

/// A diagnostic interrupt (NMI), which makes most operating systems write a dump. Sent once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interrupt {
    /// Id of the operation.
    pub id: String,
    /// System UUID that the BMC must report (F5); empty if unknown.
    pub system_uuid: String,
    /// Serial number that the BMC must report (F5); empty if unknown.
    pub serial: String,
}

/// RemediationOutcome of a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RemediationOutcome {
    /// The Node is healthy again.
    Succeeded,
    /// The Machine's owner takes over.
    Escalated,
    /// The remediation was given up; the object reports why.
    Failed,
    /// The object was deleted, and everything that was added is removed.
    Withdrawn,
}

/// What the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// Write the state, then decide again.
    Write,
    /// Carry out the command, then decide again.
    Do(Command),
    /// Decide again after a change, or at this time, because not every change is announced (L1).
    Wait(Timestamp),
    /// Nothing is left to do.
    Done(RemediationOutcome),
}

/// A Kubernetes Event to send.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    /// Whether the Event is of type Warning rather than Normal.
    pub warning: bool,
    /// Reason of the Event, in CamelCase.
    pub reason: &'static str,
    /// The step of whose beginning or end it tells, if that is all.
    pub step: Option<Step>,
    /// Message of the Event.
    pub message: String,
}

/// Result of [`step`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The new state. It differs from the given one exactly if `next` is [`Next::Write`].
    pub state: State,
    /// What the caller does next.
    pub next: Next,
    /// Reason of the current step.
    pub reason: Reason,
    /// Events to send after the write has succeeded.
    pub notes: Vec<Note>,
    /// The remediation takes its host with this decision, unless a concurrent one has precedence
    /// (F6). One that does not begin must not block others.
    pub begins: bool,
}

/// Interval for what may change without an event.
pub(super) const RECHECK: Duration = Duration::from_secs(15);

/// The id of the operation that belongs to a state, if the step has one.
///
/// It contains the start of the attempt, so that a remediation that lost its state is not given the
/// evidence of an earlier attempt.
pub fn operation_id(uid: &str, state: &State) -> Option<String> {
    let what = match state.step {
        Step::ShuttingDown => "soft-off",
        Step::PoweringOff | Step::AwaitingConfirmation => "off",
        Step::PoweringOn => "on",
        Step::Aborting => "undo",
        _ => return None,
    };
    // The number of tries goes on when the device changes, so that the order of ids is that of time.
    let device = match state.device() {
        PowerDevice::Bmc => "",
        PowerDevice::Outlets => "outlets-",
    };
    let State { attempt, tries, .. } = state;
    let Attempt {
        number, started, ..
    } = attempt;
    // The first counts until the power-on, the second from there.
    let anew = (state.power_off_repeats).saturating_add(attempt.power_on_repeats);
    Some(format!(
        "{uid}/{number}@{}/{device}{what}/{anew}.{tries}",
        started.as_second()
    ))
}

/// Decides the next step. `state` is the state in the object; `None` means that nothing was done
/// yet.
pub fn step(o: &Observation, state: Option<&State>, now: Timestamp) -> Decision {
    let fallback = Policy::default();
    let policy = o.policy(state).unwrap_or(&fallback);
    let cx = StepContext {
        o,
        policy,
        now,
        operation: state.and_then(|s| operation_id(&o.object.uid, s)),
        pinned: state.and_then(|s| s.pinned.as_ref()),
    };
    let (mut decision, begins) = match state {
        // Without a state it is treated like Pending.
        None => {
            let decision = cx.begin();
            let begins = decision.next == Next::Write && takes_host(&cx.pending(cx.first_state()));
            (decision, begins)
        }
        Some(state) => {
            let decision = cx.record_rival(state, cx.decide(cx.with_rival(state.clone())));
            let begins = Progress::of(Some(state)) == Progress::Ready && takes_host(&decision);
            (decision, begins)
        }
    };
    decision.begins = begins;
    decision.explained(o.object.policy.as_ref().unwrap_or(&fallback))
}

/// Whether a decision in Pending or Retrying proceeds to the hold, rather than ending or waiting.
fn takes_host(decision: &Decision) -> bool {
    decision.state.step.takes_host()
}

/// `t + d`, saturating at the latest representable time.
pub(super) fn after(t: Timestamp, d: Duration) -> Timestamp {
    t.checked_add(d).unwrap_or(Timestamp::MAX)
}

/// The inputs of one decision.
pub(super) struct StepContext<'a> {
    pub(super) o: &'a Observation,
    pub(super) policy: &'a Policy,
    pub(super) now: Timestamp,
    /// Id of the operation of the stored state.
    pub(super) operation: Option<String>,
    /// The agent pin of the stored state.
    pub(super) pinned: Option<&'a AgentPin>,
}

impl StepContext<'_> {
    fn decide(&self, s: State) -> Decision {
        if self.is_moved_away() && !s.step.is_terminal() {
            return self.recheck(s, Reason::MovedAway);
        }
        if s.cluster.is_none() && self.o.cluster.is_some() && !s.step.is_terminal() {
            // Pinned before the Machine, which names the Cluster, can be deleted.
            return self.quiet_write(s, Reason::Working);
        }
        if let Some(d) = self.follow_journal(&s) {
            return d;
        }
        if let Some(d) = self.orphaned(&s) {
            return d;
        }
        if let Some(d) = self.owner_at_work(&s) {
            return d;
        }
        match s.step {
            Step::Pending | Step::Retrying => self.pending(s),
            Step::Evicting => self.evicting(s),
            Step::Evicted => self.stay_evicted(s),
            Step::Holding => self.holding(s),
            Step::ShuttingDown => self.shutting_down(s),
            Step::PoweringOff | Step::AwaitingConfirmation => self.powering_off(s),
            Step::ConfirmingOff => self.confirming_off(s),
            Step::Tainting => self.tainting(s),
            Step::Draining => self.draining(s),
            Step::Fenced => self.fenced(s),
            Step::PoweringOn => self.powering_on(s),
            Step::Booting => self.booting(s),
            Step::Restoring => self.restoring(s),
            Step::Aborting => self.aborting(s),
            Step::Succeeded | Step::Escalated | Step::Blocked => self.ended(s),
        }
    }

    fn begin(&self) -> Decision {
        if self.is_moved_away() {
            return self.recheck(State::new(self.now), Reason::MovedAway);
        }
        if let Some(why) = self.state_lost() {
            return self.recheck(State::new(self.now), why);
        }
        if self.o.object.deleting {
            let s = self.first_state();
            if let Some(d) = self.finish_lost_power_off(&s) {
                return d;
            }
            return self.finish(s, Reason::Withdrawn, RemediationOutcome::Withdrawn);
        }
        if let Some(step) = self.o.object.ended_by_copy {
            return self.stay_ended(step);
        }
        self.write(self.first_state(), Reason::Started)
    }

    fn first_state(&self) -> State {
        let mut s = State::new(self.now);
        s.finalizer = self.o.object.finalizer && self.is_finalizer_ours();
        // One that has begun elsewhere, and that its check may not need any more (F11). What a person or a label asks
        // for, and for which nothing was switched when the copy was written, is still wanted.
        let object = &self.o.object;
        let is_of_check = object.made_by_check.is_some();
        let began = s.finalizer
            || object
                .finalizer_by_copy
                .is_some_and(|had| had || is_of_check);
        let began = began && (is_of_check || !object.uncut_by_copy);
        s.node_was_down =
            began || self.node().is_some_and(|n| !n.ready) || self.may_be_older_than_recovery();
        s.former_lease = began.then(|| self.node().map_or("", NodeFacts::renewed).into());
        self.with_rival(s)
    }

    pub(super) fn write(&self, state: State, reason: Reason) -> Decision {
        let note = Note {
            step: Some(state.step).filter(|_| !reason.is_blocked()),
            warning: reason.is_blocked(),
            reason: if reason.is_blocked() {
                reason.label()
            } else {
                state.step.label()
            },
            message: reason.to_string(),
        };
        Decision {
            state: self.settled(state),
            next: Next::Write,
            reason,
            notes: vec![note],
            begins: false,
        }
    }

    /// Writes the state without an Event.
    pub(super) fn quiet_write(&self, state: State, reason: Reason) -> Decision {
        Decision {
            state: self.settled(state),
            next: Next::Write,
            reason,
            notes: Vec::new(),
            begins: false,
        }
    }

    pub(super) fn act(&self, state: State, reason: Reason, command: Command) -> Decision {
        Decision {
            state,
            next: Next::Do(command),
            reason,
            notes: Vec::new(),
            begins: false,
        }
    }

    pub(super) fn wait(&self, state: State, reason: Reason, until: Timestamp) -> Decision {
        Decision {
            state,
            next: Next::Wait(until),
            reason,
            notes: Vec::new(),
            begins: false,
        }
    }

    pub(super) fn to(&self, state: State, step: Step, reason: Reason) -> Decision {
        self.write(state.at(step, self.now), reason)
    }

    /// Waits for something that has no deadline.
    pub(super) fn recheck(&self, state: State, reason: Reason) -> Decision {
        self.wait(state, reason, after(self.now, RECHECK))
    }

    /// Ends the work on the object; our finalizer is removed last (F9).
    pub(super) fn finish(
        &self,
        state: State,
        reason: Reason,
        outcome: RemediationOutcome,
    ) -> Decision {
        if self.holds() {
            return self.act(state, reason, Command::RemoveHold);
        }
        if let Some(d) = self
            .uncordon(&state, &reason)
            .or_else(|| self.unblock_before_end(&state, reason.clone()))
        {
            return d;
        }
        if self.o.object.finalizer && self.owns_finalizer(&state) && state.rival.is_none() {
            return self.act(state, reason, Command::RemoveFinalizer(outcome));
        }
        Decision {
            state,
            next: Next::Done(outcome),
            reason,
            notes: Vec::new(),
            begins: false,
        }
    }

    /// Why the remediation is withdrawn: the object is deleted, or the health check requested a
    /// stop.
    pub(super) fn withdrawn(&self) -> Option<Reason> {
        if self.o.object.deleting {
            return Some(Reason::Withdrawn);
        }
        self.o.object.timed_out.then_some(Reason::TimedOut)
    }

    /// Whether the host stays off after its workload has moved.
    pub(super) fn keeps_off(&self, s: &State) -> bool {
        let stays_off = matches!(s.strategy, Strategy::PowerOff | Strategy::Evict);
        (stays_off || s.keep_off.is_some()) && self.withdrawn().is_none()
    }

    pub(super) fn agent_down(&self) -> Option<&str> {
        match &self.o.agent {
            AgentView::Ready => None,
            AgentView::Unreachable { why } => Some(why),
        }
    }

    /// Why the BMC can neither be read nor commanded now.
    pub(super) fn bmc_down(&self) -> Option<Reason> {
        if let Some(why) = self.agent_down() {
            return Some(Reason::AgentUnreachable(why.to_owned()));
        }
        let what = match &self.o.access {
            BmcAccess::Known => return None,
            BmcAccess::HostGone { name } => format!(
                "BareMetalHost {name} is gone, and the address and the credentials of its BMC with it"
            ),
            BmcAccess::Missing { why } => why.clone(),
        };
        Some(Reason::BmcAccessMissing(what))
    }

    /// Whether our hold key is on the BareMetalHost.
    pub(super) fn holds(&self) -> bool {
        self.o.bmh.as_ref().is_some_and(|b| b.our_hold)
    }

    /// Set if the owner wants the BareMetalHost off (`spec.online` is false).
    pub(super) fn offline(&self) -> Option<Reason> {
        let bmh = self.o.bmh.as_ref()?;
        (!bmh.online).then(|| Reason::HostOffline(bmh.name.clone()))
    }

    pub(super) fn node(&self) -> Option<&NodeFacts> {
        match &self.o.workload {
            WorkloadView::Present(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn done(&self, command: &Command) -> bool {
        self.o.completed.contains(command)
    }
}
