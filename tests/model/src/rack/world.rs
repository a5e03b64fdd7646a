//! The state of the rack: two agents, the host with its BMC, what the Kubernetes API has, and the network.

use std::{collections::BTreeMap, sync::Arc};

use rackhand_agent_core::{
    host_key::{HostKey, HostKeys},
    ledger::{Authority, Host, Release, StartRequest, Term, Version},
};

use super::{agent::Agent, leader::Leader};

/// The election of the controllers.
pub const ELECTION: &str = "prod";
/// The key of the host.
pub const HOST: &str = "10.0.0.7";
/// The owner in whose name the controllers act.
pub const REMEDIATION: &str = "rem-1";
/// The owner in whose name the operator acts.
pub const OPERATOR: &str = "operator ann";

/// The host by its address.
pub fn host() -> Host {
    Host {
        keys: HostKeys::new([HostKey::parse(HOST)]),
        ..Host::default()
    }
}

/// What the remediation does next. It survives every controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Switches the host off and holds it off.
    Off,
    /// Switches it on.
    On,
    /// Releases its holds.
    Release,
    /// Has ended.
    Done,
}

/// At which agent an operation is to be begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The agent.
    pub agent: usize,
    /// The instance of its journal.
    pub journal: String,
    /// The operation.
    pub operation: String,
    /// The time until which the operation may command the BMC.
    pub until: i64,
}

/// What the Kubernetes API has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    /// The step of the remediation.
    pub step: Step,
    /// The number of the operation of this step.
    pub operation: u8,
    /// Where that operation, or the one before it, is to be begun.
    pub pin: Option<Pin>,
    /// The highest generation of each journal that has answered, by agent.
    pub seen: [BTreeMap<String, u64>; 2],
}

impl Store {
    /// The id of the operation of this step.
    pub fn id(&self) -> String {
        format!("op-{}", self.operation)
    }
}

/// A call of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// Claims a term.
    Claim {
        /// The term, and whether the agent stands by.
        term: Term,
        /// The journals of this agent that were seen.
        known: Vec<Version>,
    },
    /// Begins an operation.
    Begin {
        /// The request.
        request: Arc<StartRequest>,
        /// The start of the agent that it is sent to, and the time until which it may command the BMC.
        latest: (u8, i64),
    },
    /// Lifts the hold.
    Release(Arc<Release>),
}

/// A call on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// The agent.
    pub to: usize,
    /// The call.
    pub call: Call,
    /// The controller that leads waits for the answer.
    pub awaited: bool,
}

impl Message {
    /// The term of the controller that sent it.
    pub fn term(&self) -> u64 {
        let authority = match &self.call {
            Call::Claim { term, .. } => return term.number,
            Call::Begin { request, .. } => &request.authority,
            Call::Release(release) => &release.authority,
        };
        match authority {
            Authority::Controller { term, .. } => *term,
            Authority::Operator { .. } => 0,
        }
    }
}

/// A rule that was broken; such states are not continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    /// F7: a command of an older term than the highest claimed one was taken.
    Term,
    /// F7: a command was taken that is not newer than one before it.
    Sequence,
    /// F6: two operations of one agent command the BMC.
    TwoOperations,
    /// F6: two agents command the BMC for a controller.
    TwoAgents,
    /// The BMC got a command of the remediation that is not of its present operation.
    Stale,
    /// An operator without force switched on a host that is held off.
    Held,
    /// An answer was given to what is not on the disk.
    Unwritten,
    /// An operation was started a second time.
    Repeated,
    /// F17: a power-off was sent for a process that was gone.
    CallerGone,
}

/// The rack and whoever uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rack {
    /// The two agents.
    pub agents: [Arc<Agent>; 2],
    /// Journals that were created so far.
    pub journals: u8,
    /// Whether the host is on.
    pub on: bool,
    /// The time. It passes where somebody waits for the time of a pin.
    pub time: i64,
    /// What the Kubernetes API has.
    pub store: Store,
    /// The controller that leads.
    pub leader: Leader,
    /// Calls on their way.
    pub network: Vec<Message>,
    /// What the operator may ask for; one of it in a run.
    pub operator: Vec<Manual>,
    /// The lease of the operator's process is over.
    pub caller_gone: bool,
    /// The host is off because the operator wanted it.
    pub off_by_hand: bool,
    /// Faults that may still happen.
    pub budget: u8,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

/// What an operator asks for at the command line of the first agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Manual {
    /// `power on`.
    On,
    /// `power on --force`.
    ForcedOn,
    /// `power reset --force`, which must never be repeated by itself.
    ForcedReset,
    /// `power off`, which lives by the lease of its process (F17).
    Off,
    /// `power cycle`, which does as well.
    Cycle,
}

impl Rack {
    /// A host that is on, and a remediation that was just requested.
    pub fn new(operator: Vec<Manual>, budget: u8) -> Self {
        Self {
            agents: [Agent::new("j0"), Agent::new("j1")].map(Arc::new),
            journals: 2,
            on: true,
            time: 0,
            store: Store {
                step: Step::Off,
                operation: 0,
                pin: None,
                seen: Default::default(),
            },
            leader: Leader::new(1),
            network: Vec::new(),
            operator,
            caller_gone: false,
            off_by_hand: false,
            budget,
            wrong: None,
        }
    }

    /// Records that a rule was broken; the first one counts.
    pub fn broken(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    /// A name for a new journal.
    pub fn new_journal(&mut self) -> String {
        let name = format!("j{}", self.journals);
        self.journals = self.journals.saturating_add(1);
        name
    }

    /// The remediation has ended, nothing of it is left, and nobody has anything to do.
    pub fn is_over(&self) -> bool {
        let is_clean = |agent: &Arc<Agent>| {
            agent.disk.ledger.holds.is_empty()
                && agent.process.as_ref().is_some_and(|p| p.is_idle())
        };
        let is_right = self.on || self.off_by_hand;
        self.store.step == Step::Done && is_right && self.agents.iter().all(is_clean)
    }
}
