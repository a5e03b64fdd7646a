//! Queue of changes that a consumer has not processed yet.
//!
//! Coalesces changes: a change is in the queue once, however often it occurs.

use std::{collections::BTreeSet, time::Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::store::object::{Key, Kind};

/// A change of an observed object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// An object of the management cluster.
    Object(Kind, Key),
    /// A Node of a workload cluster.
    Node(Key, String),
    /// The connection to a workload cluster.
    Workload(Key),
    /// An agent of this rack, or the hosts that it serves.
    Agent(String),
}

impl Change {
    /// The objects of a kind among these changes, in their order.
    pub(crate) fn objects(changes: &BTreeSet<Self>, of: Kind) -> impl Iterator<Item = &Key> {
        let first = Self::Object(of, Key::new("", ""));
        changes
            .range(first..)
            .map_while(move |change| match change {
                Self::Object(kind, key) if *kind == of => Some(key),
                _ => None,
            })
    }

    /// The workload clusters whose connections are among these changes, in their order.
    pub(crate) fn workloads(changes: &BTreeSet<Self>) -> impl Iterator<Item = &Key> {
        let first = Self::Workload(Key::new("", ""));
        changes.range(first..).map_while(|change| match change {
            Self::Workload(cluster) => Some(cluster),
            Self::Object(..) | Self::Node(..) | Self::Agent(_) => None,
        })
    }
}

#[derive(Default)]
struct Waiting {
    changes: BTreeSet<Change>,
    since: Option<Instant>,
}

/// Changes that a consumer has not processed yet, each once.
#[derive(Default)]
pub(crate) struct ChangeQueue {
    waiting: Mutex<Waiting>,
    bell: Notify,
    /// Filter: only these changes are queued.
    only: Option<fn(&Change) -> bool>,
}

impl ChangeQueue {
    /// A queue for a consumer that few changes concern.
    pub(crate) fn only(wanted: fn(&Change) -> bool) -> Self {
        Self {
            only: Some(wanted),
            ..Self::default()
        }
    }

    /// Whether a change concerns the consumer of this queue.
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

    /// Takes all changes, as soon as there is one.
    pub(crate) async fn take(&self) -> BTreeSet<Change> {
        self.take_since().await.0
    }

    /// Takes all changes, as soon as there is one, and returns when the first of them was queued.
    pub(crate) async fn take_since(&self) -> (BTreeSet<Change>, Instant) {
        loop {
            let taken = self.take_now();
            if let Some(since) = taken.since {
                return (taken.changes, since);
            }
            self.bell.notified().await;
        }
    }

    /// Takes the changes that are queued now, without waiting.
    pub(crate) fn drain(&self) -> BTreeSet<Change> {
        self.take_now().changes
    }

    fn take_now(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// The changes that are queued now.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Vec<Change> {
        self.take_now().changes.into_iter().collect()
    }
}
