//! The inputs of the last decision of each running remediation and the views of ended ones, for explanations.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rackhand_core::explanation::{RemediationFacts, RemediationView, explain_remediation};

use crate::{
    history::History, hosts::topology::Topologies, shared_causes::SharedCauses,
    store::remediation::RemediationId,
};

/// The facts of every remediation that runs in this process, the history of steps, the causes that
/// failed hosts share, and where hosts are by their BMCs.
#[derive(Default)]
pub(crate) struct LiveFacts {
    facts: Mutex<BTreeMap<RemediationId, Arc<RemediationFacts>>>,
    /// The last view of each remediation that has ended, until its object is deleted.
    ended: Mutex<BTreeMap<RemediationId, RemediationView>>,
    pub(crate) history: Arc<History>,
    pub(crate) causes: Arc<SharedCauses>,
    pub(crate) topologies: Arc<Topologies>,
}

impl LiveFacts {
    /// The view of a remediation for a time of the engine's clock, with times of the wall clock, which is `ahead`
    /// of it; `None` if no decision about it was made in this process.
    pub(crate) fn view(
        &self,
        id: &RemediationId,
        now: Timestamp,
        ahead: SignedDuration,
    ) -> Option<RemediationView> {
        let facts = self.facts.lock().get(id).cloned();
        match facts {
            Some(facts) => Some(explain_remediation(&facts, now, ahead)),
            None => self.ended.lock().get(id).cloned(),
        }
    }

    /// The facts of every remediation.
    pub(crate) fn all(&self) -> Vec<Arc<RemediationFacts>> {
        self.facts.lock().values().cloned().collect()
    }

    pub(super) fn put(&self, id: &RemediationId, facts: RemediationFacts) {
        self.facts.lock().insert(id.clone(), Arc::new(facts));
    }

    /// Keeps the last view of a remediation that has ended.
    pub(super) fn end(&self, id: &RemediationId, now: Timestamp, ahead: SignedDuration) {
        let facts = self.facts.lock().remove(id);
        if let Some(facts) = facts {
            let view = explain_remediation(&facts, now, ahead);
            self.ended.lock().insert(id.clone(), view);
        }
    }

    pub(super) fn remove(&self, id: &RemediationId) {
        self.facts.lock().remove(id);
        self.ended.lock().remove(id);
    }
}
