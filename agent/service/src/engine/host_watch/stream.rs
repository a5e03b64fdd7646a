//! What one stream watches, and the changes that it has not been sent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use rackhand_agent_core::watch_schedule::Extras;
use rackhand_bmc::operation::Expected;
use rackhand_proto::{limits::WATCHED_BATCH, v1};
use tokio::sync::Notify;
use tonic::Status;

use super::{
    HostWatches,
    host::{Host, Subscriber},
    view,
};
use crate::engine::Target;

/// A host as a stream wants to watch it.
pub(crate) struct Wanted {
    pub(crate) id: String,
    /// The host, or why it is refused.
    pub(crate) target: Result<(Target, Expected), Status>,
    pub(crate) health_interval: Option<Duration>,
}

/// Hosts whose changes were not sent yet, by their ids in the stream.
#[derive(Default)]
pub(super) struct Changes {
    ids: Mutex<BTreeSet<String>>,
    added: Notify,
}

impl Changes {
    pub(super) fn add(&self, id: &str) {
        self.ids.lock().insert(id.to_owned());
        self.added.notify_one();
    }

    fn take(&self, most: usize) -> Vec<String> {
        let mut ids = self.ids.lock();
        let taken = std::iter::from_fn(|| ids.pop_first()).take(most).collect();
        if !ids.is_empty() {
            self.added.notify_one();
        }
        taken
    }
}

enum Entry {
    Watched(u64, Arc<Host>),
    Refused(Status),
}

/// The hosts of one stream. They are no longer watched when it is dropped.
pub(crate) struct WatchStream {
    watches: HostWatches,
    entries: BTreeMap<String, Entry>,
    changes: Arc<Changes>,
}

impl WatchStream {
    pub(super) fn new(watches: HostWatches) -> Self {
        Self {
            watches,
            entries: BTreeMap::new(),
            changes: Arc::default(),
        }
    }

    /// Number of hosts.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Every id.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// Watches a host; an entry with the same id is replaced.
    pub(crate) fn add(&mut self, wanted: Wanted) {
        let id = wanted.id;
        let entry = match wanted.target {
            Ok((target, expected)) => {
                let number = self.watches.context.next.fetch_add(1, Ordering::Relaxed);
                let changes = self.changes.clone();
                let subscriber =
                    Subscriber::new(id.clone(), expected, wanted.health_interval, changes);
                // Before the old entry ends, so that the reader of the same BMC goes on.
                let host = self.watches.subscribe(target, number, subscriber);
                Entry::Watched(number, host)
            }
            Err(refusal) => {
                self.changes.add(&id);
                Entry::Refused(refusal)
            }
        };
        if let Some(old) = self.entries.insert(id, entry) {
            self.end(&old);
        }
    }

    /// No longer watches a host.
    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(entry) = self.entries.remove(id) {
            self.end(&entry);
        }
    }

    /// Requests readings of a host.
    pub(crate) fn read(&self, request: &v1::ReadRequest) {
        if let Some(Entry::Watched(number, host)) = self.entries.get(&request.id) {
            let extras = Extras {
                stops: request.stops,
                health: request.health,
            };
            host.request(*number, request.number, extras);
        }
    }

    /// Waits until a host has changed. At least one `take_changed` must follow.
    pub(crate) async fn changed(&self) {
        self.changes.added.notified().await;
    }

    /// Ids of hosts that have changed, at most as many as one message has.
    pub(crate) fn take_changed(&self) -> Vec<String> {
        self.changes.take(WATCHED_BATCH)
    }

    /// The present state of these hosts; those that are no longer watched are left out.
    pub(crate) async fn view(&self, ids: &[String]) -> Vec<v1::WatchedHost> {
        let context = &self.watches.context;
        // Without the journal it is not known who holds a host; the rest is.
        let holds = context
            .holds
            .by_host_key()
            .await
            .unwrap_or_else(|_| HashMap::new());
        let mut hosts = Vec::with_capacity(ids.len());
        for id in ids {
            match self.entries.get(id) {
                None => {}
                Some(Entry::Refused(refusal)) => hosts.push(view::refused(id, refusal)),
                Some(Entry::Watched(number, host)) => {
                    if let Some(snapshot) = host.snapshot(*number) {
                        hosts.push(view::host(&context.clients, &holds, snapshot));
                    }
                }
            }
        }
        hosts
    }

    fn end(&self, entry: &Entry) {
        if let Entry::Watched(number, host) = entry {
            host.unsubscribe(*number);
            self.watches.release(host);
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        for entry in self.entries.values() {
            self.end(entry);
        }
    }
}
