//! What the journals of the agents hold, which each agent tells when it is asked.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use tokio::sync::mpsc;

use super::HostId;
use crate::kernel::{ProcessId, World};

/// The hosts that a journal holds, with the owners of the holds.
type Holds = Result<Vec<(String, String)>, String>;

struct Journal {
    process: ProcessId,
    dir: PathBuf,
    /// When it was last lost.
    lost: Option<Duration>,
    asks: mpsc::UnboundedSender<()>,
    /// The answer since it was last asked.
    answer: Option<Holds>,
}

/// The journals of all agents, by their names.
#[derive(Default)]
pub(crate) struct Journals(BTreeMap<String, Journal>);

impl Journals {
    /// An agent has started; it answers whenever something is received.
    pub(crate) fn open(
        &mut self,
        agent: &str,
        process: ProcessId,
        dir: PathBuf,
    ) -> mpsc::UnboundedReceiver<()> {
        let (asks, asked) = mpsc::unbounded_channel();
        let lost = self.0.get(agent).and_then(|journal| journal.lost);
        let journal = Journal {
            process,
            dir,
            lost,
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

/// How often the holds of a host are asked for.
const LOOK: Duration = Duration::from_secs(15);
/// How long agents have to tell what their journals hold.
const ANSWER: Duration = Duration::from_secs(1);

impl World {
    /// An agent has lost its journal, by a fault that the oracle knows.
    pub(crate) fn note_lost_journal(&mut self, process: ProcessId) {
        let now = self.now();
        for journal in self.fleet.journals.0.values_mut() {
            if journal.process == process {
                journal.lost = Some(now);
            }
        }
    }

    /// The agents of a rack end and lose their journals.
    pub(crate) fn lose_journals(&mut self, rack: usize) {
        for name in self.fleet.spec.agents(rack) {
            let Some(journal) = self.fleet.journals.0.get(&name) else {
                continue;
            };
            let (process, dir) = (journal.process, journal.dir.clone());
            self.kill(process);
            // After the process has ended, before it starts again.
            self.after(Duration::from_millis(100), move |_| {
                std::fs::remove_dir_all(dir).ok();
            });
        }
    }

    /// F4: as long as a host is tainted and not drained, a journal of its rack holds it, so that nobody
    /// switches it on through an agent.
    pub(crate) fn judge_holds(&mut self, id: HostId) {
        if !self.must_stay_off(id) {
            return;
        }
        for name in self.fleet.spec.agents(self.fleet.host(id).rack) {
            let Some(journal) = self.fleet.journals.0.get_mut(&name) else {
                continue;
            };
            journal.answer = None;
            journal.asks.send(()).ok();
            let process = journal.process;
            self.wake(process, None);
        }
        self.after(ANSWER, move |world| world.judge_answered_holds(id));
    }

    fn judge_answered_holds(&mut self, id: HostId) {
        if !self.must_stay_off(id) {
            return;
        }
        self.after(LOOK, move |world| world.judge_holds(id));
        let host = self.fleet.host(id);
        let (name, rack, off) = (host.name.clone(), host.rack, host.last_off);
        let agents = self.fleet.spec.agents(rack).into_iter();
        let mut unheld = true;
        for agent in agents {
            let Some(journal) = self.fleet.journals.0.get(&agent) else {
                return;
            };
            // What is not known, or lost by a fault, is not judged.
            let (None, Some(Ok(holds))) = (journal.lost.filter(|at| *at >= off), &journal.answer)
            else {
                return;
            };
            let is_host = |held: &str| held.rsplit('/').next() == Some(&*name);
            unheld &= !holds.iter().any(|(held, _)| is_host(held));
        }
        if unheld {
            self.violate(format!(
                "F4: no agent of rack {rack} holds {name}, which is tainted and not drained"
            ));
        }
    }

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
