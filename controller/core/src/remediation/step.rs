//! The next step of a remediation: one pure function.
//!
//! Owns the order of effects. Must never let an effect happen whose reason is not in the state that
//! was written before it.

mod agent;
mod begin;
mod boot;
mod boot_watch;
mod confirm;
mod drain;
mod end;
mod fence;
mod fenced;
mod orphan;
mod proof;
mod same_node;

pub use end::outcome;

use std::time::Duration;

use jiff::Timestamp;

use super::{
    AgentPin, AgentView, Because, BmcAccess, NodeFacts, Observation, Policy, State, Step, Strategy,
    Turn, WorkloadView,
};

/// One effect. Carrying it out twice is harmless: it is idempotent or named by data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// Put our finalizer on the object.
    AddFinalizer,
    /// Take it off: this is how the remediation ends.
    RemoveFinalizer(Outcome),
    /// Put our hold key on the BareMetalHost (F2).
    AddHold,
    /// Take it off.
    RemoveHold,
    /// Begin a hard power-off at the agent.
    PowerOff {
        /// Names the operation.
        id: String,
        /// Only look for this long: baremetal-operator was asked first.
        command_after: Duration,
        /// What the system behind the BMC must be (F5); empty: not known.
        system_uuid: String,
        /// The same by serial number; empty: not known.
        serial: String,
    },
    /// Begin a power-on at the agent.
    PowerOn {
        /// Names the operation.
        id: String,
    },
    /// Stop an operation before its next command.
    Cancel {
        /// Which.
        id: String,
    },
    /// Ask the BMC for its power state now.
    ReadPower,
    /// Tell the agent that nobody keeps the host off any more.
    Release,
    /// Put the out-of-service taint on the Node.
    AddTaint,
    /// Take it off.
    RemoveTaint,
    /// Keep the Node's labels and annotations on the object, before it is deleted.
    BackUpNode,
    /// Delete this very Node.
    DeleteNode {
        /// Its UID: one of the same name that came later is another.
        uid: String,
    },
    /// Put kept labels and annotations back on the Node, then drop them from the object.
    RestoreNode,
    /// Hand the Machine to its owner.
    Escalate {
        /// Mark the BareMetalHost unhealthy too.
        retire: bool,
    },
}

/// How a remediation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The Node is back.
    Succeeded,
    /// The Machine's owner takes over.
    Escalated,
    /// Given up, and the object says why.
    Failed,
    /// The object was deleted, everything of ours is gone.
    Withdrawn,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// Write the state, then decide again.
    Write,
    /// Carry this out, then decide again.
    Do(Command),
    /// Decide again when something has changed, or at this time: not all that changes is told (L1).
    Wait(Timestamp),
    /// Nothing any more.
    Done(Outcome),
}

/// Something worth an Event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    /// Warning, or Normal.
    pub warning: bool,
    /// The Event's reason.
    pub reason: &'static str,
    /// The Event's message.
    pub message: String,
}

/// The answer of [`step`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The state; differs from the one given exactly when `next` is [`Next::Write`].
    pub state: State,
    /// What comes next.
    pub next: Next,
    /// Why it stands where it stands.
    pub because: Because,
    /// Events, to be sent once the write has gone through.
    pub notes: Vec<Note>,
    /// With this decision it takes its host, unless another remediation has the right of way (F6).
    /// One that does not must hold up nobody.
    pub begins: bool,
}

/// When to look again at what may change without an event of its own.
pub(super) const RECHECK: Duration = Duration::from_secs(15);

/// The id of the operation that belongs to a state, where one does.
///
/// It carries the attempt's begin: should the state ever be lost, a new start must not be answered
/// with the proof of an old one.
pub fn operation_id(uid: &str, state: &State) -> Option<String> {
    let what = match state.step {
        Step::PoweringOff | Step::AwaitingConfirmation => "off",
        Step::PoweringOn => "on",
        Step::Aborting => "undo",
        _ => return None,
    };
    let State {
        attempt,
        attempt_started,
        fences,
        ons,
        tries,
        ..
    } = state;
    // The one counts until the power-on, the other from there.
    let anew = fences.saturating_add(*ons);
    Some(format!(
        "{uid}/{attempt}@{}/{what}/{anew}.{tries}",
        attempt_started.as_second()
    ))
}

/// Decides the next step. `state` is what stands in the object; `None`: nothing was done yet.
pub fn step(o: &Observation, state: Option<&State>, now: Timestamp) -> Decision {
    let fallback = Policy::default();
    let policy = o.request.policy.as_ref().unwrap_or(&fallback);
    let cx = Cx {
        o,
        policy,
        now,
        operation: state.and_then(|s| operation_id(&o.request.uid, s)),
        pinned: state.and_then(|s| s.pinned.as_ref()),
    };
    let (mut decision, begins) = match state {
        // Before anything is written it stands where Pending does.
        None => {
            let decision = cx.begin();
            let begins = decision.next == Next::Write && takes_host(&cx.pending(cx.first_state()));
            (decision, begins)
        }
        Some(state) => {
            let decision = cx.decide(state.clone());
            let begins = Turn::of(Some(state)) == Turn::Ready && takes_host(&decision);
            (decision, begins)
        }
    };
    decision.begins = begins;
    decision
}

/// Whether a decision of Pending or Retrying leads to the hold, and not out or to a wait.
fn takes_host(decision: &Decision) -> bool {
    decision.next == Next::Do(Command::AddFinalizer) || decision.state.step == Step::Holding
}

/// A point in time after another; the end of time where it does not fit.
pub(super) fn after(t: Timestamp, d: Duration) -> Timestamp {
    t.checked_add(d).unwrap_or(Timestamp::MAX)
}

/// Everything that the steps look at.
pub(super) struct Cx<'a> {
    pub(super) o: &'a Observation,
    pub(super) policy: &'a Policy,
    pub(super) now: Timestamp,
    /// The id of the operation that belongs to the state as it is written.
    pub(super) operation: Option<String>,
    /// The pin in the state as it is written.
    pub(super) pinned: Option<&'a AgentPin>,
}

impl Cx<'_> {
    fn decide(&self, s: State) -> Decision {
        if s.cluster.is_none() && self.o.cluster.is_some() && !s.step.is_terminal() {
            // Before the Machine, which names it, can be deleted.
            return self.quiet_write(s, Because::Working);
        }
        if let Some(d) = self.orphaned(&s) {
            return d;
        }
        match s.step {
            Step::Pending | Step::Retrying => self.pending(s),
            Step::Holding => self.holding(s),
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
        if let Some(why) = self.state_lost() {
            return self.recheck(State::new(self.now), why);
        }
        if self.o.request.deleting {
            let s = State::new(self.now);
            if let Some(d) = self.held_from_before(&s) {
                return d;
            }
            return self.leave(s, Because::Withdrawn, Outcome::Withdrawn);
        }
        self.write(self.first_state(), Because::Started)
    }

    fn first_state(&self) -> State {
        let mut s = State::new(self.now);
        s.node_was_down = self.node().is_some_and(|n| !n.ready);
        s
    }

    pub(super) fn write(&self, state: State, because: Because) -> Decision {
        let note = Note {
            warning: because.is_blocked(),
            reason: if because.is_blocked() {
                because.label()
            } else {
                state.step.label()
            },
            message: because.to_string(),
        };
        Decision {
            state: self.settled(state),
            next: Next::Write,
            because,
            notes: vec![note],
            begins: false,
        }
    }

    /// For what is worth keeping and not worth an Event.
    pub(super) fn quiet_write(&self, state: State, because: Because) -> Decision {
        Decision {
            state: self.settled(state),
            next: Next::Write,
            because,
            notes: Vec::new(),
            begins: false,
        }
    }

    pub(super) fn act(&self, state: State, because: Because, command: Command) -> Decision {
        Decision {
            state,
            next: Next::Do(command),
            because,
            notes: Vec::new(),
            begins: false,
        }
    }

    pub(super) fn wait(&self, state: State, because: Because, until: Timestamp) -> Decision {
        Decision {
            state,
            next: Next::Wait(until),
            because,
            notes: Vec::new(),
            begins: false,
        }
    }

    pub(super) fn to(&self, state: State, step: Step, because: Because) -> Decision {
        self.write(state.at(step, self.now), because)
    }

    /// Waits for what has no time of its own.
    pub(super) fn recheck(&self, state: State, because: Because) -> Decision {
        self.wait(state, because, after(self.now, RECHECK))
    }

    /// Gives the object back: our finalizer goes last (F9).
    pub(super) fn leave(&self, state: State, because: Because, outcome: Outcome) -> Decision {
        if self.holds() {
            return self.act(state, because, Command::RemoveHold);
        }
        if self.o.request.finalizer {
            return self.act(state, because, Command::RemoveFinalizer(outcome));
        }
        Decision {
            state,
            next: Next::Done(outcome),
            because,
            notes: Vec::new(),
            begins: false,
        }
    }

    /// Nobody wants this remediation any more: it is deleted, or told to stop.
    pub(super) fn withdrawn(&self) -> Option<Because> {
        if self.o.request.deleting {
            return Some(Because::Withdrawn);
        }
        self.o.request.timed_out.then_some(Because::TimedOut)
    }

    /// The host is to stay off once its workload has moved.
    pub(super) fn keeps_off(&self, s: &State) -> bool {
        (s.strategy == Strategy::PowerOff || s.keep_off.is_some()) && self.withdrawn().is_none()
    }

    pub(super) fn agent_down(&self) -> Option<&str> {
        match &self.o.agent {
            AgentView::Ready => None,
            AgentView::Unreachable { why } => Some(why),
        }
    }

    /// Why the BMC cannot be asked or switched just now.
    pub(super) fn bmc_down(&self) -> Option<Because> {
        if let Some(why) = self.agent_down() {
            return Some(Because::AgentUnreachable(why.to_owned()));
        }
        let what = match &self.o.access {
            BmcAccess::Known => return None,
            BmcAccess::HostGone { name } => format!(
                "BareMetalHost {name} is gone, and the address and the credentials of its BMC with it"
            ),
            BmcAccess::Missing { why } => why.clone(),
        };
        Some(Because::BmcAccessMissing(what))
    }

    /// Our key is on the BareMetalHost.
    pub(super) fn holds(&self) -> bool {
        self.o.bmh.as_ref().is_some_and(|b| b.our_hold)
    }

    /// Somebody wants this host off: `spec.online` false.
    pub(super) fn offline(&self) -> Option<Because> {
        let bmh = self.o.bmh.as_ref()?;
        (!bmh.online).then(|| Because::HostOffline(bmh.name.clone()))
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
