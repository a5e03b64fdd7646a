//! The journals that an agent has shown, with how much stood in them.
//!
//! An agent whose journal was restored from a backup or a snapshot shows an instance that is known, and
//! less of it. It is told what was seen, and gives itself another instance (F12).

use kube::api::DynamicObject;
use rackhand_api::kinds::rack_agent::{RackAgentStatus, SeenJournal};
use rackhand_proto::v1;

/// So many instances are remembered for each agent.
const KEPT: usize = 8;

/// The one seen last stands last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenJournals(Vec<SeenJournal>);

impl SeenJournals {
    /// Those that the status of a RackAgent tells.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let status = object.data.get("status").cloned().unwrap_or_default();
        let status: RackAgentStatus = serde_json::from_value(status).unwrap_or_default();
        Self(status.journals)
    }

    /// Takes up what an answer says.
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

    /// Takes up what another list says.
    pub(super) fn merge(&mut self, other: &Self) {
        for journal in other.to_proto() {
            self.see(Some(&journal));
        }
    }

    /// As an agent is told.
    pub(super) fn to_proto(&self) -> Vec<v1::Journal> {
        let journals = self.0.iter().map(|journal| v1::Journal {
            instance: journal.instance.clone(),
            generation: u64::try_from(journal.generation).unwrap_or(0),
            ..v1::Journal::default()
        });
        journals.collect()
    }

    /// As the status shows them.
    pub(super) fn shown(&self) -> &[SeenJournal] {
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
    fn f12_the_highest_generation_of_each_journal_is_remembered() {
        let mut seen = SeenJournals::default();
        // An older copy is told what was seen, also after another journal.
        for (instance, generation) in [("a", 3), ("a", 9), ("a", 4), ("b", 1), ("a", 4)] {
            seen.see(Some(&journal(instance, generation)));
        }
        seen.see(None);
        seen.see(Some(&journal("", 7)));
        assert_eq!(seen.to_proto(), [journal("b", 1), journal("a", 9)]);
        for n in 0..20 {
            seen.see(Some(&journal(&n.to_string(), n)));
        }
        assert_eq!(seen.shown().len(), KEPT);
    }

    #[test]
    fn f12_a_new_leader_knows_them_from_the_status() {
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
