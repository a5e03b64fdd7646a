//! What the journals of the agents hold, which each agent tells when it is asked.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use crate::kernel::{ProcessId, World};

/// The hosts that a journal holds, with the owners of the holds.
type Holds = Result<Vec<(String, String)>, String>;

struct Journal {
    process: ProcessId,
    asks: mpsc::UnboundedSender<()>,
    /// The answer since it was last asked.
    answer: Option<Holds>,
}

/// The journals of all agents, by their names.
#[derive(Default)]
pub(crate) struct Journals(BTreeMap<String, Journal>);

impl Journals {
    /// An agent has started; it answers whenever something is received.
    pub(crate) fn open(&mut self, agent: &str, process: ProcessId) -> mpsc::UnboundedReceiver<()> {
        let (asks, asked) = mpsc::unbounded_channel();
        let journal = Journal {
            process,
            asks,
            answer: None,
        };
        self.0.insert(agent.to_owned(), journal);
        asked
    }

    pub(crate) fn answer(&mut self, agent: &str, holds: Holds) {
        if let Some(journal) = self.0.get_mut(agent) {
            journal.answer = Some(holds);
        }
    }

    /// What is left in the journals, and which agents have not answered.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (agent, journal) in &self.0 {
            match &journal.answer {
                None => left.push(format!("agent {agent} does not tell what it holds")),
                Some(Err(error)) => left.push(format!("journal of agent {agent}: {error}")),
                Some(Ok(holds)) => left.extend(
                    holds
                        .iter()
                        .map(|(host, owner)| format!("agent {agent} holds {host} for {owner}")),
                ),
            }
        }
        left
    }
}

impl World {
    /// Asks every agent what it holds; they answer at once where they run.
    pub(crate) fn ask_journals(&mut self) {
        let mut asked = Vec::new();
        for journal in self.fleet.journals.0.values_mut() {
            journal.answer = None;
            journal.asks.send(()).ok();
            asked.push(journal.process);
        }
        for process in asked {
            self.wake(process, None);
        }
    }
}
