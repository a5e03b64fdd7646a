//! The controller that leads, as far as agents see it: it claims its term, chooses the agent that serves
//! the rack, and begins one operation after the other.
//!
//! The core chooses which agent serves, and says what a pinned operation allows. What the model restates is in
//! `runtime/src/agents` of the controller.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use rackhand_agent_core::ledger::{
    Action, Authority, Device, Lifetime, Release, StartRequest, Term, Version,
};
use rackhand_core::remediation::{
    AgentId, AgentPin, PinView, PinnedOperation, ServingChoice, ServingState, choose_serving,
    proves_absence,
};

use super::{
    agent::{Answer, Phase, View},
    breakage::Breakage,
    world::{Call, ELECTION, HOST, Message, Pin, REMEDIATION, Rack, Step, host},
};

/// An agent and its journal, as the core knows them.
fn agent_id(agent: usize, journal: &str) -> AgentId {
    AgentId {
        agent: agent.to_string(),
        journal: journal.to_owned(),
    }
}

/// A time, as the core knows it.
fn time(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap_or(Timestamp::MAX)
}

/// What a controller knows of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Connection {
    /// It was not called yet, or must be called again.
    #[default]
    Untried,
    /// It does not answer.
    Silent,
    /// It has taken the claim of the term.
    Ready {
        /// As one that stands by.
        standby: bool,
    },
}

/// A controller that leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leader {
    /// The term of its Lease.
    pub term: u64,
    /// The number of its last call of each agent. Numbers are compared by one agent only.
    pub sequences: [u64; 2],
    /// The agent that serves the rack.
    pub serving: Option<usize>,
    /// What it knows of each agent.
    pub connections: [Connection; 2],
    /// The journal of each, as far as it answered.
    pub journals: [String; 2],
    /// The start of each, as far as it answered.
    pub starts: [u8; 2],
    /// Waits for an answer of this agent.
    pub waits: [bool; 2],
}

impl Leader {
    /// A controller that has just taken over.
    pub fn new(term: u64) -> Self {
        Self {
            term,
            sequences: [0; 2],
            serving: None,
            connections: Default::default(),
            journals: Default::default(),
            starts: [0; 2],
            waits: [false; 2],
        }
    }

    fn holder(&self) -> String {
        format!("pod-{}", self.term)
    }

    fn next_sequence(&mut self, agent: usize) -> u64 {
        self.sequences[agent] += 1;
        self.sequences[agent]
    }

    /// Whether this agent serves the rack.
    fn serves(&self, agent: usize) -> bool {
        let state = |agent: usize| match self.connections[agent] {
            Connection::Untried => ServingState::Untried,
            Connection::Silent => ServingState::Silent,
            Connection::Ready { .. } => ServingState::Answers,
        };
        let serving = self.serving.as_ref();
        let serving = serving.map(|current| (current, state(*current)));
        choose_serving(&agent, serving) != ServingChoice::StandBy
    }

    fn is_ready(&self, agent: usize) -> bool {
        matches!(self.connections[agent], Connection::Ready { .. })
    }

    /// The agent through which it may command now.
    fn commands_through(&self) -> Option<usize> {
        let ready = Connection::Ready { standby: false };
        self.serving
            .filter(|agent| self.connections[*agent] == ready)
    }
}

/// What a controller does next for its remediation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Wait,
    /// The operation of this step has ended as wanted.
    Advance,
    /// The operation is tried again under another id.
    NewTry,
    Pin,
    Begin,
    Release(usize),
    Finish,
}

impl Rack {
    /// Whether the controller calls this agent to claim its term, or to learn whether it still runs with
    /// the journal that it knows.
    pub fn must_probe(&self, agent: usize) -> bool {
        let leader = &self.leader;
        if leader.waits[agent] {
            return false;
        }
        let process = self.agents[agent].process.as_ref();
        let answers = process.is_some_and(|process| !process.failed);
        let standby = match leader.connections[agent] {
            Connection::Untried => return true,
            // It is called again and again; only the call that is answered makes a difference.
            Connection::Silent => return answers,
            Connection::Ready { standby } => standby,
        };
        let found = &self.agents[agent].disk.version;
        let seen = self.store.seen[agent].get(&found.instance);
        !answers
            || standby == leader.serves(agent)
            || leader.journals[agent] != found.instance
            || seen.is_some_and(|seen| *seen > found.generation)
    }

    /// The controller claims its term at an agent.
    pub fn probes(&mut self, agent: usize) {
        let leader = &mut self.leader;
        let serves = leader.serves(agent);
        if serves {
            leader.serving = Some(agent);
        }
        let term = Term {
            number: leader.term,
            holder: leader.holder(),
            standby: !serves,
            sequence: leader.next_sequence(agent),
        };
        let seen = self.store.seen[agent].iter();
        let known = seen.map(|(instance, generation)| Version {
            instance: instance.clone(),
            generation: *generation,
        });
        let call = Call::Claim {
            term,
            known: known.collect(),
        };
        self.send(agent, call);
    }

    fn send(&mut self, to: usize, call: Call) {
        self.leader.waits[to] = true;
        self.network.push(Message {
            to,
            call,
            awaited: true,
        });
    }

    /// The answer to a call arrives.
    pub fn claim_answered(&mut self, agent: usize, standby: bool, answer: &Answer) {
        if *answer == Answer::Done {
            self.leader.waits[agent] = false;
            self.leader.connections[agent] = Connection::Ready { standby };
            self.leader.starts[agent] = self.agents[agent].starts;
            self.sees(agent);
        } else {
            self.answered(agent, answer);
        }
    }

    /// The answer to a call that is no claim arrives.
    pub fn answered(&mut self, agent: usize, answer: &Answer) {
        let leader = &mut self.leader;
        leader.waits[agent] = false;
        match answer {
            Answer::Done => self.sees(agent),
            Answer::Refused => leader.connections[agent] = Connection::Untried,
            Answer::Failed => leader.connections[agent] = Connection::Silent,
            Answer::Higher(known) => {
                // The leader raises the term of its Lease, and claims that everywhere.
                leader.term = known + 1;
                leader.connections = Default::default();
            }
        }
    }

    fn sees(&mut self, agent: usize) {
        let version = &self.agents[agent].disk.version;
        self.leader.journals[agent].clone_from(&version.instance);
        let seen: &mut BTreeMap<_, _> = &mut self.store.seen[agent];
        let highest = seen.entry(version.instance.clone()).or_default();
        *highest = (*highest).max(version.generation);
    }

    /// Another controller takes over. Calls of the first one that are on their way still arrive.
    pub fn takes_over(&mut self) {
        self.leader = Leader::new(self.leader.term + 1);
        for message in &mut self.network {
            message.awaited = false;
        }
        for agent in 0..2 {
            if let Some(process) = &mut self.agent(agent).process {
                process.pending.iter_mut().for_each(|p| p.awaited = false);
            }
        }
    }

    /// Whether the controller has something to do for its remediation.
    pub fn can_lead(&self, breakage: Option<Breakage>) -> bool {
        self.next_of_leader(breakage) != Next::Wait
    }

    fn next_of_leader(&self, breakage: Option<Breakage>) -> Next {
        match self.store.step {
            Step::Off | Step::On => self.next_of_operation(breakage),
            Step::Release | Step::Done => {
                let holds = |agent: usize| {
                    let holds = &self.agents[agent].disk.ledger.holds;
                    self.agents[agent].process.is_some()
                        && self.leader.is_ready(agent)
                        && !self.leader.waits[agent]
                        && holds.values().any(|hold| hold.owner == REMEDIATION)
                };
                match (0..2).find(|agent| holds(*agent)) {
                    Some(agent) => Next::Release(agent),
                    None if self.store.step == Step::Release && self.leader.waits == [false; 2] => {
                        Next::Finish
                    }
                    None => Next::Wait,
                }
            }
        }
    }

    fn next_of_operation(&self, breakage: Option<Breakage>) -> Next {
        let Some(here) = self.leader.commands_through() else {
            return Next::Wait;
        };
        if self.leader.waits[here] {
            return Next::Wait;
        }
        let Some(pin) = &self.store.pin else {
            return Next::Pin;
        };
        let (present, is_here) = (self.store.id(), pin.agent == here);
        let is_present = pin.operation == present;
        let agent = &self.agents[pin.agent];
        // The agent that serves is followed, another one is asked for its record.
        let view = match (is_here, self.leader.is_ready(pin.agent)) {
            (true, _) => agent.view(&pin.operation),
            (false, true) => agent.recorded(&pin.operation),
            (false, false) => View::NoAnswer,
        };
        let ignored = breakage == Some(Breakage::PinIgnored) && !is_here;
        if is_present {
            match view {
                View::Ended(true) => return Next::Advance,
                View::Ended(false) => return Next::NewTry,
                View::Running if ignored => return Next::NewTry,
                View::Running => return Next::Wait,
                View::NoAnswer if is_here => return Next::Wait,
                View::NoAnswer | View::Unknown => {}
            }
        }
        let stands_by = self.leader.connections[pin.agent] == Connection::Ready { standby: true };
        let stands_by = stands_by || breakage == Some(Breakage::AbsenceBelieved);
        let by = match view {
            View::Unknown if proves_absence(is_here, stands_by) || ignored => {
                Some(agent_id(pin.agent, &agent.disk.version.instance))
            }
            // Its connection is lost, so that the agent that serves is asked.
            View::NoAnswer => Some(agent_id(here, &self.leader.journals[here])),
            _ => None,
        };
        if is_present && by.is_none() {
            return Next::Wait;
        }
        let here = agent_id(here, &self.leader.journals[here]);
        let seen = PinView {
            here: &here,
            operation: Some(&present),
            is_reported: false,
            unknown_to: by.as_ref(),
            pinned: match view {
                View::NoAnswer => PinnedOperation::Unknown,
                View::Unknown => PinnedOperation::recorded(None, stands_by),
                View::Running => PinnedOperation::recorded(Some(false), stands_by),
                View::Ended(_) => PinnedOperation::recorded(Some(true), stands_by),
            },
            now: time(self.time),
        };
        let pin = AgentPin {
            agent: agent_id(pin.agent, &pin.journal),
            operation: pin.operation.clone(),
            until: Some(time(pin.until)),
        };
        if pin.busy_elsewhere(&seen).is_some() && !ignored {
            Next::Wait
        } else if pin.is_lost(&seen) {
            Next::NewTry
        } else if pin.is_of(&here, &present) && pin.until > Some(time(self.time)) {
            Next::Begin
        } else {
            Next::Pin
        }
    }

    /// The controller does the next thing for its remediation.
    pub fn leads(&mut self, breakage: Option<Breakage>) {
        match self.next_of_leader(breakage) {
            Next::Wait => {}
            Next::Advance => {
                self.store.step = match self.store.step {
                    Step::Off => Step::On,
                    _ => Step::Release,
                };
                if self.store.step == Step::On {
                    self.store.operation += 1;
                }
            }
            Next::NewTry => self.store.operation += 1,
            Next::Pin => {
                if let Some(agent) = self.leader.commands_through() {
                    self.store.pin = Some(Pin {
                        agent,
                        journal: self.leader.journals[agent].clone(),
                        operation: self.store.id(),
                        until: self.time + 1,
                    });
                }
            }
            Next::Begin => {
                let until = self.store.pin.as_ref().map_or(0, |pin| pin.until);
                if let Some(agent) = self.leader.commands_through() {
                    let latest = (self.leader.starts[agent], until);
                    let request = Arc::new(self.start_request(agent));
                    self.send(agent, Call::Begin { request, latest });
                }
            }
            Next::Release(agent) => {
                let release = Release {
                    id: "release".to_owned(),
                    key: HOST.to_owned(),
                    at: host(),
                    authority: self.authority(agent),
                    owner: REMEDIATION.to_owned(),
                    force: false,
                    now: 0,
                };
                self.send(agent, Call::Release(Arc::new(release)));
            }
            Next::Finish => self.store.step = Step::Done,
        }
    }

    fn authority(&mut self, agent: usize) -> Authority {
        Authority::Controller {
            election: ELECTION.to_owned(),
            term: self.leader.term,
            holder: self.leader.holder(),
            sequence: self.leader.next_sequence(agent),
        }
    }

    fn start_request(&mut self, agent: usize) -> StartRequest {
        let action = match self.store.step {
            Step::Off => Action::Off { hold: true },
            _ => Action::On,
        };
        StartRequest {
            id: self.store.id(),
            key: HOST.to_owned(),
            host: HOST.to_owned(),
            at: host(),
            action,
            device: Device::Bmc,
            owner: REMEDIATION.to_owned(),
            authority: self.authority(agent),
            force: false,
            detail: String::new(),
            lifetime: Lifetime::default(),
            now: 0,
        }
    }

    /// Whether the time can pass until which the pinned operation may command the BMC: a command that is
    /// about to be sent is sent before.
    pub fn can_expire(&self) -> bool {
        self.store.pin.as_ref().is_some_and(|pin| {
            let process = self.agents[pin.agent].process.as_ref();
            let commands = process.is_some_and(|process| {
                let mut runs = process.runs.iter();
                runs.any(|run| run.id == pin.operation && run.phase != Phase::Waiting)
            });
            let elsewhere = self.leader.serving.is_some_and(|agent| agent != pin.agent);
            self.time < pin.until && elsewhere && !commands
        })
    }
}
