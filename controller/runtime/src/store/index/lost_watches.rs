//! Lost watches, which do not feed the index now: the indexed objects of their kind are stale (F12).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

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

/// The label of the watches of workload clusters.
const NODE: &str = "Node";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

/// A watch that may be lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Watch {
    /// A kind of the index.
    Index(Kind),
    /// The Nodes of a cluster.
    Nodes(Key),
    /// A kind that checks name, in a namespace, or in all if that is empty.
    Named { kind: String, namespace: String },
}

/// The watches that are lost, and the metric that counts them.
#[derive(Default)]
pub(super) struct LostWatches {
    /// Why each watch is lost.
    lost: BTreeMap<Watch, String>,
    count: Family<KindLabel, Gauge>,
}

impl Watch {
    /// The label of the metric.
    fn label(&self) -> &str {
        match self {
            Self::Index(kind) => kind.label(),
            Self::Nodes(_) => NODE,
            Self::Named { kind, .. } => kind,
        }
    }

    fn is_of_management_cluster(&self) -> bool {
        match self {
            Self::Nodes(cluster) => *cluster == Key::local(),
            Self::Index(_) | Self::Named { .. } => true,
        }
    }
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { kind, namespace } if !namespace.is_empty() => {
                write!(f, "{kind} in {namespace}")
            }
            watch => f.write_str(watch.label()),
        }
    }
}

impl LostWatches {
    /// Records why a watch is lost. Returns whether that has changed.
    fn set(&mut self, watch: Watch, why: Option<String>) -> bool {
        let label = watch.label().to_owned();
        let changed = match why {
            Some(why) => self.lost.insert(watch, why.clone()).as_ref() != Some(&why),
            None => self.lost.remove(&watch).is_some(),
        };
        let lost = self.lost.keys().filter(|watch| watch.label() == label);
        let value = i64::try_from(lost.count()).unwrap_or(i64::MAX);
        self.count
            .get_or_create(&KindLabel { kind: label })
            .set(value);
        changed
    }

    /// Records whether the Nodes of a cluster are watched.
    pub(super) fn set_nodes(&mut self, cluster: &Key, connection: Option<&Connection>) {
        let why = match connection {
            Some(Connection::Down(why)) => Some(why.clone()),
            Some(Connection::Up) | None => None,
        };
        self.set(Watch::Nodes(cluster.clone()), why);
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
        let changed = inner.lost_watches.set(Watch::Index(kind), why.clone());
        if !changed {
            return;
        }
        match why {
            Some(why) => tracing::warn!(kind = kind.label(), why, "the kind is not watched now"),
            None => tracing::info!(kind = kind.label(), "the kind is watched again"),
        }
        // Decisions that depend on the Nodes of a cluster depend on this kind as well.
        let mut clusters: BTreeSet<Key> = inner.nodes.clusters().cloned().collect();
        clusters.extend(inner.objects.clusters.keys().cloned());
        clusters.insert(Key::local());
        for cluster in clusters {
            self.announce(&Change::Workload(cluster));
        }
    }

    /// Like [`Self::set_lost_watch`], for a kind that is watched for the checks that name it and is in no index.
    /// An empty namespace means all.
    pub(crate) fn set_lost_other(&self, kind: &str, namespace: &str, why: Option<String>) {
        let watch = Watch::Named {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
        };
        let mut inner = self.inner.write();
        if !inner.lost_watches.set(watch, why.clone()) {
            return;
        }
        match why {
            Some(why) => tracing::warn!(kind, namespace, why, "the kind is not watched now"),
            None => tracing::info!(kind, namespace, "the kind is watched again"),
        }
    }

    /// Why the first unwatched kind of these kinds is not watched now; `None` if all are watched.
    pub(crate) fn lost_watch(&self, kinds: &[Kind]) -> Option<String> {
        let inner = self.inner.read();
        let lost = &inner.lost_watches.lost;
        let found = kinds
            .iter()
            .find_map(|kind| Some((kind, lost.get(&Watch::Index(*kind))?)));
        found.map(|(kind, why)| format!("{}s cannot be watched: {why}", kind.kind()))
    }

    /// All kinds of the management cluster that are not watched now, and why.
    pub(crate) fn lost_watches(&self) -> Vec<(String, String)> {
        let inner = self.inner.read();
        let lost = inner.lost_watches.lost.iter();
        lost.filter(|(watch, _)| watch.is_of_management_cluster())
            .map(|(watch, why)| (watch.to_string(), why.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::render;

    /// The metric as rendered, without its help.
    fn rendered(registry: &Registry) -> String {
        let text = render(registry);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn f12_loss_in_one_namespace_outlasts_recovery_in_another() {
        let index = Index::new(Vec::new());
        let mut registry = Registry::default();
        index.register_metrics(&mut registry);
        let lose = |namespace: &str, why: Option<&str>| {
            index.set_lost_other("Template", namespace, why.map(str::to_owned));
        };
        lose("a", Some("denied"));
        lose("b", Some("denied"));
        assert_eq!(
            rendered(&registry),
            r#"rackhand_watches_lost{kind="Template"} 2"#
        );
        lose("b", None);
        let told = ("Template in a".to_owned(), "denied".to_owned());
        assert_eq!(index.lost_watches(), [told]);
        assert_eq!(
            rendered(&registry),
            r#"rackhand_watches_lost{kind="Template"} 1"#
        );
        lose("a", None);
        assert_eq!(index.lost_watches(), []);
        assert_eq!(
            rendered(&registry),
            r#"rackhand_watches_lost{kind="Template"} 0"#
        );
    }

    #[test]
    fn f12_named_kind_never_clears_the_loss_of_an_indexed_kind() {
        let index = Index::new(Vec::new());
        let mut registry = Registry::default();
        index.register_metrics(&mut registry);
        index.set_lost_watch(Kind::Machine, Some("denied".into()));
        index.set_lost_other("Machine", "", None);
        let why = index.lost_watch(&[Kind::Cluster, Kind::Machine]);
        assert_eq!(why.as_deref(), Some("Machines cannot be watched: denied"));
        assert_eq!(index.lost_watch(&[Kind::Cluster]), None);
        let text = rendered(&registry);
        let expected = r#"rackhand_watches_lost{kind="Machine"} 1"#;
        assert!(text.contains(expected), "{text}");
    }
}
