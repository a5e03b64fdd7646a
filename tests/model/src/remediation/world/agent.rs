//! The agent: its journal, and the queue of its operations.
//!
//! What is accepted, refused, recorded and overtaken is decided by the agent's own code: the ledger and the
//! queue of `rackhand_agent_core`. Restated is, in `operation`, how an operation sends and reads.

use std::{convert::Infallible, time::Duration};

use jiff::Timestamp;
use rackhand_agent_core::{
    bmc_queue::{self, OperationRank},
    host_key::{HostKey, HostKeys},
    ledger::{
        self, Action, Authority, Change, Device, Host, Lifetime, PowerCut, RecordedOutcome,
        Release, Reservation, Sequence, Sibling, SiblingPower, StartAnswer, StartRequest, Term,
        check_siblings, release_reserved,
    },
};
use rackhand_core::remediation::{EntryProgress, JournalEntry};

use crate::{
    remediation::world::{
        UID,
        operation::{End, Op, Phase, Run, is_interrupt},
        outlets::is_of_outlets,
    },
    time::{NOW, shift},
};

/// The election of the controllers.
pub const ELECTION: &str = "prod";
/// The key of the host.
pub const HOST: &str = "10.0.0.7";
/// The key of the other host that its outlets feed.
pub const SIBLING: &str = "10.0.0.8";

/// The ledger of the agent.
pub type Ledger = ledger::Ledger<End>;

/// The authority of a controller.
pub fn authority(sent: Sequence) -> Authority {
    Authority::Controller {
        election: ELECTION.into(),
        term: sent.term,
        holder: format!("pod-{}", sent.term),
        sequence: sent.sequence,
    }
}

fn host() -> Host {
    at(HOST)
}

fn at(key: &str) -> Host {
    Host {
        keys: HostKeys::new([HostKey::parse(key)]),
        ..Host::default()
    }
}

/// The value of a decision, which cannot fail in memory.
fn value<T>(decision: Result<T, Infallible>) -> T {
    match decision {
        Ok(value) => value,
    }
}

/// What came of a request to begin an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// It was begun now.
    Started,
    /// It was begun before.
    Known,
    /// The ledger refused it.
    Refused,
}

/// The agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agent {
    /// Which journal it has.
    pub journal: u8,
    /// What stands in the journal.
    pub ledger: Ledger,
    /// The queue of the BMC.
    pub queue: bmc_queue::State,
    /// Operations that run, the oldest first.
    pub runs: Vec<Run>,
}

impl Agent {
    /// An agent at which this term is claimed.
    pub fn new(term: u64) -> Self {
        let mut agent = Self::default();
        agent.claim(term);
        agent
    }

    fn commit(&mut self, changes: impl IntoIterator<Item = Change<End>>) {
        self.ledger.apply(changes);
    }

    /// The time of the agent's clock, as far as the order of records depends on it.
    fn clock(&self) -> i64 {
        i64::try_from(self.ledger.operations.len()).unwrap_or(i64::MAX)
    }

    /// A controller claims its term.
    pub fn claim(&mut self, number: u64) {
        let term = Term {
            number,
            holder: format!("pod-{number}"),
            standby: false,
            sequence: 0,
        };
        let (_, changes) = value(ledger::claim(&self.ledger, ELECTION, term));
        self.commit(changes);
    }

    /// A controller begins an operation, which sends its command `wait` later and gives up `limit` after
    /// that.
    pub fn begin(
        &mut self,
        sent: Sequence,
        (id, on): (&str, bool),
        wait: Duration,
        limit: Duration,
    ) -> Beginning {
        let action = if on {
            Action::On
        } else if is_interrupt(id) {
            Action::Nmi
        } else {
            Action::Off { hold: true }
        };
        let start_request = StartRequest {
            id: id.to_owned(),
            key: HOST.into(),
            host: "host-7".into(),
            at: host(),
            action,
            device: match is_of_outlets(id) {
                true => Device::Outlets,
                false => Device::Bmc,
            },
            owner: UID.into(),
            authority: authority(sent),
            force: false,
            detail: String::new(),
            lifetime: Lifetime::default(),
            now: self.clock(),
        };
        let (accepted, changes) = value(start_request.decide(&self.ledger));
        match accepted {
            StartAnswer::Known(_) => return Beginning::Known,
            StartAnswer::Refused(_) => return Beginning::Refused,
            StartAnswer::Started { .. } => self.commit(changes),
        }
        let (number, overtaken) = self.queue.join(HOST, OperationRank::of(action));
        for run in &mut self.runs {
            run.cancelled |= overtaken.contains(&run.number);
        }
        let at = |d| NOW.checked_add(d).unwrap_or(Timestamp::MAX);
        self.runs.push(Run {
            id: id.to_owned(),
            on,
            number,
            phase: Phase::Command,
            due: at(wait),
            deadline: at(wait.saturating_add(limit)),
            cancelled: false,
            expects: false,
            cut: PowerCut::default(),
            taken: false,
            during_update: false,
        });
        Beginning::Started
    }

    /// A controller cancels an operation before its next command; whether its term is taken, or there was
    /// nothing to cancel.
    pub fn cancel(&mut self, sent: Sequence, id: &str) -> bool {
        let authority = authority(sent);
        let is_known = self.ledger.operations.contains_key(id);
        if is_known && value(ledger::check_term(&self.ledger, &authority)).is_err() {
            return false;
        }
        if let Some(run) = self.runs.iter_mut().find(|run| run.id == id) {
            run.cancelled = true;
            let change = value(ledger::cancelled(&self.ledger, id, &authority.to_string()));
            self.commit(change);
        }
        true
    }

    /// A controller releases the hold of our remediation; whether the ledger takes it.
    pub fn release(&mut self, sent: Sequence) -> bool {
        let release = Release {
            id: format!("{UID}/release/{}", self.clock()),
            key: HOST.into(),
            at: host(),
            authority: authority(sent),
            owner: UID.into(),
            force: false,
            now: self.clock(),
        };
        let (released, changes) = value(release.decide(&self.ledger));
        self.commit(changes);
        released.is_ok()
    }

    /// Whether the journal has a hold of our remediation.
    pub fn holds(&self) -> bool {
        self.ledger.holds.values().any(|hold| hold.owner == UID)
    }

    /// The operation with this id.
    pub fn op(&self, id: &str) -> Option<Op> {
        let known = self.ledger.operations.get(id)?;
        Some(Op {
            on: known.action == Action::On.word(),
            outlets: is_of_outlets(id),
            sent: !known.sending.is_empty(),
            end: known.outcome.clone(),
        })
    }

    /// The records of our remediation, the newest first.
    pub fn history(&self) -> Vec<JournalEntry> {
        let ours = self.ledger.operations.values().filter(|op| op.owner == UID);
        let mut ordered: Vec<_> = ours.collect();
        ordered.sort_by_key(|op| (op.begun, &op.id));
        let entry = |op: &ledger::Operation<End>| JournalEntry {
            id: op.id.clone(),
            host: op.host.clone(),
            is_off: op.action == "off",
            is_release: op.action == "release",
            progress: match op.outcome {
                None => EntryProgress::Running,
                Some(RecordedOutcome::Reported(End::Confirmed)) => EntryProgress::Confirmed,
                Some(_) => EntryProgress::Ended,
            },
        };
        ordered.into_iter().rev().map(entry).collect()
    }

    /// The operation that acts next: one that ends, or the one whose turn it is.
    pub fn current(&self) -> Option<usize> {
        let acts = |run: &Run| run.cancelled || self.queue.has_turn(HOST, run.number);
        self.runs.iter().position(acts)
    }

    /// When it acts next.
    pub fn due(&self) -> Option<Timestamp> {
        self.current().map(|i| self.runs[i].due)
    }

    /// The agent's process is restarted and reads its journal.
    pub fn restart(&mut self) {
        self.runs.clear();
        self.queue = bmc_queue::State::default();
        let (_, changes) = value(ledger::interrupt_running(&self.ledger, self.clock()));
        self.commit(changes);
    }

    /// The agent is started anew with an empty journal.
    pub fn wipe(&mut self) {
        *self = Self {
            journal: self.journal.saturating_add(1),
            ..Self::default()
        };
    }

    /// The attempts of all operations began so much earlier, which is part of their ids.
    pub fn age_attempts(&mut self, age: Duration) {
        let earlier = NOW.checked_sub(age).unwrap_or(Timestamp::MIN);
        let rename = |id: &str| {
            let (now, earlier) = (NOW.as_second(), earlier.as_second());
            id.replace(&format!("@{now}/"), &format!("@{earlier}/"))
        };
        let ledger = &mut self.ledger;
        let operations = std::mem::take(&mut ledger.operations).into_values();
        ledger.operations = operations
            .map(|mut operation| {
                operation.id = rename(&operation.id);
                (operation.id.clone(), operation)
            })
            .collect();
        ledger.running = ledger.running.iter().map(|id| rename(id)).collect();
        let ended = ledger.ended.iter();
        ledger.ended = ended.map(|(at, id)| (*at, rename(id))).collect();
        for run in &mut self.runs {
            run.id = rename(&run.id);
        }
    }

    /// Lets the time pass.
    pub fn pass(&mut self, passed: Duration) {
        for run in &mut self.runs {
            shift(&mut run.due, passed);
            shift(&mut run.deadline, passed);
        }
    }

    /// Whether the agent lets an operator switch the other host that the outlets feed.
    pub(crate) fn accepts_sibling(&self, on: bool) -> bool {
        let start_request = StartRequest {
            id: "sibling".into(),
            key: SIBLING.into(),
            host: "host-8".into(),
            at: at(SIBLING),
            action: match on {
                true => Action::On,
                false => Action::Off { hold: false },
            },
            device: Device::Bmc,
            owner: "operator ann".into(),
            authority: Authority::Operator { name: "ann".into() },
            // Off is safe whoever holds it.
            force: !on,
            detail: String::new(),
            lifetime: Lifetime::default(),
            now: self.clock(),
        };
        let (accepted, _) = value(start_request.decide(&self.ledger));
        matches!(accepted, StartAnswer::Started { .. })
    }

    /// An operation makes sure that it may switch off outlets that also feed another host, of which this was
    /// read; whether it may. `is_cut`: its BMC is known to have no power; `holds`: it holds the other host before
    /// that.
    pub(crate) fn may_cut(
        &mut self,
        which: usize,
        (power, is_cut): (SiblingPower, bool),
        holds: bool,
    ) -> bool {
        let sibling = Sibling {
            key: SIBLING.into(),
            host: "host-8".into(),
            at: at(SIBLING),
            named: false,
        };
        let mut added = Vec::new();
        if holds {
            let reservation = Reservation {
                operation: self.runs[which].id.clone(),
                siblings: vec![sibling.clone()],
                now: self.clock(),
            };
            let (reserved, changes) = value(reservation.decide(&self.ledger));
            match reserved {
                Ok(keys) => added = keys,
                Err(_) => return false,
            }
            self.commit(changes);
        }
        let may = check_siblings("host-7", &[(sibling, power)], is_cut).is_ok();
        if !may {
            self.commit(release_reserved(&added));
        }
        may
    }

    /// An operation writes down that it sends its command. `shared`: to outlets that also feed another host.
    pub(crate) fn sends(&mut self, which: usize, shared: bool) {
        let Run { id, on, number, .. } = &self.runs[which];
        if !on {
            self.queue.hold_turn(HOST, *number);
        }
        if *on && shared {
            let keys = host().keys;
            let changes = value(ledger::sending_shared_on(
                &self.ledger,
                id,
                &keys,
                self.clock(),
            ));
            return self.commit(changes);
        }
        let change = value(ledger::sending(&self.ledger, id, self.clock()));
        self.commit(change);
    }

    /// An operation ends.
    pub(crate) fn ends(&mut self, which: usize, end: End) {
        let run = self.runs.remove(which);
        self.queue.leave(HOST, run.number);
        let outcome = RecordedOutcome::Reported(end);
        let change = value(ledger::finish(&self.ledger, &run.id, self.clock(), outcome));
        self.commit(change);
    }
}
