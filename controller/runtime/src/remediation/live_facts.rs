//! What each running remediation was last decided from, for explanations.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use rackhand_core::explanation::RemediationFacts;

use crate::store::request::RequestId;

/// The facts of every remediation that runs in this process.
#[derive(Default)]
pub(crate) struct LiveFacts(Mutex<BTreeMap<RequestId, Arc<RemediationFacts>>>);

impl LiveFacts {
    /// The facts of the last decision; `None` if the remediation does not run here.
    pub(crate) fn get(&self, id: &RequestId) -> Option<Arc<RemediationFacts>> {
        self.0.lock().get(id).cloned()
    }

    pub(super) fn put(&self, id: &RequestId, facts: RemediationFacts) {
        self.0.lock().insert(id.clone(), Arc::new(facts));
    }

    pub(super) fn remove(&self, id: &RequestId) {
        self.0.lock().remove(id);
    }
}
