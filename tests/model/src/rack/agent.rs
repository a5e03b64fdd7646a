//! An agent: its journal on disk, its process, and the operations that it carries out.
//!
//! Every decision is the agent's own code: `rackhand_agent_core::ledger` and `bmc_queue`.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use rackhand_agent_core::{
    bmc_queue,
    ledger::{self, Action, Change, RecordedOutcome, Sequence, StartRequest, Version},
};

use super::world::Rack;

/// How an operation ended, as its runner reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The BMC reported what was wanted.
    Confirmed,
    /// The command could not be written into the journal first.
    NotSent,
    /// It was cancelled or overtaken.
    Cancelled,
}

/// The ledger of an agent.
pub type Ledger = ledger::Ledger<End>;

/// The journal of an agent, as it stands on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Disk {
    /// What stands in it.
    pub ledger: Arc<Ledger>,
    /// Which journal it is.
    pub version: Version,
}

impl Disk {
    /// An empty journal.
    pub fn new(instance: &str) -> Self {
        Self {
            ledger: Arc::default(),
            version: Version {
                instance: instance.to_owned(),
                generation: 1,
            },
        }
    }

    /// Writes changes in one transaction.
    pub fn commit(&mut self, changes: impl IntoIterator<Item = Change<End>>) {
        Arc::make_mut(&mut self.ledger).apply(changes);
        self.version.generation += 1;
    }
}

/// What an operation does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Waits for its turn, then writes down that it sends its command.
    Waiting,
    /// Sends its command.
    Sending,
    /// Has sent its command, and reads what has come of it.
    Sent,
}

/// An operation that runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    /// Id of the operation, chosen by the controller.
    pub id: String,
    /// What it does.
    pub action: Action,
    /// Whether a controller began it.
    pub of_controller: bool,
    /// The time until which it may send its command.
    pub until: Option<i64>,
    /// Begun with force.
    pub force: bool,
    /// Its number in the queue.
    pub number: u64,
    /// What it does next.
    pub phase: Phase,
    /// It ends before its next command.
    pub cancelled: bool,
    /// It lives by the lease of its caller.
    pub is_attended: bool,
    /// A cycle that has sent its power-off: its power-on is next.
    pub is_half: bool,
}

/// A request to begin an operation that the journal has not decided yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pending {
    /// The request.
    pub request: Arc<StartRequest>,
    /// The time until which it may command the BMC.
    pub until: Option<i64>,
    /// The controller that leads waits for the answer.
    pub awaited: bool,
}

/// What an agent has in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// The claims that it has seen.
    pub claims: ledger::Claims,
    /// The queue of the BMC.
    pub queue: bmc_queue::State,
    /// Requests on their way to the journal.
    pub pending: Vec<Pending>,
    /// Operations that run.
    pub runs: Vec<Run>,
    /// Operations that have ended.
    pub ended: BTreeMap<String, End>,
    /// Outcomes that could not be written.
    pub unwritten: BTreeMap<String, (i64, End)>,
    /// A write has failed, and the journal was not opened again since.
    pub failed: bool,
    /// Changes that were answered and are not written: only with a breakage.
    pub promised: Vec<Change<End>>,
}

impl Process {
    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.runs.is_empty() && !self.failed && self.promised.is_empty()
    }
}

/// What truly happened, for the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The highest term that was claimed at this journal.
    pub claimed: u64,
    /// The last command that it took.
    pub taken: Option<Sequence>,
    /// The operations that it started.
    pub started: BTreeSet<String>,
    /// The journal is an older copy, and nothing that the agent was told shows it.
    pub undetected: bool,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    /// Its journal.
    pub disk: Disk,
    /// The note beside the journal.
    pub note: Version,
    /// A copy of the journal from earlier.
    pub copy: Option<Arc<Disk>>,
    /// How often it was started.
    pub starts: u8,
    /// The disk takes no writes.
    pub full: bool,
    /// Its process, if it runs.
    pub process: Option<Process>,
    /// What truly happened.
    pub history: History,
}

impl Agent {
    /// An agent with an empty journal that runs.
    pub fn new(instance: &str) -> Self {
        let disk = Disk::new(instance);
        Self {
            note: disk.version.clone(),
            disk,
            copy: None,
            starts: 0,
            full: false,
            process: Some(Process::default()),
            history: History::default(),
        }
    }

    /// The process ends, and with it everything that it has in memory.
    pub fn crash(&mut self) {
        self.process = None;
    }

    /// The operation of this id, as the agent reports it to whoever follows it.
    pub fn view(&self, id: &str) -> View {
        let Some(process) = &self.process else {
            return View::NoAnswer;
        };
        let pending = process.pending.iter().any(|p| p.request.id == id);
        if pending || process.runs.iter().any(|run| run.id == id) {
            return View::Running;
        }
        if let Some(end) = process.ended.get(id) {
            return View::Ended(*end == End::Confirmed);
        }
        self.recorded(id)
    }

    /// The operation of this id, as it stands in the journal.
    pub fn recorded(&self, id: &str) -> View {
        match self.disk.ledger.operations.get(id).map(|op| &op.outcome) {
            _ if self.process.is_none() => View::NoAnswer,
            None => View::Unknown,
            Some(None) => View::Running,
            Some(Some(outcome)) => {
                View::Ended(*outcome == RecordedOutcome::Reported(End::Confirmed))
            }
        }
    }
}

/// An operation as an agent reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The agent does not answer.
    NoAnswer,
    /// It does not know the operation.
    Unknown,
    /// The operation runs.
    Running,
    /// It has ended; whether it was confirmed.
    Ended(bool),
}

/// What an agent answers to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// The known term refuses the claimed one.
    Higher(u64),
    /// It was refused: the caller must claim its term again.
    Refused,
    /// The caller gets no answer, or an error that may pass.
    Failed,
}

/// Whether it is not later than this time.
pub fn is_in_time(until: Option<i64>, now: i64) -> bool {
    // A pin is written for the time that passes next.
    let time = |t: i64| Duration::from_secs(t.unsigned_abs());
    ledger::is_in_time(until.map(|until| time(until - 1)), time(now))
}

/// The value of a decision, which cannot fail in memory.
pub fn value<T>(decision: Result<T, Infallible>) -> T {
    match decision {
        Ok(value) => value,
    }
}

impl Rack {
    /// An agent, to change it.
    pub fn agent(&mut self, at: usize) -> &mut Agent {
        Arc::make_mut(&mut self.agents[at])
    }
}
