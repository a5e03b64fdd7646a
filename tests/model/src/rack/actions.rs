//! What can happen next in the rack, and what it does.

use std::sync::Arc;

use super::{
    agent::{Answer, Ledger, Process},
    breakage::Breakage,
    operator,
    world::{Call, Manual, Message, Rack, Step},
};

/// A fault; each costs one of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// A call is lost, and the controller learns that it failed.
    Lost,
    /// A call has its effect, and the controller learns that it failed.
    AnswerLost,
    /// The controller gives a call up, and it arrives at any later time.
    Late,
    /// A call arrives a second time, at any later time.
    Twice,
    /// Another controller takes over; calls of the first one may still arrive.
    Takeover,
    /// An agent is killed.
    Crash,
    /// The disk of an agent is full, until there is space again.
    Full,
    /// The journal of an agent is lost.
    JournalLost,
    /// The journal of an agent is replaced by an older copy of it.
    Restored,
    /// The same, and the note beside it is replaced by that of the same time.
    RestoredWithNote,
    /// The process of the operator ends, and its lease with it.
    CallerGone,
}

/// All faults of a rack without an operator.
pub const FAULTS: [Fault; 10] = [
    Fault::Lost,
    Fault::AnswerLost,
    Fault::Late,
    Fault::Twice,
    Fault::Takeover,
    Fault::Crash,
    Fault::Full,
    Fault::JournalLost,
    Fault::Restored,
    Fault::RestoredWithNote,
];

/// The faults that replace a journal by a copy.
const RESTORES: [Fault; 2] = [Fault::Restored, Fault::RestoredWithNote];

/// Everything that can happen. The first number is that of an agent, or of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The controller claims its term.
    Probe(usize),
    /// The controller does the next thing for its remediation.
    Lead,
    /// A call arrives.
    Arrive(usize),
    /// The journal of an agent decides about a request to begin an operation.
    Accept(usize, usize),
    /// The journal writes what was answered already: only with a breakage.
    Write(usize),
    /// An operation does its next act.
    Act(usize, usize),
    /// The time has passed until which an operation may command the BMC.
    Expire,
    /// An agent that was killed starts.
    Start(usize),
    /// The disk of an agent has space again, and its journal is opened anew.
    Reopen(usize),
    /// Somebody copies the journal of an agent.
    Copy(usize),
    /// The operator asks for something.
    Ask(Manual),
    /// Something goes wrong, at this agent or with this call.
    Fault(Fault, usize),
}

impl Rack {
    /// Everything that can happen now.
    pub fn enabled(&self, faults: &[Fault], breakage: Option<Breakage>) -> Vec<Action> {
        let mut all = Vec::new();
        if self.wrong.is_some() {
            return all;
        }
        let calls = 0..self.network.len();
        all.extend((0..2).filter(|a| self.must_probe(*a)).map(Action::Probe));
        if self.can_lead(breakage) {
            all.push(Action::Lead);
        }
        all.extend(calls.clone().map(Action::Arrive));
        for (at, agent) in self.agents.iter().enumerate() {
            let Some(process) = &agent.process else {
                all.push(Action::Start(at));
                continue;
            };
            all.extend((0..process.pending.len()).map(|which| Action::Accept(at, which)));
            let runs = process.runs.iter().enumerate();
            let ready = runs.filter(|(_, run)| self.can_act(at, run, breakage));
            all.extend(ready.map(|(which, _)| Action::Act(at, which)));
            if agent.full || process.failed {
                all.push(Action::Reopen(at));
            }
            if !process.promised.is_empty() {
                all.push(Action::Write(at));
            }
        }
        if self.can_expire() {
            all.push(Action::Expire);
        }
        let is_up = self.agents[operator::AGENT].process.is_some();
        all.extend(
            self.operator
                .iter()
                .filter(|_| is_up)
                .map(|m| Action::Ask(*m)),
        );
        if self.budget > 0 {
            let is_restore = |fault: &&Fault| RESTORES.contains(fault);
            let is_copied = self.agents.iter().any(|agent| agent.copy.is_some());
            if faults.iter().any(|fault| is_restore(&fault)) && !is_copied {
                let copied = (0..2).filter(|at| self.can_copy(*at));
                all.extend(copied.map(Action::Copy));
            }
            // Runs that do not restore the copy are those without it.
            let due = is_copied && self.budget == 1;
            for fault in faults.iter().filter(|fault| !due || is_restore(fault)) {
                let at = match fault {
                    Fault::Lost | Fault::AnswerLost | Fault::Late | Fault::Twice => calls.clone(),
                    Fault::Takeover | Fault::CallerGone => 0..1,
                    Fault::Crash | Fault::Full | Fault::JournalLost => 0..2,
                    Fault::Restored | Fault::RestoredWithNote => 0..2,
                };
                let at = at.filter(|at| self.can_fail(*fault, *at));
                all.extend(at.map(|at| Action::Fault(*fault, at)));
            }
        }
        all
    }

    fn can_copy(&self, at: usize) -> bool {
        let process = self.agents[at].process.as_ref();
        process.is_some_and(Process::is_idle)
    }

    fn can_fail(&self, fault: Fault, at: usize) -> bool {
        let over = self.store.step == Step::Done;
        match fault {
            Fault::Lost | Fault::AnswerLost | Fault::Late => self.network[at].awaited,
            Fault::Twice => true,
            Fault::Takeover => !over,
            Fault::CallerGone => self.is_attended(),
            Fault::Crash => {
                let process = self.agents[at].process.as_ref();
                process.is_some_and(|process| !process.is_idle())
            }
            Fault::Full => !self.agents[at].full && self.agents[at].process.is_some() && !over,
            Fault::JournalLost => *self.agents[at].disk.ledger != Ledger::default(),
            Fault::Restored | Fault::RestoredWithNote => {
                let agent = &self.agents[at];
                let copy = agent.copy.as_ref();
                copy.is_some_and(|copy| copy.version != agent.disk.version)
            }
        }
    }

    /// The rack after an action.
    #[must_use]
    pub fn next(&self, action: Action, breakage: Option<Breakage>) -> Self {
        let mut rack = self.clone();
        match action {
            Action::Probe(agent) => rack.probes(agent),
            Action::Lead => rack.leads(breakage),
            Action::Arrive(which) => {
                let message = rack.network.remove(which);
                rack.delivers(message, breakage);
            }
            Action::Accept(at, which) => rack.accept(at, which, breakage),
            Action::Write(at) => rack.keep_promises(at),
            Action::Act(at, which) => rack.acts(at, which, breakage),
            Action::Expire => rack.time += 1,
            Action::Start(at) => rack.starts(at, breakage),
            Action::Reopen(at) => {
                rack.agent(at).full = false;
                rack.reopen(at);
            }
            Action::Copy(at) => {
                let agent = rack.agent(at);
                agent.copy = Some(Arc::new(agent.disk.clone()));
            }
            Action::Ask(manual) => rack.asks(manual),
            Action::Fault(fault, at) => {
                rack.budget -= 1;
                rack.fails(fault, at, breakage);
            }
        }
        rack
    }

    /// A call arrives, and its answer where it is awaited.
    fn delivers(&mut self, message: Message, breakage: Option<Breakage>) {
        let (to, awaited) = (message.to, message.awaited);
        let standby = match &message.call {
            Call::Claim { term, .. } => Some(term.standby),
            Call::Begin { .. } | Call::Release(_) => None,
        };
        let answer = self.arrives(message, breakage);
        if let Some(answer) = answer.filter(|_| awaited) {
            match standby {
                Some(standby) => self.claim_answered(to, standby, &answer),
                None => self.answered(to, &answer),
            }
        }
    }

    fn fails(&mut self, fault: Fault, at: usize, breakage: Option<Breakage>) {
        match fault {
            Fault::Lost => {
                let lost = self.network.remove(at);
                self.answered(lost.to, &Answer::Failed);
            }
            Fault::AnswerLost => {
                let mut message = self.network.remove(at);
                message.awaited = false;
                let to = message.to;
                self.delivers(message, breakage);
                self.answered(to, &Answer::Failed);
            }
            Fault::Late => {
                self.network[at].awaited = false;
                let to = self.network[at].to;
                self.answered(to, &Answer::Failed);
            }
            Fault::Twice => {
                let mut again = self.network[at].clone();
                again.awaited = false;
                self.network.push(again);
            }
            Fault::Takeover => self.takes_over(),
            Fault::CallerGone => self.caller_gone = true,
            Fault::Crash => self.agent(at).crash(),
            Fault::Full => self.agent(at).full = true,
            Fault::JournalLost => self.loses_journal(at),
            Fault::Restored => self.restores(at, false),
            Fault::RestoredWithNote => self.restores(at, true),
        }
        if matches!(
            fault,
            Fault::Crash | Fault::JournalLost | Fault::Restored | Fault::RestoredWithNote
        ) {
            self.hangs_up(at);
        }
    }

    /// Connections end with the process of an agent, and with them the calls on their way. A controller
    /// that was deposed may still send its call, on a new one.
    fn hangs_up(&mut self, agent: usize) {
        let term = self.leader.term;
        self.network
            .retain(|message| message.to != agent || message.term() < term);
        if self.leader.waits[agent] {
            self.answered(agent, &Answer::Failed);
        }
    }
}
