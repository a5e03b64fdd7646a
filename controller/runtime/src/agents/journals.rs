//! The journals that an agent has reported, and the highest generation of each.
//!
//! An agent whose journal was restored from a backup or a snapshot reports a known instance with a lower
//! generation. The claim of a term sends it the known journals, so that it gives itself a new instance (F12).

use kube::api::DynamicObject;
use rackhand_api::kinds::rack_agent::{RackAgentStatus, SeenJournal};
use rackhand_proto::v1;

/// Number of instances remembered for each agent.
const KEPT: usize = 8;

/// The journals, ordered by the time of their last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenJournals(Vec<SeenJournal>);

impl SeenJournals {
    /// Parses the status of a RackAgent.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let status = object.data.get("status").cloned().unwrap_or_default();
        let status: RackAgentStatus = serde_json::from_value(status).unwrap_or_default();
        Self(status.journals)
    }

    /// Records the journal of a response.
    pub(super) fn see(&mut self, journal: Option<&v1::Journal>) {
        let Some(journal) = journal.filter(|journal| !journal.instance.is_empty()) else {
            return;
        };
        let generation = i64::try_from(journal.generation).unwrap_or(i64::MAX);
        let known = self.0.iter().position(|j| j.instance == journal.instance);
        let highest = known.map_or(0, |at| self.0.remove(at).generation);
        self.0.push(SeenJournal {
            instance: journal.instance.clone(),
            generation: highest.max(generation),
        });
        if self.0.len() > KEPT {
            self.0.remove(0);
        }
    }

    /// Records the journals of another list.
    pub(super) fn merge(&mut self, other: &Self) {
        for journal in other.to_proto() {
            self.see(Some(&journal));
        }
    }

    /// Converts the journals for a request to an agent.
    pub(super) fn to_proto(&self) -> Vec<v1::Journal> {
        let journals = self.0.iter().map(|journal| v1::Journal {
            instance: journal.instance.clone(),
            generation: u64::try_from(journal.generation).unwrap_or(0),
            ..v1::Journal::default()
        });
        journals.collect()
    }

    /// The journals for the status of the RackAgent.
    pub(super) fn as_slice(&self) -> &[SeenJournal] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(instance: &str, generation: u64) -> v1::Journal {
        v1::Journal {
            instance: instance.into(),
            generation,
            ..v1::Journal::default()
        }
    }

    #[test]
    fn f12_highest_generation_of_each_journal_is_kept() {
        let mut seen = SeenJournals::default();
        // A lower generation than the highest is ignored, also after a report of another journal.
        for (instance, generation) in [("a", 3), ("a", 9), ("a", 4), ("b", 1), ("a", 4)] {
            seen.see(Some(&journal(instance, generation)));
        }
        seen.see(None);
        seen.see(Some(&journal("", 7)));
        assert_eq!(seen.to_proto(), [journal("b", 1), journal("a", 9)]);
        for n in 0..20 {
            seen.see(Some(&journal(&n.to_string(), n)));
        }
        assert_eq!(seen.as_slice().len(), KEPT);
    }

    #[test]
    fn f12_new_leader_reads_seen_journals_from_rack_agent_status() {
        let object: DynamicObject = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "r1"},
            "status": {"journals": [{"instance": "a", "generation": 7}]},
        }))
        .unwrap();
        let mut seen = SeenJournals::of(&object);
        assert_eq!(seen.to_proto(), [journal("a", 7)]);
        let mut newer = SeenJournals::default();
        newer.see(Some(&journal("a", 12)));
        seen.merge(&newer);
        assert_eq!(seen.to_proto(), [journal("a", 12)]);
    }
}
