//! The hosts that naming references give to Nodes, shared by the remediations that ask for many (F14).
//!
//! Boards of a series may report one system UUID. Each remediation of such a host compares itself with the Nodes of all
//! of them, so that their hosts would be resolved again for each remediation.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rackhand_core::remediation::HostRef;
use tokio::{sync::MutexGuard, time::Instant};

use crate::store::object::Key;

/// How long a resolved host serves later callers, as a comparison of the Nodes does.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// The number of Nodes up to which each of their hosts is resolved for each caller.
pub(super) const FEW: usize = 16;

/// Hosts of Nodes by cluster and name.
#[derive(Default)]
pub(crate) struct NamedHosts {
    known: Mutex<Known>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    hosts: HashMap<Key, HashMap<Arc<str>, Resolved>>,
    cleaned: Option<Instant>,
}

struct Resolved {
    at: Instant,
    host: Option<Arc<HostRef>>,
}

impl Resolved {
    fn serves(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < SHARED_FOR
    }
}

impl NamedHosts {
    /// Waits until no other remediation looks at many Nodes: the slices of all of them together would be long.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// The host of a Node, as it was resolved at most a second ago. `resolve` must not ask here.
    pub(super) fn get(
        &self,
        cluster: &Key,
        node: &Arc<str>,
        resolve: impl FnOnce() -> Option<HostRef>,
    ) -> Option<Arc<HostRef>> {
        let now = Instant::now();
        {
            let known = self.known.lock();
            let found = known.hosts.get(cluster).and_then(|nodes| nodes.get(node));
            if let Some(found) = found.filter(|found| found.serves(now)) {
                return found.host.clone();
            }
        }
        let host = resolve().map(Arc::new);
        let resolved = Resolved {
            at: now,
            host: host.clone(),
        };
        let mut known = self.known.lock();
        known.clean(now);
        let nodes = known.hosts.entry(cluster.clone()).or_default();
        nodes.insert(node.clone(), resolved);
        host
    }
}

impl Known {
    /// Forgets what serves nobody any more, at most once in the time for which a host is shared.
    fn clean(&mut self, now: Instant) {
        let last = self.cleaned.get_or_insert(now);
        if now.saturating_duration_since(*last) < SHARED_FOR {
            return;
        }
        *last = now;
        self.hosts.retain(|_, nodes| {
            nodes.retain(|_, resolved| resolved.serves(now));
            !nodes.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn f14_host_of_a_node_is_resolved_once_a_second_for_all_remediations() {
        let shared = NamedHosts::default();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let node: Arc<str> = "n".into();
        let mut resolved = 0;
        let mut get = |cluster: &Key, host: &str| {
            let found = shared.get(cluster, &node, || {
                resolved += 1;
                Some(HostRef {
                    rack: "r1".into(),
                    host: host.into(),
                    bmh: None,
                    bmc: String::new(),
                })
            });
            (found.unwrap().host.clone(), resolved)
        };
        assert_eq!(get(&a, "h1"), ("h1".to_owned(), 1));
        advance(SHARED_FOR / 2).await;
        assert_eq!(get(&a, "h2"), ("h1".to_owned(), 1));
        assert_eq!(get(&b, "h2"), ("h2".to_owned(), 2), "of another cluster");
        advance(SHARED_FOR / 2).await;
        assert_eq!(get(&a, "h2"), ("h2".to_owned(), 3));
        advance(SHARED_FOR).await;
        assert_eq!(get(&b, "h3"), ("h3".to_owned(), 4));
        assert_eq!(shared.known.lock().hosts.len(), 1, "the other is forgotten");
    }
}
