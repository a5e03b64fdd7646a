//! Workload clusters and their Nodes.

mod host_identities;
mod lookup;
mod seen;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_core::{
    hosts::NodeKey,
    remediation::{HostIdentity, NodeIdentity},
};

use super::table::is_less;
use crate::store::object::{Key, Kind};
use host_identities::HostIdentities;
use lookup::{NodeLookup, identities};
pub(crate) use seen::SeenNode;

/// The connection state of a workload cluster.
#[derive(Clone)]
pub(crate) enum Connection {
    /// The Nodes of the cluster are watched.
    Up,
    /// The Nodes are not watched, for this cause.
    Down(String),
}

#[derive(Default)]
struct Workload {
    connection: Option<Connection>,
    /// Major and minor version, as reported by the API server of the cluster.
    version: Option<(String, String)>,
    nodes: BTreeMap<String, KnownNode>,
    /// The same Nodes by the identity of their hosts.
    hosts: HostIdentities,
    /// Names for which a live read found no Node, and the watch has reported none since.
    absent: BTreeSet<String>,
}

/// A Node and its resourceVersion. A new version alone is not announced.
#[derive(Clone)]
pub(super) struct KnownNode {
    pub(super) node: Arc<SeenNode>,
    pub(super) version: Option<String>,
}

/// The Nodes of all clusters.
#[derive(Default)]
pub(super) struct ClusterNodes {
    clusters: BTreeMap<Key, Workload>,
    lookup: NodeLookup,
    /// The kinds of checks for which the Nodes of the management cluster are watched.
    own_nodes_for: BTreeSet<Kind>,
    /// Labels that are kept of Nodes of workload clusters, because triggers name them.
    kept_labels: BTreeSet<String>,
}

/// A Node with a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelledNode {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The value of the label; `None` if the Node does not have it.
    pub(crate) value: Option<String>,
    pub(crate) ready: bool,
    pub(crate) deleting: bool,
    /// Whether a label excludes the Node from remediation.
    pub(crate) excluded: bool,
}

impl ClusterNodes {
    /// Sets whether a kind of checks needs the Nodes of the management cluster. Returns whether that has changed.
    pub(super) fn watch_own(&mut self, checks: Kind, watch: bool) -> bool {
        match watch {
            true => self.own_nodes_for.insert(checks),
            false => self.own_nodes_for.remove(&checks),
        }
    }

    pub(super) fn watches_own(&self) -> bool {
        !self.own_nodes_for.is_empty()
    }

    pub(super) fn keep_labels(&mut self, keys: BTreeSet<String>) {
        self.kept_labels = keys;
    }

    pub(super) fn kept_labels(&self) -> &BTreeSet<String> {
        &self.kept_labels
    }

    pub(super) fn clusters(&self) -> impl Iterator<Item = &Key> {
        self.clusters.keys()
    }

    pub(super) fn connection(&self, cluster: &Key) -> Option<&Connection> {
        self.clusters.get(cluster)?.connection.as_ref()
    }

    pub(super) fn set_connection(&mut self, cluster: &Key, connection: Connection) {
        let workload = self.clusters.entry(cluster.clone()).or_default();
        if matches!(connection, Connection::Down(_)) {
            // From now on no watch reports changes of Nodes.
            workload.absent.clear();
        }
        workload.connection = Some(connection);
    }

    pub(super) fn version(&self, cluster: &Key) -> Option<(String, String)> {
        self.clusters.get(cluster)?.version.clone()
    }

    pub(super) fn set_version(&mut self, cluster: &Key, version: (String, String)) {
        self.clusters.entry(cluster.clone()).or_default().version = Some(version);
    }

    pub(super) fn get(&self, cluster: &Key, name: &str) -> Option<&KnownNode> {
        self.clusters.get(cluster)?.nodes.get(name)
    }

    /// The Nodes of a cluster after this name, ordered by name.
    pub(super) fn after(
        &self,
        cluster: &Key,
        name: Option<&str>,
    ) -> impl Iterator<Item = (&String, &KnownNode)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let workload = self.clusters.get(cluster);
        let nodes =
            workload.map(|workload| workload.nodes.range::<str, _>((from, Bound::Unbounded)));
        nodes.into_iter().flatten()
    }

    /// Whether a live read found no such Node, and the watch has reported none since (F12).
    pub(super) fn is_absent(&self, cluster: &Key, node: &str) -> bool {
        let workload = self.clusters.get(cluster);
        workload.is_some_and(|w| w.absent.contains(node))
    }

    /// Whether the watch of a connected cluster shows no such Node, and no live read has confirmed
    /// that there is none.
    pub(super) fn is_unconfirmed(&self, cluster: &Key, node: &str) -> bool {
        self.clusters.get(cluster).is_some_and(|w| {
            matches!(w.connection, Some(Connection::Up))
                && !w.nodes.contains_key(node)
                && !w.absent.contains(node)
        })
    }

    /// Records that a live read found no such Node. Returns whether that is new.
    pub(super) fn confirm_absent(&mut self, cluster: &Key, node: &str) -> bool {
        self.clusters.get_mut(cluster).is_some_and(|workload| {
            !workload.nodes.contains_key(node) && workload.absent.insert(node.to_owned())
        })
    }

    /// Drops confirmed absences of Nodes that are not `named` now.
    pub(super) fn prune_absent(&mut self, named: impl Fn(&Key, &str) -> bool) {
        for (cluster, workload) in &mut self.clusters {
            workload.absent.retain(|node| named(cluster, node));
        }
    }

    /// Stores a Node. Returns whether anything but the version has changed.
    pub(super) fn put(
        &mut self,
        cluster: &Key,
        name: &str,
        node: SeenNode,
        version: Option<String>,
    ) -> bool {
        if !self.clusters.contains_key(cluster) {
            self.clusters.insert(cluster.clone(), Workload::default());
        }
        let Some(workload) = self.clusters.get_mut(cluster) else {
            return false;
        };
        workload.absent.remove(name);
        let mut before = None;
        if let Some(old) = workload.nodes.get_mut(name) {
            let late = is_less(version.as_deref(), old.version.as_deref());
            if late && old.node.uid() == node.uid() {
                return false;
            }
            if *old.node == node {
                old.version = version;
                return false;
            }
            before = Some(old.node.clone());
        }
        let node = Arc::new(node);
        workload.hosts.replace(name, before.as_deref(), Some(&node));
        self.lookup
            .replace(cluster, name, before.as_deref(), Some(&node));
        let known = KnownNode { node, version };
        workload.nodes.insert(name.to_owned(), known);
        true
    }

    pub(super) fn remove(&mut self, cluster: &Key, name: &str) {
        if let Some(workload) = self.clusters.get_mut(cluster)
            && let Some(old) = workload.nodes.remove(name)
        {
            workload.hosts.replace(name, Some(&old.node), None);
            self.lookup.replace(cluster, name, Some(&old.node), None);
        }
    }

    /// Removes a cluster, and returns the names of its Nodes.
    pub(super) fn forget(&mut self, cluster: &Key) -> Vec<String> {
        let nodes = self.clusters.remove(cluster).unwrap_or_default().nodes;
        for (name, node) in &nodes {
            self.lookup.replace(cluster, name, Some(&node.node), None);
        }
        nodes.into_keys().collect()
    }

    /// The Nodes with this identity, with their cluster and name.
    pub(super) fn find<'a>(
        &'a self,
        identity: NodeKey<'a>,
    ) -> impl Iterator<Item = (&'a Key, &'a str, &'a SeenNode)> {
        let places = self.lookup.places(identity);
        places.filter_map(move |(cluster, name)| {
            let known = self.get(cluster, name)?;
            let has = identities(name, &known.node).any(|known| known == identity);
            has.then_some((cluster, name, &*known.node))
        })
    }

    /// The names of the Nodes of a cluster that may run on this host, in their order. They are found by hashes, so
    /// [`Self::on_host`] tells which of them have something in common with it.
    pub(super) fn names_on_host(&self, cluster: &Key, host: &HostIdentity) -> Vec<Arc<str>> {
        let workload = self.clusters.get(cluster);
        workload.map_or_else(Vec::new, |workload| workload.hosts.candidates(host))
    }

    /// At least the number of names that `names_on_host` would return, without listing them.
    pub(super) fn count_on_host(&self, cluster: &Key, host: &HostIdentity) -> usize {
        let workload = self.clusters.get(cluster);
        workload.map_or(0, |workload| workload.hosts.count(host))
    }

    /// A Node that has something in common with this host, and whether it is Ready.
    pub(super) fn on_host(
        &self,
        cluster: &Key,
        name: &str,
        host: &HostIdentity,
    ) -> Option<(NodeIdentity, bool)> {
        let node = &self.get(cluster, name)?.node;
        let identity = node.identity();
        host.shared_with(&identity)?;
        Some((identity, node.is_ready()))
    }
}

impl KnownNode {
    /// The Node as the API server would return it, with the fields that are kept.
    pub(super) fn whole(&self) -> Arc<Node> {
        let mut node = Node::from(self.node.as_ref());
        node.metadata.resource_version.clone_from(&self.version);
        Arc::new(node)
    }
}
