//! What the engine of one remediation remembers between two observations, and how it uses it.
//!
//! [`step`](super::step) decides on one observation; this is the bookkeeping around it. It takes what was read,
//! sent and answered as plain events and returns data, so that the process and the model checker run the same
//! code. All of it is lost in a crash, and rebuilt from the object, the agent and the BMC.

mod credentials;
mod joined;
mod lease_memory;
mod node_reading;
mod operation;
mod pace;
mod serving;

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    AgentId, AgentPin, AgentView, BmcAccess, BootLog, Collected, Command, Decision, EvictionAnswer,
    EvictionResult, Evictions, HoldRefusal, HostEvidence, HostRef, JournalEntry, JournalFacts,
    Next, Observation, OperationView, PodDeletions, PodRef, PowerView, ReadingError, State, Step,
    UpdateReading, WorkloadView, latest_reading_stands, operation_id,
};

pub use lease_memory::LeaseMemory;
pub use node_reading::{KeptReading, NodeReading};
pub use operation::{Begun, Follow, OperationEvent, TrackedOperation};
pub use pace::{FAILURES_TOLD, Pace, REPEAT_PAUSE, Turn};
pub use serving::{ServingChoice, ServingState, choose_serving};

/// The memory of one remediation's engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shell {
    /// UID of the remediation object.
    pub uid: String,
    /// Whether `state` was read, or written, since the last write that failed.
    pub loaded: bool,
    /// Whether the record was taken for absent without a reading of it.
    pub unread: Unread,
    /// The state in the object, as last read or written by this process.
    pub state: Option<State>,
    /// What the journals of the agents have beyond the state that was read; `None`: they were not read since.
    pub journal: Option<JournalFacts>,
    /// The operation at the agent that belongs to the state.
    pub operation: Option<TrackedOperation>,
    /// The last live reading of the Node.
    pub node: NodeReading,
    /// The latest reading.
    pub power: Option<PowerView>,
    /// Whether the operation of the recorded state was known to have ended when that reading was asked for.
    pub is_read_after_end: bool,
    /// The latest reading of updates of firmware. It is kept when a state is written, which it may cause.
    pub updates: Option<UpdateReading>,
    /// Whether address and credentials of the BMC were known when it was last commanded or read.
    pub access: BmcAccess,
    /// Since when the BMC has been silent for this process.
    pub silent_since: Option<Timestamp>,
    /// Commands carried out since the state was last written.
    pub completed: BTreeSet<Command>,
    /// What came of deletions of pods since then.
    pub pod_deletions: PodDeletions,
    /// What the Eviction API answered about pods in the step of the state.
    pub evictions: Evictions,
    /// What was collected about the host since then.
    pub collected: Collected,
    /// The Machine of a Node that names none was looked up live before the end.
    pub machine_sought: bool,
    /// The command of the previous turn, so that a repetition is paused.
    pub last: Option<Command>,
    /// Consecutive failed turns.
    pub failures: u32,
    /// The last change of our hold key, if the webhook of its owner was away.
    pub hold_refused: Option<HoldRefusal>,
}

/// Whether what is recorded about a remediation is taken for absent because the watch shows no record of it. Usually it
/// has just been made, and its first write creates the record, which fails if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unread {
    /// It may be, until the record is read.
    Possible,
    /// It is. Nothing but that write may rest on it (F12).
    Assumed,
    /// The record was read, or has to be.
    No,
}

/// What is known of the agent, and its operation of the current state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentFacts {
    /// Whether the agent can be used.
    pub agent: AgentView,
    /// The agent that serves the rack now, if that is known.
    pub agent_id: Option<AgentId>,
    /// The agent's operation with the id of the stored state.
    pub operation: Option<OperationView>,
}

impl AgentFacts {
    fn unreachable(why: impl Into<String>) -> Self {
        Self {
            agent: AgentView::Unreachable { why: why.into() },
            agent_id: None,
            operation: None,
        }
    }
}

impl Shell {
    /// The memory of a process that has just started.
    pub fn new(uid: impl Into<String>) -> Self {
        Self {
            uid: uid.into(),
            loaded: false,
            unread: Unread::Possible,
            state: None,
            journal: None,
            operation: None,
            node: NodeReading::default(),
            power: None,
            is_read_after_end: false,
            updates: None,
            access: BmcAccess::Known,
            silent_since: None,
            completed: BTreeSet::new(),
            pod_deletions: PodDeletions::default(),
            evictions: Evictions::default(),
            collected: Collected::default(),
            machine_sought: false,
            last: None,
            failures: 0,
            hold_refused: None,
        }
    }

    /// Takes the state that was read from the object, if it has to be read.
    ///
    /// # Errors
    /// The stored state cannot be parsed, and this process has not written one: what was done is
    /// unknown.
    pub fn read_state(&mut self, stored: Result<Option<State>, String>) -> Result<(), String> {
        match stored {
            _ if self.loaded => {}
            Ok(Some(state)) => self.set_state(Some(state)),
            // A state that this process wrote is written again, see `state_to_restore`.
            _ if self.state.is_some() => {}
            Ok(None) => {}
            Err(why) => return Err(why),
        }
        if !self.loaded {
            self.journal = None;
            self.unread = Unread::No;
        }
        self.loaded = true;
        Ok(())
    }

    /// Takes the record for absent, which the watch does not show. Returns whether it may be: a process that has written
    /// a state, or whose write has failed, reads it.
    pub fn assume_unrecorded(&mut self) -> bool {
        if self.unread != Unread::Possible || self.loaded || self.state.is_some() {
            return false;
        }
        self.journal = None;
        (self.unread, self.loaded) = (Unread::Assumed, true);
        true
    }

    /// Makes the next observation read the record, if it was taken for absent and this is not decided by the write that
    /// creates it. `decision`: `None` for what is reported without one.
    pub fn rests_on_unread(&mut self, decision: Option<&Decision>) -> bool {
        let creates = decision.is_some_and(|d| d.next == Next::Write);
        let is_assumed = self.unread == Unread::Assumed && self.state.is_none();
        if is_assumed && !creates {
            self.write_failed();
        }
        is_assumed && !creates
    }

    /// Compares the state that was read with the journals of the agents of its rack, each with the newest entry
    /// first, before anything is done through them (F12).
    pub fn journals_read(&mut self, journals: &[Vec<JournalEntry>]) {
        self.journal = Some(JournalFacts::of(&self.uid, self.state.as_ref(), journals));
    }

    /// The state to write again, because the stored one was removed or damaged and this process knows
    /// what it wrote.
    pub fn state_to_restore(&self, stored: &Result<Option<State>, String>) -> Option<&State> {
        let there = matches!(stored, Ok(Some(_)));
        self.state.as_ref().filter(|_| !there)
    }

    /// Records what the present observation has read of the Node live. `asked`: the time before that.
    pub fn node_read(&mut self, workload: &WorkloadView, asked: Timestamp) {
        let after_end = self.has_operation_ended();
        self.node.read(workload, asked, after_end);
    }

    /// Records that a state was written.
    pub fn written(&mut self, state: Option<&State>) {
        self.set_state(state.cloned());
    }

    /// A write of the object failed, or its response was lost: the state is read again.
    pub fn write_failed(&mut self) {
        self.loaded = false;
        self.unread = Unread::No;
    }

    fn set_state(&mut self, state: Option<State>) {
        if self.state != state {
            // Commands of another state are not done in this one.
            self.completed.clear();
            self.pod_deletions = PodDeletions::default();
            self.collected = Collected::default();
            self.is_read_after_end = false;
        }
        let step = |state: &Option<State>| state.as_ref().map(|s| s.step);
        if step(&self.state) != step(&state) {
            self.evictions = Evictions::default();
        }
        self.state = state;
        if let Some(journal) = &mut self.journal
            && self.state.as_ref().is_some_and(State::outlets_may_be_off)
        {
            // From now on the state says it.
            journal.outlets_off_in = None;
        }
    }

    /// The agent of the host and its operation; `None` if the agent has to be queried first, see
    /// [`Self::follow`]. `queried` is set after that. `serving` is the agent that serves the rack
    /// of the host.
    pub fn agent(
        &mut self,
        host: Option<&HostRef>,
        serving: Result<AgentId, String>,
        queried: bool,
    ) -> Option<AgentFacts> {
        if host.is_none() {
            return Some(AgentFacts {
                operation: self.finished_operation(),
                ..AgentFacts::unreachable("the host is not known")
            });
        }
        let id = match serving {
            Ok(id) => id,
            Err(why) => {
                return Some(AgentFacts {
                    operation: self.finished_operation(),
                    ..AgentFacts::unreachable(why)
                });
            }
        };
        let facts = match self.track(&id) {
            Some(operation) => AgentFacts {
                agent: AgentView::Ready,
                agent_id: Some(id),
                operation,
            },
            None if queried => AgentFacts {
                agent_id: Some(id),
                ..AgentFacts::unreachable("the agent did not report the state of the operation")
            },
            None => return None,
        };
        Some(facts)
    }

    /// The pinned operation that its agent is queried about, because it prevents the agent that
    /// serves the rack now from beginning anything.
    pub fn pinned_query(&self, serving: Option<&AgentId>, now: Timestamp) -> Option<&AgentPin> {
        let state = self.state.as_ref()?;
        let pin = state.pinned.as_ref()?;
        let may_run = pin.until.is_some_and(|until| until > now);
        let taken_over = serving.is_some_and(|id| id.agent != pin.agent.agent);
        let present = operation_id(&self.uid, state);
        (may_run && taken_over && present.as_ref() != Some(&pin.operation)).then_some(pin)
    }

    /// Whether address and credentials of the BMC are read again: they were missing before, or
    /// their BareMetalHost is not in the index (`unseen`). Otherwise that is done with the next
    /// command.
    pub fn needs_access(&mut self, host: Option<&HostRef>, unseen: bool) -> bool {
        if host.is_none() {
            self.access = BmcAccess::Known;
            return false;
        }
        unseen || self.access != BmcAccess::Known
    }

    /// Adds what this process remembers to what was read now.
    pub fn observed(&mut self, mut o: Observation, now: Timestamp) -> Observation {
        o.access.clone_from(&self.access);
        o.answered = self.unknown_to();
        o.journal = self.journal.unwrap_or_default();
        o.power.clone_from(&self.power);
        o.updates.clone_from(&self.updates);
        o.completed.clone_from(&self.completed);
        o.pod_deletions.clone_from(&self.pod_deletions);
        o.evictions.clone_from(&self.evictions);
        o.collected.clone_from(&self.collected);
        self.silent_since = o.silence(self.state.as_ref(), self.silent_since, now);
        o.silent_since = self.silent_since;
        if let Some(bmh) = &mut o.bmh {
            bmh.hold_refused.clone_from(&self.hold_refused);
        }
        o
    }

    /// Whether the Machine of a Node that names none is looked up live before this decision counts
    /// (F12): the remediation is about to begin, or has ended.
    pub fn seeks_machine(&self, decision: &Decision) -> bool {
        decision.begins || self.ends_unsought(decision)
    }

    /// The Machine was looked up for this decision.
    pub fn sought_machine(&mut self, decision: &Decision) {
        self.machine_sought |= self.ends_unsought(decision);
    }

    fn ends_unsought(&self, decision: &Decision) -> bool {
        decision.state.step == Step::Escalated && !self.machine_sought
    }

    /// Records a reading that was requested on the observation `o`.
    pub fn reading(&mut self, view: PowerView, o: &Observation) {
        let lease = match &o.workload {
            WorkloadView::Present(node) => node.lease.as_ref(),
            _ => None,
        };
        self.power_read(PowerView {
            lease: lease.map(|lease| lease.renewed.clone()),
            ..view
        });
    }

    /// Records the latest reading. No event of the operation is taken between the question and its answer.
    pub fn power_read(&mut self, view: PowerView) {
        self.is_read_after_end = self.has_operation_ended();
        self.power = Some(view);
    }

    /// When the latest reading was asked for, if the operation of the recorded state was known to have ended by then.
    #[must_use]
    pub fn read_since_end(&self) -> Option<Timestamp> {
        let view = self.power.as_ref().filter(|_| self.is_read_after_end)?;
        Some(view.asked)
    }

    /// Records what was read about updates of firmware.
    pub fn updates_read(&mut self, reading: UpdateReading) {
        self.updates = Some(reading);
    }

    /// F1: checks immediately before the taint is set that the latest reading still proves off.
    ///
    /// # Errors
    /// The reading does not prove it; a new decision is required.
    pub fn reading_stands(&self, now: Timestamp) -> Result<(), ReadingError> {
        let off = self.state.as_ref().and_then(|s| s.attempt.off.as_ref());
        latest_reading_stands(off, self.power.as_ref(), now)
    }

    /// Records that a pod was deleted, or that the API server refused to.
    pub fn pod_deleted(&mut self, pod: PodRef, answer: Result<(), String>) {
        match answer {
            Ok(()) => {
                self.pod_deletions.deleted.insert(pod);
            }
            Err(why) => {
                self.pod_deletions.refused.insert(pod, why);
            }
        }
    }

    /// Records what the API server answered to the eviction of a pod.
    pub fn pod_evicted(&mut self, pod: PodRef, result: EvictionResult, at: Timestamp) {
        let uid = pod.uid.clone();
        let answer = EvictionAnswer { pod, at, result };
        self.evictions.answers.insert(uid, answer);
    }

    /// How often somebody else has removed the cordon of the Node with this UID that was set for this remediation, not
    /// counting what was long ago.
    #[must_use]
    pub fn cordon_removed(&self, node: &str) -> u32 {
        let recorded = self.state.as_ref().and_then(|s| s.cordoned.as_ref());
        recorded.map_or(0, |c| if c.uid == node { c.removed } else { 0 })
    }

    /// Records what was collected before the power-off.
    pub fn evidence(&mut self, evidence: HostEvidence) {
        self.collected.evidence = Some(Box::new(evidence));
    }

    /// Records what the event log recorded since the power-off.
    pub fn boot_log(&mut self, boot_log: BootLog) {
        self.collected.boot_log = Some(Box::new(boot_log));
    }

    /// Records that a command was carried out.
    pub fn done(&mut self, command: &Command) {
        self.completed.insert(command.clone());
        if changes_hold(command) {
            self.hold_refused = None;
        }
    }

    /// Records that a command was not carried out. `refusal`: set if the webhook of the host's owner was away; without
    /// the right to change the host, for example, its owner may be there and act on the key.
    pub fn failed(&mut self, command: &Command, refusal: Option<HoldRefusal>) {
        if changes_hold(command) {
            self.hold_refused = refusal;
        }
    }
}

fn changes_hold(command: &Command) -> bool {
    matches!(
        command,
        Command::AddHold | Command::RenewHold | Command::RemoveHold
    )
}

#[cfg(test)]
mod tests;
