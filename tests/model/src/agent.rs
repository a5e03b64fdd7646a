//! The agent: operations, one after another, and its journal.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_core::remediation::{
    CommandTaken, OperationOutcome, OperationView, PowerReading, PowerState,
};

use crate::{
    time::{NOW, after, shift, until},
    world::{Power, World, Wrong},
};

/// Seconds between two readings of an operation.
const READ_EVERY: u64 = 2;

/// What an operation does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Sends its command.
    Command,
    /// Reads; so many readings have said what is wanted.
    Read(u8),
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The BMC reported what was wanted.
    Confirmed,
    /// Its deadline passed.
    Unconfirmed,
    /// It was cancelled.
    Cancelled,
    /// The agent was restarted.
    Interrupted,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Op {
    /// Its id.
    pub id: String,
    /// A power-on; otherwise a hard power-off.
    pub on: bool,
    /// What it does next.
    pub phase: Phase,
    /// When.
    pub due: Timestamp,
    /// When it gives up.
    pub deadline: Timestamp,
    /// It ends before its next command.
    pub cancel: bool,
    /// A command was sent.
    pub sent: bool,
    /// How it ended.
    pub end: Option<End>,
}

impl Op {
    /// An operation that begins now and sends its command `wait` later.
    pub fn new(id: &str, on: bool, wait: Duration, limit: Duration) -> Self {
        let at = |d| NOW.checked_add(d).unwrap_or(Timestamp::MAX);
        Self {
            id: id.to_owned(),
            on,
            phase: Phase::Command,
            due: at(wait),
            deadline: at(wait.saturating_add(limit)),
            cancel: false,
            sent: false,
            end: None,
        }
    }

    /// Forgets what no longer matters once it has ended.
    fn settle(&mut self) {
        (self.due, self.deadline) = (NOW, NOW);
        self.phase = Phase::Command;
        self.cancel = false;
    }

    /// As the agent reports it.
    pub fn view(&self) -> OperationView {
        let outcome = match self.end {
            None => return OperationView::Running,
            Some(End::Confirmed) => self.confirmed(),
            Some(End::Unconfirmed) => OperationOutcome::Unconfirmed {
                why: "the BMC did not report it in time".into(),
            },
            Some(End::Cancelled) => OperationOutcome::Cancelled,
            Some(End::Interrupted) => OperationOutcome::Interrupted,
        };
        OperationView::Finished {
            outcome,
            commands_sent: u32::from(self.sent),
        }
    }

    /// The outcome with its evidence. The agent's clock starts with the command.
    pub fn confirmed(&self) -> OperationOutcome {
        let state = if self.on {
            PowerState::On
        } else {
            PowerState::Off
        };
        let read = |n| reading(state, n * READ_EVERY * 1000);
        OperationOutcome::Confirmed {
            readings: vec![read(1), read(2)],
            taken: self.sent.then(|| CommandTaken {
                command: "ForceOff".into(),
                answer: "204".into(),
                since_start_ms: 0,
            }),
        }
    }
}

/// A reading of our BMC.
pub fn reading(state: PowerState, since_start_ms: u64) -> PowerReading {
    PowerReading {
        state,
        raw: format!("{state:?}"),
        protocol: "Redfish".into(),
        identity: String::new(),
        at: NOW,
        since_start_ms,
        bmc: "10.0.0.7".into(),
    }
}

/// The agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Agent {
    /// Which journal it has.
    pub journal: u8,
    /// Its journal has a hold of our remediation.
    pub holds: bool,
    /// Operations, the oldest first. Only the first one that has not ended acts.
    pub ops: Vec<Op>,
}

impl Agent {
    /// The operation with this id.
    pub fn op(&self, id: &str) -> Option<&Op> {
        self.ops.iter().find(|op| op.id == id)
    }

    /// The operation whose turn it is.
    pub fn current(&self) -> Option<usize> {
        self.ops.iter().position(|op| op.end.is_none())
    }

    /// When it acts next.
    pub fn due(&self) -> Option<Timestamp> {
        self.current().map(|i| self.ops[i].due)
    }

    /// The agent's process is restarted and reads its journal.
    pub fn restart(&mut self) {
        for op in self.ops.iter_mut().filter(|op| op.end.is_none()) {
            op.end = Some(End::Interrupted);
            op.settle();
        }
    }

    /// The agent is started anew with an empty journal.
    pub fn wipe(&mut self) {
        self.ops.clear();
        self.holds = false;
        self.journal = self.journal.saturating_add(1);
    }

    /// Lets the time pass.
    pub fn pass(&mut self, passed: Duration) {
        for op in self.ops.iter_mut().filter(|op| op.end.is_none()) {
            shift(&mut op.due, passed);
            shift(&mut op.deadline, passed);
        }
    }
}

impl World {
    /// What the BMC reports.
    pub fn read_bmc(&self) -> Option<PowerState> {
        if self.bmc.silent {
            return None;
        }
        Some(match self.host.power {
            _ if self.bmc.lying || self.bmc.reset => PowerState::Off,
            Power::On => PowerState::On,
            Power::GoingOff(_) => PowerState::PoweringOff,
            Power::Off => PowerState::Off,
            Power::GoingOn(_) => PowerState::PoweringOn,
        })
    }

    /// The operation whose turn it is does its next act.
    pub fn agent_acts(&mut self) {
        let Some(i) = self.agent.current() else {
            return;
        };
        let mut op = self.agent.ops[i].clone();
        let wanted = if op.on {
            PowerState::On
        } else {
            PowerState::Off
        };
        op.due = after(READ_EVERY);
        if op.cancel {
            op.end = Some(End::Cancelled);
        } else if until(op.deadline).is_zero() {
            op.end = Some(End::Unconfirmed);
        } else if let Some(read) = self.read_bmc() {
            match op.phase {
                Phase::Command => {
                    if self.done.is_some() {
                        self.broken(Wrong::Late);
                    }
                    if !self.bmc.lying {
                        self.switch(op.on);
                    }
                    self.bmc.reset = false;
                    op.sent = true;
                    op.phase = Phase::Read(0);
                }
                Phase::Read(n) if read == wanted => {
                    op.phase = Phase::Read(n + 1);
                    if op.on || n > 0 {
                        op.end = Some(End::Confirmed);
                    }
                }
                Phase::Read(_) => {
                    let goes = matches!(read, PowerState::PoweringOff | PowerState::PoweringOn);
                    op.phase = if goes { Phase::Read(0) } else { Phase::Command };
                }
            }
        } else if op.phase != Phase::Command {
            op.phase = Phase::Read(0);
        }
        if op.end.is_some() {
            op.settle();
        }
        self.agent.ops[i] = op;
        self.changed();
    }
}
