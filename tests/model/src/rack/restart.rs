//! How an agent starts, how its journal is opened again, and how it gets another one.

use rackhand_agent_core::ledger::{self, Action, StartAnswer};

use super::{
    agent::{Disk, History, Process, value},
    breakage::Breakage,
    world::Rack,
};

impl Rack {
    /// The journal is opened again after an error.
    pub fn reopen(&mut self, at: usize) {
        let now = self.time;
        let agent = self.agent(at);
        let Some(process) = agent.process.as_mut() else {
            return;
        };
        let is_live = |id: &str| process.runs.iter().any(|run| run.id == id);
        let ledger = &*agent.disk.ledger;
        let settled = value(ledger::settle(ledger, is_live, &process.unwritten, now));
        agent.disk.commit(settled);
        process.unwritten.clear();
        process.failed = false;
    }

    /// The agent starts with what is on its disk.
    pub fn starts(&mut self, at: usize, breakage: Option<Breakage>) {
        let now = self.time;
        let agent = &self.agents[at];
        let is_copy = ledger::starts_anew(&agent.disk.version, Some(&agent.note));
        if is_copy {
            self.agent(at).history.undetected = false;
        }
        if is_copy && breakage != Some(Breakage::CopyTrusted) {
            let fresh = self.new_journal();
            self.agent(at).disk.version.instance = fresh;
        }
        let agent = self.agent(at);
        let (ids, mut changes) = value(ledger::interrupt_running(&*agent.disk.ledger, now));
        if is_copy && breakage != Some(Breakage::CopyTrusted) {
            changes.extend(value(ledger::disown_terms(&*agent.disk.ledger)));
        }
        let repeats = breakage == Some(Breakage::InterruptedRepeated);
        if repeats {
            changes.clear();
        }
        agent.disk.commit(changes);
        agent.note = agent.disk.version.clone();
        agent.process = Some(Process::default());
        agent.starts += 1;
        if repeats {
            for id in ids {
                self.repeat(at, &id);
            }
        } else if breakage != Some(Breakage::CycleLeftOff) {
            self.finish_cycles(at, &ids);
        }
    }

    /// Begins the power-ons that interrupted cycles leave to do.
    fn finish_cycles(&mut self, at: usize, interrupted: &[String]) {
        let ledger = &*self.agents[at].disk.ledger;
        for owed in value(ledger::owed_power_ons(ledger, interrupted)) {
            let start_request = super::operator::request(&owed.id, Action::On, false);
            let agent = self.agent(at);
            let (accepted, changes) = value(start_request.clone().decide(&*agent.disk.ledger));
            if matches!(accepted, StartAnswer::Started { .. }) {
                agent.disk.commit(changes);
                self.start_run(at, &start_request, None);
            }
        }
    }

    /// Starts an interrupted operation again: only with a breakage.
    fn repeat(&mut self, at: usize, id: &str) {
        let Some(known) = self.agents[at].disk.ledger.operations.get(id) else {
            return;
        };
        let action = match known.action.as_str() {
            "on" => Action::On,
            "reset" => Action::Reset,
            _ => Action::Off { hold: true },
        };
        let start_request = super::operator::request(id, action, known.force);
        self.start_run(at, &start_request, None);
    }

    /// The journal is lost: the agent ends, and starts with an empty one.
    pub fn loses_journal(&mut self, at: usize) {
        let fresh = self.new_journal();
        let agent = self.agent(at);
        agent.crash();
        agent.disk = Disk::new(&fresh);
        agent.note = agent.disk.version.clone();
        agent.history = History::default();
    }

    /// The agent ends, and an older copy takes the place of its journal, with the note beside it or
    /// without.
    pub fn restores(&mut self, at: usize, with_note: bool) {
        let agent = self.agent(at);
        agent.crash();
        if let Some(copy) = agent.copy.take() {
            if with_note {
                agent.note = copy.version.clone();
            }
            agent.disk = Disk::clone(&copy);
            agent.history.undetected = true;
            agent.history.started.clear();
        }
    }
}
