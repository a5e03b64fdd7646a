//! Operations of this process whose outcomes the file may lack after an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use rackhand_proto::v1;

/// Operations of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningOperations(Arc<Mutex<Operations>>);

#[derive(Debug, Default)]
struct Operations {
    /// Ids of running operations.
    live: BTreeSet<String>,
    /// Outcomes that are not in the file yet, with their times.
    unwritten: Unwritten,
}

pub(super) type Unwritten = BTreeMap<String, (i64, v1::Outcome)>;

impl RunningOperations {
    pub(super) fn begun(&self, id: &str) {
        self.0.lock().live.insert(id.to_owned());
    }

    /// Records the end of an operation, whose outcome must be written to the file.
    pub(super) fn over(&self, id: &str, at: i64, outcome: v1::Outcome) {
        let mut operations = self.0.lock();
        operations.unwritten.insert(id.to_owned(), (at, outcome));
        operations.live.remove(id);
    }

    pub(super) fn unwritten(&self) -> Unwritten {
        self.0.lock().unwritten.clone()
    }

    /// Removes outcomes that the file now has.
    pub(super) fn written<'a>(&self, ids: impl Iterator<Item = &'a String>) {
        let mut operations = self.0.lock();
        for id in ids {
            operations.unwritten.remove(id);
        }
    }

    pub(super) fn is_live(&self, id: &str) -> bool {
        self.0.lock().live.contains(id)
    }
}
