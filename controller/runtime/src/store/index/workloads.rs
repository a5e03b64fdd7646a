//! Workload clusters: their connections, and their Nodes.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{Change, Connection, Index, Inner, KnownNode, SeenNode, Workload, is_less};
use crate::store::object::{Key, Kind};

impl Index {
    /// Sets whether the Nodes of the management cluster are watched for a kind of checks. They are also
    /// watched while a remediation names a Node.
    pub(crate) fn watch_own_nodes(&self, checks: Kind, watch: bool) {
        let mut inner = self.inner.write();
        let changed = if watch {
            inner.own_nodes_for.insert(checks)
        } else {
            inner.own_nodes_for.remove(&checks)
        };
        if changed {
            self.announce(&Change::Workload(Key::local()));
        }
    }

    /// Whether the Nodes of the management cluster are watched for checks.
    pub(crate) fn watches_own_nodes(&self) -> bool {
        !self.inner.read().own_nodes_for.is_empty()
    }

    pub(crate) fn connection(&self, cluster: &Key) -> Connection {
        let inner = self.inner.read();
        let known = inner
            .workloads
            .get(cluster)
            .and_then(|w| w.connection.clone());
        known.unwrap_or_else(|| Connection::Down("not connected yet".into()))
    }

    /// Whether the first connection to a workload cluster is still being made.
    pub(crate) fn is_connecting(&self, cluster: &Key) -> bool {
        let inner = self.inner.read();
        let known = inner.workloads.get(cluster);
        known.is_none_or(|workload| workload.connection.is_none())
    }

    pub(crate) fn set_connection(&self, cluster: &Key, connection: Connection) {
        let mut inner = self.inner.write();
        inner.lost_watches.set_nodes(cluster, Some(&connection));
        let workload = inner.workloads.entry(cluster.clone()).or_default();
        if matches!(connection, Connection::Down(_)) {
            // From now on no watch reports changes of Nodes.
            workload.absent.clear();
        }
        workload.connection = Some(connection);
        self.announce(&Change::Workload(cluster.clone()));
    }

    /// Whether a live read found no such Node, and the watch has reported none since (F12).
    pub(crate) fn is_absent(&self, cluster: &Key, node: &str) -> bool {
        let inner = self.inner.read();
        let workload = inner.workloads.get(cluster);
        workload.is_some_and(|w| w.absent.contains(node))
    }

    /// Whether the watch of a connected cluster shows no such Node, and no live read has confirmed
    /// that there is none.
    pub(crate) fn is_unconfirmed(&self, cluster: &Key, node: &str) -> bool {
        let inner = self.inner.read();
        inner.workloads.get(cluster).is_some_and(|w| {
            matches!(w.connection, Some(Connection::Up))
                && !w.nodes.contains_key(node)
                && !w.absent.contains(node)
        })
    }

    /// Records that a live read found no such Node.
    pub(crate) fn confirm_absent(&self, cluster: &Key, node: &str) {
        let mut inner = self.inner.write();
        if let Some(workload) = inner.workloads.get_mut(cluster)
            && !workload.nodes.contains_key(node)
            && workload.absent.insert(node.to_owned())
        {
            self.announce(&Change::Node(cluster.clone(), node.to_owned()));
        }
    }

    /// Whether a Machine names this Node.
    pub(crate) fn is_named(&self, cluster: &Key, node: &str) -> bool {
        let inner = self.inner.read();
        inner.names_node(cluster, node)
    }

    /// The Nodes of a cluster that Machines name.
    pub(crate) fn named_nodes(&self, cluster: &Key) -> BTreeSet<String> {
        let inner = self.inner.read();
        let of_cluster_api = inner
            .by_node
            .iter()
            .filter(|(_, links)| links.iter().any(|link| link.cluster == *cluster))
            .map(|(node, _)| node.to_string());
        let mut names: BTreeSet<String> = of_cluster_api.collect();
        if *cluster == Key::local() {
            names.extend(inner.openshift.node_names());
        }
        names
    }

    pub(crate) fn version(&self, cluster: &Key) -> Option<(String, String)> {
        self.inner.read().workloads.get(cluster)?.version.clone()
    }

    pub(crate) fn set_version(&self, cluster: &Key, major: &str, minor: &str) {
        let version = Some((major.to_owned(), minor.to_owned()));
        let mut inner = self.inner.write();
        inner.workloads.entry(cluster.clone()).or_default().version = version;
    }

    pub(crate) fn forget_workload(&self, cluster: &Key) {
        let known = {
            let mut inner = self.inner.write();
            let inner = &mut *inner;
            inner.lost_watches.set_nodes(cluster, None);
            let known = inner.workloads.remove(cluster);
            for (name, node) in known.iter().flat_map(|workload| &workload.nodes) {
                inner.lookup.replace(cluster, name, Some(&node.node), None);
            }
            known
        };
        // The loss of the connection is announced first; otherwise the Nodes would look deleted.
        self.announce(&Change::Workload(cluster.clone()));
        for name in known.into_iter().flat_map(|w| w.nodes.into_keys()) {
            self.announce(&Change::Node(cluster.clone(), name));
        }
    }

    pub(crate) fn node(&self, cluster: &Key, name: &str) -> Option<Arc<Node>> {
        let inner = self.inner.read();
        let known = inner.workloads.get(cluster)?.nodes.get(name)?.clone();
        drop(inner);
        Some(whole(&known))
    }

    /// The fields of a Node that verdicts use; faster than the whole Node.
    pub(crate) fn seen_node(&self, cluster: &Key, name: &str) -> Option<Arc<SeenNode>> {
        let inner = self.inner.read();
        let known = inner.workloads.get(cluster)?.nodes.get(name)?;
        Some(known.node.clone())
    }

    /// The Nodes of a cluster, ordered by name.
    pub(crate) fn nodes(&self, cluster: &Key) -> Vec<Arc<Node>> {
        let known: Vec<KnownNode> = {
            let inner = self.inner.read();
            let nodes = inner.workloads.get(cluster).map(|w| w.nodes.values());
            nodes.into_iter().flatten().cloned().collect()
        };
        known.iter().map(whole).collect()
    }

    pub(crate) fn apply_node(&self, cluster: &Key, node: Node) {
        self.apply_seen_node(cluster, node.into());
    }

    /// Applies a version of a Node. A heartbeat is not announced.
    pub(crate) fn apply_seen_node(&self, cluster: &Key, mut node: SeenNode) {
        let name = node.name_any();
        let version = node.take_version();
        if *cluster != Key::local() {
            node.drop_unread_labels();
        }
        let mut inner = self.inner.write();
        if inner.put_node(cluster, &name, node, version) {
            self.announce(&Change::Node(cluster.clone(), name));
        }
        self.moved.notify_waiters();
    }

    /// Applies the deletion of a Node, as reported by the watch.
    pub(crate) fn deleted_node(&self, cluster: &Key, node: &SeenNode) {
        if let Some(uid) = node.uid() {
            self.inner.write().tombstones.put(&uid);
        }
        self.delete_node(cluster, &node.name_any());
    }

    pub(crate) fn delete_node(&self, cluster: &Key, name: &str) {
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        if let Some(workload) = inner.workloads.get_mut(cluster)
            && let Some(old) = workload.nodes.remove(name)
        {
            workload.hosts.replace(name, Some(&old.node), None);
            inner.lookup.replace(cluster, name, Some(&old.node), None);
        }
        self.announce(&Change::Node(cluster.clone(), name.to_owned()));
        self.moved.notify_waiters();
    }

    pub(crate) fn retain_nodes(&self, cluster: &Key, listed: &BTreeSet<String>) {
        let known: Vec<String> = {
            let inner = self.inner.read();
            inner
                .workloads
                .get(cluster)
                .map(|w| w.nodes.keys().cloned().collect())
                .unwrap_or_default()
        };
        for name in known.iter().filter(|n| !listed.contains(*n)) {
            self.delete_node(cluster, name);
        }
    }
}

impl Inner {
    fn names_node(&self, cluster: &Key, node: &str) -> bool {
        let links = self.by_node.get(node).into_iter().flatten();
        links.into_iter().any(|link| link.cluster == *cluster)
            || *cluster == Key::local() && self.openshift.node_names().any(|name| name == node)
    }

    /// Drops confirmed absences of Nodes that no Machine names now.
    pub(super) fn prune_absent(&mut self) {
        let mut kept = Vec::new();
        for (cluster, workload) in &self.workloads {
            let named = |node: &&String| self.names_node(cluster, node);
            let absent: BTreeSet<String> = workload.absent.iter().filter(named).cloned().collect();
            if absent.len() < workload.absent.len() {
                kept.push((cluster.clone(), absent));
            }
        }
        for (cluster, absent) in kept {
            if let Some(workload) = self.workloads.get_mut(&cluster) {
                workload.absent = absent;
            }
        }
    }

    /// Stores a Node. Returns whether anything but the version has changed.
    fn put_node(
        &mut self,
        cluster: &Key,
        name: &str,
        node: SeenNode,
        version: Option<String>,
    ) -> bool {
        // A read that was answered before the deletion may arrive after it, and nothing would remove the Node again.
        if self.tombstones.holds(node.uid().as_deref()) {
            return false;
        }
        if !self.workloads.contains_key(cluster) {
            self.workloads.insert(cluster.clone(), Workload::default());
        }
        let Some(workload) = self.workloads.get_mut(cluster) else {
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
}

fn whole(known: &KnownNode) -> Arc<Node> {
    let mut node = Node::from(known.node.as_ref());
    node.metadata.resource_version.clone_from(&known.version);
    Arc::new(node)
}
