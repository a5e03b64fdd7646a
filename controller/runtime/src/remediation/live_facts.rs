//! The inputs of the last decision of each running remediation, for explanations.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use rackhand_core::explanation::RemediationFacts;

use super::history::History;
use crate::{hosts::topology::Topologies, shared_causes::SharedCauses, store::request::RequestId};

/// The facts of every remediation that runs in this process, the history of steps, the causes that
/// failed hosts share, and where hosts are by their BMCs.
#[derive(Default)]
pub(crate) struct LiveFacts {
    facts: Mutex<BTreeMap<RequestId, Arc<RemediationFacts>>>,
    pub(crate) history: History,
    pub(crate) causes: Arc<SharedCauses>,
    pub(crate) topologies: Arc<Topologies>,
}

impl LiveFacts {
    /// The facts of the last decision; `None` if the remediation does not run here.
    pub(crate) fn get(&self, id: &RequestId) -> Option<Arc<RemediationFacts>> {
        self.facts.lock().get(id).cloned()
    }

    /// The facts of every remediation.
    pub(crate) fn all(&self) -> Vec<Arc<RemediationFacts>> {
        self.facts.lock().values().cloned().collect()
    }

    pub(super) fn put(&self, id: &RequestId, facts: RemediationFacts) {
        self.facts.lock().insert(id.clone(), Arc::new(facts));
    }

    pub(super) fn remove(&self, id: &RequestId) {
        self.facts.lock().remove(id);
    }
}
