//! What the index shows of workload clusters: their connections, and their Nodes.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use rackhand_core::{
    hosts::NodeKey,
    remediation::{HostIdentity, NodeIdentity},
};

use super::{Change, Connection, Index, LabelledNode, PAGE, SeenNode, in_pages, nodes::KnownNode};
use crate::store::object::{Key, Kind};

impl Index {
    /// Sets whether the Nodes of the management cluster are watched for a kind of checks. They are also
    /// watched while a remediation names a Node.
    pub(crate) fn watch_own_nodes(&self, checks: Kind, watch: bool) {
        let mut inner = self.inner.write();
        if inner.nodes.watch_own(checks, watch) {
            self.announce(&Change::Workload(Key::local()));
        }
    }

    /// Whether the Nodes of the management cluster are watched for checks.
    pub(crate) fn watches_own_nodes(&self) -> bool {
        self.inner.read().nodes.watches_own()
    }

    /// Sets the labels that are kept of Nodes of workload clusters. Nodes that are known already lack a new one until
    /// they are applied again.
    pub(crate) fn keep_labels(&self, keys: BTreeSet<String>) {
        self.inner.write().nodes.keep_labels(keys);
    }

    /// The Nodes of a cluster that have this label, ordered by name.
    pub(crate) fn nodes_with_label(&self, cluster: &Key, key: &str) -> Vec<LabelledNode> {
        let has = |node: &SeenNode| {
            let labels = node.meta().labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key(key))
        };
        let nodes = self.known_nodes_in_pages(cluster);
        nodes
            .filter(|(_, known)| has(&known.node))
            .map(|(_, known)| known.node.labelled(key))
            .collect()
    }

    /// A Node as triggers of this label see it, with or without the label.
    pub(crate) fn labelled_node(
        &self,
        cluster: &Key,
        name: &str,
        key: &str,
    ) -> Option<LabelledNode> {
        let inner = self.inner.read();
        Some(inner.nodes.get(cluster, name)?.node.labelled(key))
    }

    pub(crate) fn connection(&self, cluster: &Key) -> Connection {
        let known = self.inner.read().nodes.connection(cluster).cloned();
        known.unwrap_or_else(|| Connection::Down("not connected yet".into()))
    }

    /// Whether the first connection to a workload cluster is still being made.
    pub(crate) fn is_connecting(&self, cluster: &Key) -> bool {
        self.inner.read().nodes.connection(cluster).is_none()
    }

    pub(crate) fn set_connection(&self, cluster: &Key, connection: Connection) {
        let mut inner = self.inner.write();
        inner.lost_watches.set_nodes(cluster, Some(&connection));
        inner.nodes.set_connection(cluster, connection);
        self.announce(&Change::Workload(cluster.clone()));
    }

    /// Whether a live read found no such Node, and the watch has reported none since (F12).
    pub(crate) fn is_absent(&self, cluster: &Key, node: &str) -> bool {
        self.inner.read().nodes.is_absent(cluster, node)
    }

    /// Whether the watch of a connected cluster shows no such Node, and no live read has confirmed
    /// that there is none.
    pub(crate) fn is_unconfirmed(&self, cluster: &Key, node: &str) -> bool {
        self.inner.read().nodes.is_unconfirmed(cluster, node)
    }

    /// Records that a live read found no such Node.
    pub(crate) fn confirm_absent(&self, cluster: &Key, node: &str) {
        let mut inner = self.inner.write();
        if inner.nodes.confirm_absent(cluster, node) {
            self.announce(&Change::Node(cluster.clone(), node.to_owned()));
        }
    }

    /// Whether a Machine names this Node.
    pub(crate) fn is_named(&self, cluster: &Key, node: &str) -> bool {
        self.inner.read().objects.names_node(cluster, node)
    }

    /// The Nodes of a cluster that Machines name. They are read a few at a time.
    pub(crate) fn named_nodes(&self, cluster: &Key) -> BTreeSet<String> {
        let named = in_pages(|after: Option<&(Box<str>, bool)>| {
            let inner = self.inner.read();
            let after = after.map(|(name, _)| &**name);
            inner.objects.machines.nodes_after(cluster, after, PAGE)
        });
        let of_cluster = named.filter(|(_, is_of_cluster)| *is_of_cluster);
        let mut names: BTreeSet<String> = of_cluster.map(|(name, _)| name.into()).collect();
        if *cluster == Key::local() {
            names.extend(self.inner.read().objects.openshift.node_names());
        }
        names
    }

    pub(crate) fn version(&self, cluster: &Key) -> Option<(String, String)> {
        self.inner.read().nodes.version(cluster)
    }

    pub(crate) fn set_version(&self, cluster: &Key, major: &str, minor: &str) {
        let version = (major.to_owned(), minor.to_owned());
        self.inner.write().nodes.set_version(cluster, version);
    }

    pub(crate) fn forget_workload(&self, cluster: &Key) {
        let names = {
            let mut inner = self.inner.write();
            inner.lost_watches.set_nodes(cluster, None);
            inner.nodes.forget(cluster)
        };
        // The loss of the connection is announced first; otherwise the Nodes would look deleted.
        self.announce(&Change::Workload(cluster.clone()));
        for name in names {
            self.announce(&Change::Node(cluster.clone(), name));
        }
    }

    pub(crate) fn node(&self, cluster: &Key, name: &str) -> Option<Arc<Node>> {
        let known = self.inner.read().nodes.get(cluster, name)?.clone();
        Some(known.whole())
    }

    /// The fields of a Node that verdicts use; faster than the whole Node.
    pub(crate) fn seen_node(&self, cluster: &Key, name: &str) -> Option<Arc<SeenNode>> {
        let inner = self.inner.read();
        Some(inner.nodes.get(cluster, name)?.node.clone())
    }

    /// The Nodes of a cluster, ordered by name. They are read a few at a time.
    pub(crate) fn nodes(&self, cluster: &Key) -> Vec<Arc<Node>> {
        self.nodes_in_pages(cluster).collect()
    }

    /// The Nodes of a cluster, ordered by name. They are read a few at a time, as the names in
    /// [`Self::keys_in_pages`].
    pub(crate) fn nodes_in_pages(&self, cluster: &Key) -> impl Iterator<Item = Arc<Node>> {
        let nodes = self.known_nodes_in_pages(cluster);
        nodes.map(|(_, node)| node.whole())
    }

    fn known_nodes_in_pages(&self, cluster: &Key) -> impl Iterator<Item = (String, KnownNode)> {
        in_pages(move |after: Option<&(String, KnownNode)>| {
            let name = after.map(|(name, _)| name.as_str());
            let inner = self.inner.read();
            let nodes = inner.nodes.after(cluster, name).take(PAGE);
            nodes
                .map(|(name, node)| (name.clone(), node.clone()))
                .collect()
        })
    }

    /// The names of the Nodes of a cluster. They are read a few at a time.
    pub(crate) fn node_names(&self, cluster: &Key) -> Vec<String> {
        self.node_names_in_pages(cluster).collect()
    }

    /// The names of the Nodes of a cluster in their order. They are read a few at a time, as the names in
    /// [`Self::keys_in_pages`].
    pub(crate) fn node_names_in_pages(&self, cluster: &Key) -> impl Iterator<Item = String> {
        in_pages(move |after: Option<&String>| {
            let inner = self.inner.read();
            let nodes = inner.nodes.after(cluster, after.map(String::as_str));
            nodes.take(PAGE).map(|(name, _)| name.clone()).collect()
        })
    }

    /// The Nodes of all clusters with this annotation, and its value. They are read a few at a time.
    pub(crate) fn annotated_nodes(&self, annotation: &str) -> Vec<(Key, String, String)> {
        let clusters: Vec<Key> = self.inner.read().nodes.clusters().cloned().collect();
        let mut found = Vec::new();
        for cluster in clusters {
            let nodes = in_pages(|after: Option<&(String, Option<String>)>| {
                let name = after.map(|(name, _)| name.as_str());
                let inner = self.inner.read();
                let nodes = inner.nodes.after(&cluster, name).take(PAGE);
                let of = |node: &KnownNode| node.node.annotations().get(annotation).cloned();
                nodes.map(|(name, node)| (name.clone(), of(node))).collect()
            });
            let marked = nodes.filter_map(|(name, value)| Some((cluster.clone(), name, value?)));
            found.extend(marked);
        }
        found
    }

    /// The resourceVersion of a Node in the index.
    pub(crate) fn node_version(&self, cluster: &Key, node: &str) -> Option<String> {
        self.inner.read().nodes.get(cluster, node)?.version.clone()
    }

    /// The names of the Nodes of a cluster that may run on this host, in their order. They are found by hashes, so
    /// [`Self::node_on_host`] tells which of them have something in common with it.
    pub(crate) fn names_on_host(&self, cluster: &Key, host: &HostIdentity) -> Vec<Arc<str>> {
        self.inner.read().nodes.names_on_host(cluster, host)
    }

    /// At least the number of names that `names_on_host` would return, without listing them.
    pub(crate) fn count_on_host(&self, cluster: &Key, host: &HostIdentity) -> usize {
        self.inner.read().nodes.count_on_host(cluster, host)
    }

    /// A Node that has something in common with this host, and whether it is Ready.
    pub(crate) fn node_on_host(
        &self,
        cluster: &Key,
        name: &str,
        host: &HostIdentity,
    ) -> Option<(NodeIdentity, bool)> {
        self.inner.read().nodes.on_host(cluster, name, host)
    }

    /// The first Node with this identity that is `wanted`, by its cluster and name.
    pub(crate) fn find_node(
        &self,
        identity: NodeKey<'_>,
        wanted: impl Fn(&Key, &str, &SeenNode) -> bool,
    ) -> Option<(Key, String)> {
        let inner = self.inner.read();
        let mut nodes = inner.nodes.find(identity);
        let found = nodes.find(|(cluster, name, node)| wanted(cluster, name, node));
        found.map(|(cluster, name, _)| (cluster.clone(), name.to_owned()))
    }

    /// The clusters in which the Node of this name has this UID: a management cluster that has a Cluster object
    /// is connected twice.
    pub(crate) fn clusters_of_node(&self, name: &str, uid: &str) -> Vec<Key> {
        let inner = self.inner.read();
        let nodes = inner.nodes.find(NodeKey::NodeName(name));
        let same = nodes.filter(|(_, _, node)| node.meta().uid.as_deref() == Some(uid));
        same.map(|(cluster, ..)| cluster.clone()).collect()
    }

    /// The Machines that name a Node of this name, in clusters where the index shows no such Node.
    pub(crate) fn unseen_machines_with_node(&self, node: &str) -> Vec<(Key, Key)> {
        let inner = self.inner.read();
        let links = inner.objects.machines.with_node(node);
        let is_unseen = |cluster: &Key| inner.nodes.get(cluster, node).is_none();
        links
            .filter(|link| is_unseen(&link.cluster))
            .map(|link| (link.cluster.clone(), link.machine.clone()))
            .collect()
    }

    pub(crate) fn apply_node(&self, cluster: &Key, node: Node) {
        self.apply_seen_node(cluster, node.into());
    }

    /// Applies a version of a Node. A heartbeat is not announced.
    pub(crate) fn apply_seen_node(&self, cluster: &Key, mut node: SeenNode) {
        let name = node.name_any();
        let version = node.take_version();
        let mut inner = self.inner.write();
        if *cluster != Key::local() {
            node.drop_unread_labels(inner.nodes.kept_labels());
        }
        // A read that was answered before the deletion may arrive after it, and nothing would remove the Node again.
        let is_deleted = inner.tombstones.holds(node.uid().as_deref());
        if !is_deleted && inner.nodes.put(cluster, &name, node, version) {
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
        inner.nodes.remove(cluster, name);
        self.announce(&Change::Node(cluster.clone(), name.to_owned()));
        self.moved.notify_waiters();
    }

    pub(crate) fn retain_nodes(&self, cluster: &Key, listed: &BTreeSet<String>) {
        for name in self.node_names_in_pages(cluster) {
            if !listed.contains(&name) {
                self.delete_node(cluster, &name);
            }
        }
    }
}
