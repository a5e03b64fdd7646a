//! The operations of an agent: each waits for its turn, writes down that it sends its command, sends it,
//! and ends.

use std::{sync::Arc, time::Duration};

use rackhand_agent_core::{
    bmc_queue::OperationRank,
    ledger::{self, Action, Authority, RecordedOutcome, Retention, StartRequest},
};

use super::{
    agent::{Agent, End, Ledger, Phase, Run, is_in_time, value},
    breakage::Breakage,
    world::{HOST, REMEDIATION, Rack, Wrong},
};

/// The finished operations that a journal keeps: of a controller no more than it still asks for, so that the
/// journal forgets. Production keeps so many that those of an operator do not displace it.
fn kept(ledger: &Ledger) -> Retention {
    let operations = ledger.operations.values();
    let of_operator = operations.filter(|op| op.election.is_empty()).count();
    Retention {
        operations: 1 + u64::try_from(of_operator).unwrap_or(u64::MAX - 1),
        age: Duration::MAX,
    }
}

impl Rack {
    /// Starts an operation, and ends those that it overtakes.
    pub fn start_run(&mut self, at: usize, start_request: &StartRequest, until: Option<i64>) {
        let agent = self.agent(at);
        let is_new = agent.history.started.insert(start_request.id.clone());
        let Some(process) = agent.process.as_mut() else {
            return;
        };
        let rank = OperationRank::of(start_request.action);
        let (number, overtaken) = process.queue.join(HOST, rank);
        for run in &mut process.runs {
            run.cancelled |= overtaken.contains(&run.number);
        }
        process.runs.push(Run {
            id: start_request.id.clone(),
            action: start_request.action,
            of_controller: matches!(start_request.authority, Authority::Controller { .. }),
            until,
            force: start_request.force,
            number,
            phase: Phase::Waiting,
            cancelled: false,
            is_attended: start_request.lifetime.is_attended,
            is_half: false,
        });
        if !is_new {
            self.broken(Wrong::Repeated);
        }
    }

    /// Whether an operation has something to do now.
    pub fn can_act(&self, at: usize, run: &Run, breakage: Option<Breakage>) -> bool {
        let Some(process) = &self.agents[at].process else {
            return false;
        };
        run.phase != Phase::Waiting
            || run.cancelled
            || breakage == Some(Breakage::QueueIgnored)
            || process.queue.has_turn(HOST, run.number)
    }

    /// An operation does its next act.
    pub fn acts(&mut self, at: usize, which: usize, breakage: Option<Breakage>) {
        let now = self.time;
        let caller_gone = self.caller_gone;
        let agent = self.agent(at);
        let Some(process) = agent.process.as_mut() else {
            return;
        };
        let run = &mut process.runs[which];
        let in_time = is_in_time(run.until, now);
        // As `rackhand_bmc::operation` decides: no further power-off, and a cycle goes on to its power-on.
        let is_abandoned = match breakage {
            Some(Breakage::CallerIgnored) => false,
            Some(Breakage::CycleAbandoned) => run.is_attended && caller_gone,
            _ => run.is_attended && caller_gone && !run.is_half,
        };
        match run.phase {
            Phase::Waiting | Phase::Sending if is_abandoned => self.end(at, which, End::Cancelled),
            Phase::Waiting if run.cancelled => self.end(at, which, End::Cancelled),
            // The operation has a deadline of its own, which is before that time.
            Phase::Waiting if !in_time => self.end(at, which, End::NotSent),
            Phase::Waiting => {
                if matches!(run.action, Action::Off { .. }) {
                    process.queue.hold_turn(HOST, run.number);
                }
                if agent.full || process.failed {
                    process.failed = true;
                    return self.end(at, which, End::NotSent);
                }
                run.phase = Phase::Sending;
                let change = value(ledger::sending(&*agent.disk.ledger, &run.id, now));
                agent.disk.commit(change);
            }
            Phase::Sending => {
                let before = run.clone();
                let is_first_half = run.action == Action::Cycle && !run.is_half;
                run.phase = match is_first_half {
                    true => Phase::Waiting,
                    false => Phase::Sent,
                };
                run.is_half |= is_first_half;
                let run = before;
                self.check_command(at, &run);
                let is_off = matches!(run.action, Action::Off { .. }) && !run.of_controller;
                self.off_by_hand = is_off && !run.cancelled;
                self.on = match run.action {
                    Action::Off { .. } | Action::SoftOff => false,
                    Action::Cycle => run.is_half,
                    Action::On => true,
                    Action::Reset | Action::Nmi => self.on,
                };
            }
            Phase::Sent => self.end(at, which, End::Confirmed),
        }
    }

    fn check_command(&mut self, at: usize, run: &Run) {
        let commands = |agent: &Agent, of_controller: bool| {
            let process = agent.process.as_ref();
            process.map_or(0, |process| {
                let runs = process.runs.iter();
                let active = runs.filter(|run| run.phase != Phase::Waiting);
                active.filter(|r| !of_controller || r.of_controller).count()
            })
        };
        if commands(&self.agents[at], false) > 1 {
            self.broken(Wrong::TwoOperations);
        }
        if run.of_controller && commands(&self.agents[1 - at], true) > 0 {
            self.broken(Wrong::TwoAgents);
        }
        if run.of_controller && run.id != self.store.id() {
            self.broken(Wrong::Stale);
        }
        let ledger = &self.agents[at].disk.ledger;
        let held = ledger.holds.values().any(|hold| hold.owner == REMEDIATION);
        let is_written = ledger.operations.contains_key(&run.id);
        if run.action == Action::On && !run.of_controller && !run.force && held && !run.cancelled {
            self.broken(Wrong::Held);
        }
        if !is_written {
            self.broken(Wrong::Unwritten);
        }
        let switches_off = match run.action {
            Action::Off { .. } | Action::SoftOff => true,
            Action::Cycle => !run.is_half,
            Action::On | Action::Reset | Action::Nmi => false,
        };
        if run.is_attended && self.caller_gone && switches_off {
            self.broken(Wrong::CallerGone);
        }
    }

    fn end(&mut self, at: usize, which: usize, end: End) {
        let now = self.time;
        let agent = self.agent(at);
        let Some(process) = agent.process.as_mut() else {
            return;
        };
        let run = process.runs.remove(which);
        process.queue.leave(HOST, run.number);
        process.ended.insert(run.id.clone(), end);
        if agent.full || process.failed {
            process.failed = true;
            process.unwritten.insert(run.id, (now, end));
            return;
        }
        let ledger = &*agent.disk.ledger;
        let finished = value(ledger::finish(
            ledger,
            &run.id,
            now,
            RecordedOutcome::Reported(end),
        ));
        let ledger = Arc::make_mut(&mut agent.disk.ledger);
        ledger.apply(finished);
        let pruned = value(ledger::prune(ledger, now, kept(ledger)));
        agent.disk.commit(pruned);
    }
}
