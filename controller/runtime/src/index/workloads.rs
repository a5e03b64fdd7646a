//! Workload clusters: their connections, and their Nodes, packed.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{Change, Connection, Index, Packed, SeenNode, Slot, is_less, readable};
use crate::object::Key;

impl Index {
    pub(crate) fn connection(&self, cluster: &Key) -> Connection {
        let inner = self.inner.read();
        let known = inner
            .workloads
            .get(cluster)
            .and_then(|w| w.connection.clone());
        known.unwrap_or_else(|| Connection::Down("not connected yet".into()))
    }

    pub(crate) fn set_connection(&self, cluster: &Key, connection: Connection) {
        {
            let mut inner = self.inner.write();
            inner
                .workloads
                .entry(cluster.clone())
                .or_default()
                .connection = Some(connection);
        }
        self.announce(&Change::Workload(cluster.clone()));
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
        let known = self.inner.write().workloads.remove(cluster);
        // First that it cannot be asked, or its Nodes would look deleted.
        self.announce(&Change::Workload(cluster.clone()));
        for name in known.into_iter().flat_map(|w| w.nodes.into_keys()) {
            self.announce(&Change::Node(cluster.clone(), name));
        }
    }

    pub(crate) fn node(&self, cluster: &Key, name: &str) -> Option<Arc<Node>> {
        let (packed, version) = {
            let inner = self.inner.read();
            let slot = inner.workloads.get(cluster)?.nodes.get(name)?;
            (slot.packed.clone(), slot.version.clone())
        };
        node(&packed, version)
    }

    /// What a verdict looks at; quicker than the whole.
    pub(crate) fn seen_node(&self, cluster: &Key, name: &str) -> Option<SeenNode> {
        let packed = {
            let inner = self.inner.read();
            inner
                .workloads
                .get(cluster)?
                .nodes
                .get(name)?
                .packed
                .clone()
        };
        readable(&packed)
    }

    /// The Nodes of a cluster, in the order of their names.
    pub(crate) fn nodes(&self, cluster: &Key) -> Vec<Arc<Node>> {
        let packed: Vec<(Packed, Option<String>)> = {
            let inner = self.inner.read();
            let slots = inner.workloads.get(cluster).map(|w| w.nodes.values());
            let copy = |slot: &Slot| (slot.packed.clone(), slot.version.clone());
            slots.into_iter().flatten().map(copy).collect()
        };
        let read = packed
            .into_iter()
            .map(|(packed, version)| node(&packed, version));
        read.flatten().collect()
    }

    pub(crate) fn apply_node(&self, cluster: &Key, node: Node) {
        self.apply_seen_node(cluster, node.into());
    }

    /// Takes in a version of a Node. A heartbeat ends here.
    pub(crate) fn apply_seen_node(&self, cluster: &Key, mut node: SeenNode) {
        let name = node.name_any();
        let uid = node.uid();
        let version = node.take_version();
        let Ok(value) = serde_json::to_value(&node) else {
            return;
        };
        let changed = {
            let mut inner = self.inner.write();
            let inner = &mut *inner;
            let nodes = &mut inner.workloads.entry(cluster.clone()).or_default().nodes;
            let packed = inner.frames.pack(&value);
            match nodes.get_mut(&name) {
                Some(old) => {
                    let same = packed == old.packed;
                    let late = is_less(version.as_deref(), old.version.as_deref());
                    let of_same =
                        same || readable::<SeenNode>(&old.packed).and_then(|n| n.uid()) == uid;
                    if late && of_same {
                        return;
                    }
                    *old = Slot { packed, version };
                    !same
                }
                None => {
                    nodes.insert(name.clone(), Slot { packed, version });
                    true
                }
            }
        };
        if changed {
            self.announce(&Change::Node(cluster.clone(), name));
        }
    }

    pub(crate) fn delete_node(&self, cluster: &Key, name: &str) {
        {
            let mut inner = self.inner.write();
            if let Some(workload) = inner.workloads.get_mut(cluster) {
                workload.nodes.remove(name);
            }
        }
        self.announce(&Change::Node(cluster.clone(), name.to_owned()));
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

fn node(packed: &Packed, version: Option<String>) -> Option<Arc<Node>> {
    let mut node: Node = readable(packed)?;
    node.metadata.resource_version = version;
    Some(Arc::new(node))
}
