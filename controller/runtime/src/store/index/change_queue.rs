//! What has changed and was not looked at yet.
//!
//! Owns the coalescing: a change stands in an inbox once, however often it comes.

use std::{collections::BTreeSet, time::Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::store::object::{Key, Kind};

/// Something is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// An object of the management cluster.
    Object(Kind, Key),
    /// A Node of a workload cluster.
    Node(Key, String),
    /// The connection to a workload cluster.
    Workload(Key),
    /// An agent, or the hosts that it serves.
    Agent,
}

#[derive(Default)]
struct Waiting {
    changes: BTreeSet<Change>,
    since: Option<Instant>,
}

/// Changes that a consumer has not looked at yet, each once.
#[derive(Default)]
pub(crate) struct ChangeQueue {
    waiting: Mutex<Waiting>,
    bell: Notify,
    /// Takes only these.
    only: Option<fn(&Change) -> bool>,
}

impl ChangeQueue {
    /// One for a consumer that few changes concern.
    pub(crate) fn only(wanted: fn(&Change) -> bool) -> Self {
        Self {
            only: Some(wanted),
            ..Self::default()
        }
    }

    /// Whether a change concerns its consumer.
    pub(super) fn wants(&self, change: &Change) -> bool {
        self.only.is_none_or(|wanted| wanted(change))
    }

    pub(crate) fn push(&self, change: Change) {
        let mut waiting = self.waiting.lock();
        waiting.since.get_or_insert_with(Instant::now);
        waiting.changes.insert(change);
        drop(waiting);
        self.bell.notify_one();
    }

    /// All of them, as soon as there is one.
    pub(crate) async fn take(&self) -> BTreeSet<Change> {
        self.take_since().await.0
    }

    /// The same, and since when the first of them has waited.
    pub(crate) async fn take_since(&self) -> (BTreeSet<Change>, Instant) {
        loop {
            let taken = self.take_now();
            if let Some(since) = taken.since {
                return (taken.changes, since);
            }
            self.bell.notified().await;
        }
    }

    /// What waits now, if anything does.
    pub(crate) fn drain(&self) -> BTreeSet<Change> {
        self.take_now().changes
    }

    fn take_now(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// What waits now.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Vec<Change> {
        self.take_now().changes.into_iter().collect()
    }
}
