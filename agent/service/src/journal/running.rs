//! The operations of this process, for a file that missed something of them.

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
    /// Begun and not over.
    live: BTreeSet<String>,
    /// Over, but not written down: when, and how.
    unwritten: Unwritten,
}

pub(super) type Unwritten = BTreeMap<String, (i64, v1::Outcome)>;

impl RunningOperations {
    pub(super) fn begun(&self, id: &str) {
        self.0.lock().live.insert(id.to_owned());
    }

    /// It is over, which the file must be told.
    pub(super) fn over(&self, id: &str, at: i64, outcome: v1::Outcome) {
        let mut operations = self.0.lock();
        operations.unwritten.insert(id.to_owned(), (at, outcome));
        operations.live.remove(id);
    }

    pub(super) fn unwritten(&self) -> Unwritten {
        self.0.lock().unwritten.clone()
    }

    /// The file has the outcomes of these.
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
