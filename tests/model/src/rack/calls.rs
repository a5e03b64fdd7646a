//! What an agent does with a call: the ledger decides, the disk has the changes, and then it answers.

use rackhand_agent_core::ledger::{
    self, Action, Arrival, Authority, Release, Sequence, StartAnswer, StartRequest, Term, Version,
};

use super::{
    agent::{Answer, Pending, is_in_time, value},
    breakage::Breakage,
    world::{Call, ELECTION, Message, REMEDIATION, Rack, Wrong},
};

impl Rack {
    /// A call arrives. `None`: the answer follows once the journal has decided.
    pub fn arrives(&mut self, message: Message, breakage: Option<Breakage>) -> Option<Answer> {
        let to = message.to;
        if self.agents[to].process.is_none() {
            return Some(Answer::Failed);
        }
        match message.call {
            Call::Claim { term, known } => {
                Some(self.claim(to, term, &known, message.awaited, breakage))
            }
            Call::Begin { request, latest } => {
                let (start, until) = latest;
                let until = (breakage != Some(Breakage::LateTaken)).then_some(until);
                let is_same = start == self.agents[to].starts;
                if !is_in_time(until, self.time) || (until.is_some() && !is_same) {
                    return Some(Answer::Refused);
                }
                let pending = Pending {
                    request,
                    until,
                    awaited: message.awaited,
                };
                let process = self.agent(to).process.as_mut()?;
                process.pending.push(pending);
                None
            }
            Call::Release(release) => Some(self.release(to, &release)),
        }
    }

    fn claim(
        &mut self,
        to: usize,
        term: Term,
        known: &[Version],
        awaited: bool,
        breakage: Option<Breakage>,
    ) -> Answer {
        let agent = self.agent(to);
        let seen = known.iter().map(|v| (v.instance.as_str(), v.generation));
        let newer = ledger::newer_copy(&agent.disk.version, seen);
        if let Some(generation) = newer.filter(|_| breakage != Some(Breakage::CopyTrusted)) {
            agent.note = Version {
                generation,
                ..agent.disk.version.clone()
            };
            agent.history.undetected = false;
            agent.crash();
            return Answer::Failed;
        }
        if newer.is_some() {
            agent.history.undetected = false;
        }
        let Some(process) = agent.process.as_mut().filter(|process| !process.failed) else {
            return Answer::Failed;
        };
        let mut term = term;
        if breakage == Some(Breakage::ClaimsUnordered) {
            term.sequence = 0;
        }
        match process.claims.arrives(ELECTION, &term) {
            Arrival::Late => return Answer::Failed,
            Arrival::Known => return Answer::Done,
            Arrival::New => {}
        }
        if agent.full {
            process.failed = true;
            return Answer::Failed;
        }
        let (number, ledger) = (term.number, &*agent.disk.ledger);
        let (claimed, changes) = value(ledger::claim(ledger, ELECTION, term.clone()));
        match claimed {
            Ok(_) => {
                agent.disk.commit(changes);
                agent.history.claimed = agent.history.claimed.max(number);
                // The work for a call that nobody waits for ends with its connection.
                if awaited {
                    process.claims.written(ELECTION, &term);
                }
                Answer::Done
            }
            Err(known) => {
                process.claims.refused(ELECTION, &term);
                Answer::Higher(known.number)
            }
        }
    }

    fn release(&mut self, to: usize, release: &Release) -> Answer {
        let agent = self.agent(to);
        let (released, changes) = value(release.decide(&*agent.disk.ledger));
        let Some(process) = agent.process.as_mut() else {
            return Answer::Failed;
        };
        if agent.full || process.failed {
            process.failed = true;
            return Answer::Failed;
        }
        match released {
            Ok(_) => {
                agent.disk.commit(changes);
                Answer::Done
            }
            Err(_) => Answer::Refused,
        }
    }

    /// The journal decides about a request to begin an operation.
    pub fn accept(&mut self, at: usize, which: usize, breakage: Option<Breakage>) {
        let now = self.time;
        let agent = self.agent(at);
        let Some(process) = agent.process.as_mut() else {
            return;
        };
        let Pending {
            request: start_request,
            until,
            awaited,
        } = process.pending.remove(which);
        let unwritten = breakage == Some(Breakage::AnsweredEarly);
        if process.failed || (agent.full && !unwritten) {
            process.failed = true;
            if awaited {
                self.answered(at, &Answer::Failed);
            }
            return;
        }
        let mut asked = (*start_request).clone();
        if let Some(breakage) = breakage {
            breakage.request(&mut asked, &agent.disk.ledger);
        }
        asked.now = now;
        let mut holds = agent.disk.ledger.holds.values();
        let held = holds.any(|hold| hold.owner == REMEDIATION);
        let (accepted, changes) = value(asked.decide(&*agent.disk.ledger));
        let answer = match accepted {
            StartAnswer::Known(_) => Answer::Done,
            StartAnswer::Refused(_) => Answer::Refused,
            StartAnswer::Started { .. } => {
                if unwritten {
                    process.promised.extend(changes);
                } else {
                    agent.disk.commit(changes);
                }
                self.check_start(at, &start_request, held);
                self.start_run(at, &start_request, until);
                Answer::Done
            }
        };
        let is_written = self.agents[at]
            .disk
            .ledger
            .operations
            .contains_key(&start_request.id);
        if answer == Answer::Done && !is_written {
            self.broken(Wrong::Unwritten);
        }
        if awaited {
            self.answered(at, &answer);
        }
    }

    /// Writes what was answered already: only with a breakage.
    pub fn keep_promises(&mut self, at: usize) {
        let agent = self.agent(at);
        if let Some(process) = agent.process.as_mut()
            && !agent.full
        {
            agent.disk.commit(std::mem::take(&mut process.promised));
        }
    }

    fn check_start(&mut self, at: usize, start_request: &StartRequest, held: bool) {
        let Authority::Controller { term, sequence, .. } = start_request.authority else {
            if held && start_request.action == Action::On && !start_request.force {
                self.broken(Wrong::Held);
            }
            return;
        };
        let history = &mut self.agent(at).history;
        let sent = Sequence { term, sequence };
        let (older, repeated) = (term < history.claimed, history.taken >= Some(sent));
        history.taken = Some(sent);
        if history.undetected {
            return;
        }
        if older {
            self.broken(Wrong::Term);
        }
        if repeated {
            self.broken(Wrong::Sequence);
        }
    }
}
