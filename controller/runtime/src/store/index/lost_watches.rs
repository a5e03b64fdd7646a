//! Lost watches, which do not feed the index now: the indexed objects of their kind are stale (F12).

use std::collections::{BTreeMap, BTreeSet};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{Change, Connection, Index};
use crate::store::{
    metrics::{own_metrics, register},
    object::{Key, Kind},
};

/// The kind of the watches of workload clusters.
const NODE: &str = "Node";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

/// The watches that are lost, and the metric that counts them.
#[derive(Default)]
pub(super) struct LostWatches {
    /// Why each watch is lost, by cluster and kind. The management cluster is [`Key::local`].
    lost: BTreeMap<(Key, String), String>,
    /// The kinds of the management cluster with a lost watch.
    kinds: BTreeSet<Kind>,
    count: Family<KindLabel, Gauge>,
}

impl LostWatches {
    fn set(&mut self, cluster: &Key, kind: &str, why: Option<String>) -> bool {
        let name = (cluster.clone(), kind.to_owned());
        let changed = match why {
            Some(why) => self.lost.insert(name, why.clone()).as_ref() != Some(&why),
            None => self.lost.remove(&name).is_some(),
        };
        let count = self.lost.keys().filter(|(_, of)| *of == kind).count();
        let value = i64::try_from(count).unwrap_or(i64::MAX);
        let label = KindLabel {
            kind: kind.to_owned(),
        };
        self.count.get_or_create(&label).set(value);
        changed
    }

    /// Records whether the Nodes of a cluster are watched.
    pub(super) fn set_nodes(&mut self, cluster: &Key, connection: Option<&Connection>) {
        let why = match connection {
            Some(Connection::Down(why)) => Some(why.clone()),
            Some(Connection::Up) | None => None,
        };
        self.set(cluster, NODE, why);
    }
}

impl Index {
    /// Registers the metric of lost watches.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        let registry = own_metrics(registry);
        let help =
            "Watches that do not report changes now, so that what they showed is of the past";
        let count = self.inner.read().lost_watches.count.clone();
        register(registry, "watches_lost", help, count);
    }

    /// Records why a kind of the management cluster is not watched now; `None` if it is watched.
    pub(crate) fn set_lost_watch(&self, kind: Kind, why: Option<String>) {
        let mut inner = self.inner.write();
        if why.is_some() {
            inner.lost_watches.kinds.insert(kind);
        } else {
            inner.lost_watches.kinds.remove(&kind);
        }
        let changed = inner
            .lost_watches
            .set(&Key::local(), kind.label(), why.clone());
        if !changed {
            return;
        }
        match why {
            Some(why) => tracing::warn!(kind = kind.label(), why, "the kind is not watched now"),
            None => tracing::info!(kind = kind.label(), "the kind is watched again"),
        }
        // Decisions that depend on the Nodes of a cluster depend on this kind as well.
        let mut clusters: BTreeSet<Key> = inner.workloads.keys().cloned().collect();
        clusters.extend(inner.clusters.keys().cloned());
        clusters.insert(Key::local());
        for cluster in clusters {
            self.announce(&Change::Workload(cluster));
        }
    }

    /// Like [`Self::set_lost_watch`], for a kind that is watched for the checks that name it and is in no index.
    pub(crate) fn set_lost_other(&self, kind: &str, why: Option<String>) {
        let mut inner = self.inner.write();
        if inner.lost_watches.set(&Key::local(), kind, why.clone())
            && let Some(why) = why
        {
            tracing::warn!(kind, why, "the kind is not watched now");
        }
    }

    /// Why the first unwatched kind of these kinds is not watched now; `None` if all are watched.
    pub(crate) fn lost_watch(&self, kinds: &[Kind]) -> Option<String> {
        let inner = self.inner.read();
        let lost = &inner.lost_watches;
        let kind = kinds.iter().find(|kind| lost.kinds.contains(kind))?;
        let why = lost.lost.get(&(Key::local(), kind.label().to_owned()))?;
        Some(format!("{}s cannot be watched: {why}", kind.kind()))
    }

    /// All kinds of the management cluster that are not watched now, and why.
    pub(crate) fn lost_watches(&self) -> Vec<(String, String)> {
        let inner = self.inner.read();
        let lost = inner.lost_watches.lost.iter();
        let of_management = lost.filter(|((cluster, _), _)| *cluster == Key::local());
        of_management
            .map(|((_, kind), why)| (kind.clone(), why.clone()))
            .collect()
    }
}
