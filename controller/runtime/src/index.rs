//! Everything that was observed, by name.
//!
//! Owns the latest version of each object and who must hear of a change. Synchronous: must never
//! await, call an API, or judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::DynamicObject};
use parking_lot::{Mutex, RwLock};
use rackhand_api::views::{
    BareMetalHostView, ClusterView, MachineHealthCheckView, MachineView, Metal3MachineView,
    ViewError,
};
use tokio::sync::Notify;

use crate::{
    object::{Key, Kind, trim},
    remediation::{RequestId, RequestView},
};

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

/// Changes that a consumer has not looked at yet, each once.
#[derive(Default)]
pub(crate) struct Inbox {
    waiting: Mutex<BTreeSet<Change>>,
    bell: Notify,
}

impl Inbox {
    pub(crate) fn push(&self, change: Change) {
        self.waiting.lock().insert(change);
        self.bell.notify_one();
    }

    /// All of them, as soon as there is one.
    pub(crate) async fn take(&self) -> BTreeSet<Change> {
        loop {
            let taken = std::mem::take(&mut *self.waiting.lock());
            if !taken.is_empty() {
                return taken;
            }
            self.bell.notified().await;
        }
    }
}

/// An object and how it reads.
pub(crate) struct Entry<V> {
    pub(crate) object: Arc<DynamicObject>,
    pub(crate) view: Result<Arc<V>, ViewError>,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            view: self.view.clone(),
        }
    }
}

/// What is known of a workload cluster.
#[derive(Clone)]
pub(crate) enum Connection {
    /// Its Nodes are watched.
    Up,
    /// They are not: why.
    Down(String),
}

#[derive(Default)]
struct Workload {
    connection: Option<Connection>,
    /// Major and minor, as its API server says them.
    version: Option<(String, String)>,
    nodes: BTreeMap<String, Arc<Node>>,
}

#[derive(Default)]
struct Inner {
    clusters: BTreeMap<Key, Entry<ClusterView>>,
    machines: BTreeMap<Key, Entry<MachineView>>,
    checks: BTreeMap<Key, Entry<MachineHealthCheckView>>,
    metal3_machines: BTreeMap<Key, Entry<Metal3MachineView>>,
    hosts: BTreeMap<Key, Entry<BareMetalHostView>>,
    requests: BTreeMap<RequestId, Entry<RequestView>>,
    rack_agents: BTreeMap<Key, Arc<DynamicObject>>,
    workloads: BTreeMap<Key, Workload>,
    /// Machines by cluster and Node.
    by_node: BTreeMap<(Key, String), BTreeSet<Key>>,
}

/// The index.
pub(crate) struct Index {
    inner: RwLock<Inner>,
    inboxes: Vec<Arc<Inbox>>,
}

/// The later of two versions of one object: the API server numbers them in order.
fn is_older<K: ResourceExt>(new: &K, old: &K) -> bool {
    let number = |o: &K| o.resource_version().and_then(|v| v.parse::<u64>().ok());
    match (number(new), number(old)) {
        (Some(new_version), Some(old_version)) => {
            new.uid() == old.uid() && new_version < old_version
        }
        _ => false,
    }
}

fn put<K: Ord + Clone, V>(
    map: &mut BTreeMap<K, Entry<V>>,
    key: &K,
    object: Arc<DynamicObject>,
    read: impl FnOnce(&DynamicObject) -> Result<V, ViewError>,
) -> bool {
    if map
        .get(key)
        .is_some_and(|old| is_older(object.as_ref(), old.object.as_ref()))
    {
        return false;
    }
    let view = read(&object).map(Arc::new);
    map.insert(key.clone(), Entry { object, view });
    true
}

impl Index {
    pub(crate) fn new(inboxes: Vec<Arc<Inbox>>) -> Self {
        Self {
            inner: RwLock::default(),
            inboxes,
        }
    }

    /// Tells everybody who listens.
    pub(crate) fn announce(&self, change: &Change) {
        for inbox in &self.inboxes {
            inbox.push(change.clone());
        }
    }

    /// Takes in a version of an object, from a watch or from the answer to a write. An older one
    /// than is known is passed over.
    pub(crate) fn apply(&self, kind: Kind, mut object: DynamicObject) {
        trim(kind, &mut object);
        let key = Key::of(&object);
        let object = Arc::new(object);
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        let taken = match kind {
            Kind::Cluster => put(&mut inner.clusters, &key, object, ClusterView::from_dynamic),
            Kind::Machine => {
                inner.unlink(&key);
                let taken = put(&mut inner.machines, &key, object, MachineView::from_dynamic);
                inner.link(&key);
                taken
            }
            Kind::MachineHealthCheck => put(
                &mut inner.checks,
                &key,
                object,
                MachineHealthCheckView::from_dynamic,
            ),
            Kind::Metal3Machine => put(
                &mut inner.metal3_machines,
                &key,
                object,
                Metal3MachineView::from_dynamic,
            ),
            Kind::BareMetalHost => put(
                &mut inner.hosts,
                &key,
                object,
                BareMetalHostView::from_dynamic,
            ),
            Kind::Metal3Remediation | Kind::PowerRemediation => put(
                &mut inner.requests,
                &RequestId::new(kind, key.clone()),
                object,
                |object| RequestView::read(kind, object),
            ),
            Kind::RackAgent => {
                let old = inner.rack_agents.get(&key);
                let newer = old.is_none_or(|old| !is_older(object.as_ref(), old.as_ref()));
                if newer {
                    inner.rack_agents.insert(key.clone(), object);
                }
                newer
            }
        };
        if taken {
            self.announce(&Change::Object(kind, key));
        }
    }

    pub(crate) fn delete(&self, kind: Kind, key: &Key) {
        {
            let mut inner = self.inner.write();
            match kind {
                Kind::Cluster => drop(inner.clusters.remove(key)),
                Kind::Machine => {
                    inner.unlink(key);
                    inner.machines.remove(key);
                }
                Kind::MachineHealthCheck => drop(inner.checks.remove(key)),
                Kind::Metal3Machine => drop(inner.metal3_machines.remove(key)),
                Kind::BareMetalHost => drop(inner.hosts.remove(key)),
                Kind::Metal3Remediation | Kind::PowerRemediation => {
                    drop(inner.requests.remove(&RequestId::new(kind, key.clone())));
                }
                Kind::RackAgent => drop(inner.rack_agents.remove(key)),
            }
        }
        self.announce(&Change::Object(kind, key.clone()));
    }

    /// Drops what a fresh list does not name.
    pub(crate) fn retain(&self, kind: Kind, listed: &BTreeSet<Key>) {
        let known: Vec<Key> = {
            let inner = self.inner.read();
            match kind {
                Kind::Cluster => inner.clusters.keys().cloned().collect(),
                Kind::Machine => inner.machines.keys().cloned().collect(),
                Kind::MachineHealthCheck => inner.checks.keys().cloned().collect(),
                Kind::Metal3Machine => inner.metal3_machines.keys().cloned().collect(),
                Kind::BareMetalHost => inner.hosts.keys().cloned().collect(),
                Kind::Metal3Remediation | Kind::PowerRemediation => {
                    let requests = inner.requests.keys().filter(|id| id.kind == kind);
                    requests.map(|id| id.key.clone()).collect()
                }
                Kind::RackAgent => inner.rack_agents.keys().cloned().collect(),
            }
        };
        for key in known.iter().filter(|k| !listed.contains(k)) {
            self.delete(kind, key);
        }
    }

    pub(crate) fn cluster(&self, key: &Key) -> Option<Entry<ClusterView>> {
        self.inner.read().clusters.get(key).cloned()
    }

    pub(crate) fn clusters(&self) -> Vec<Key> {
        self.inner.read().clusters.keys().cloned().collect()
    }

    pub(crate) fn machine(&self, key: &Key) -> Option<Entry<MachineView>> {
        self.inner.read().machines.get(key).cloned()
    }

    /// The Machines of a namespace, in the order of their names.
    pub(crate) fn machines_in(&self, namespace: &str) -> Vec<Entry<MachineView>> {
        let inner = self.inner.read();
        let from = Key::new(namespace, "");
        inner
            .machines
            .range(from..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, entry)| entry.clone())
            .collect()
    }

    /// The Machines of all clusters whose nodeRef has this name.
    pub(crate) fn machines_with_node(&self, node: &str) -> Vec<Entry<MachineView>> {
        let inner = self.inner.read();
        let fits = |e: &&Entry<MachineView>| {
            let view = e.view.as_ref();
            view.is_ok_and(|m| m.node_name.as_deref() == Some(node))
        };
        inner.machines.values().filter(fits).cloned().collect()
    }

    pub(crate) fn check(&self, key: &Key) -> Option<Entry<MachineHealthCheckView>> {
        self.inner.read().checks.get(key).cloned()
    }

    pub(crate) fn checks(&self) -> Vec<(Key, Entry<MachineHealthCheckView>)> {
        self.inner
            .read()
            .checks
            .iter()
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect()
    }

    pub(crate) fn metal3_machine(&self, key: &Key) -> Option<Entry<Metal3MachineView>> {
        self.inner.read().metal3_machines.get(key).cloned()
    }

    pub(crate) fn host(&self, key: &Key) -> Option<Entry<BareMetalHostView>> {
        self.inner.read().hosts.get(key).cloned()
    }

    pub(crate) fn hosts(&self) -> Vec<(Key, Entry<BareMetalHostView>)> {
        self.inner
            .read()
            .hosts
            .iter()
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect()
    }

    pub(crate) fn request(&self, id: &RequestId) -> Option<Entry<RequestView>> {
        self.inner.read().requests.get(id).cloned()
    }

    pub(crate) fn requests(&self) -> Vec<(RequestId, Entry<RequestView>)> {
        self.inner
            .read()
            .requests
            .iter()
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect()
    }

    /// Some request names a Node of this very cluster.
    pub(crate) fn has_requests_by_node(&self) -> bool {
        let inner = self.inner.read();
        inner
            .requests
            .values()
            .any(|e| e.view.as_ref().is_ok_and(|v| v.node().is_some()))
    }

    pub(crate) fn rack_agents(&self) -> Vec<(Key, Arc<DynamicObject>)> {
        self.inner
            .read()
            .rack_agents
            .iter()
            .map(|(k, o)| (k.clone(), o.clone()))
            .collect()
    }

    /// The Machines whose nodeRef names this Node.
    pub(crate) fn machines_of_node(&self, cluster: &Key, node: &str) -> BTreeSet<Key> {
        let name = (cluster.clone(), node.to_owned());
        self.inner
            .read()
            .by_node
            .get(&name)
            .cloned()
            .unwrap_or_default()
    }

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
        self.inner.write().workloads.remove(cluster);
        self.announce(&Change::Workload(cluster.clone()));
    }

    pub(crate) fn node(&self, cluster: &Key, name: &str) -> Option<Arc<Node>> {
        self.inner
            .read()
            .workloads
            .get(cluster)?
            .nodes
            .get(name)
            .cloned()
    }

    /// The Nodes of a cluster, in the order of their names.
    pub(crate) fn nodes(&self, cluster: &Key) -> Vec<Arc<Node>> {
        let inner = self.inner.read();
        let workload = inner.workloads.get(cluster);
        workload.map_or_else(Vec::new, |w| w.nodes.values().cloned().collect())
    }

    pub(crate) fn apply_node(&self, cluster: &Key, mut node: Node) {
        crate::cluster::trim(&mut node);
        let name = node.name_any();
        let changed = {
            let mut inner = self.inner.write();
            let nodes = &mut inner.workloads.entry(cluster.clone()).or_default().nodes;
            let old = nodes.get(&name);
            if old.is_some_and(|old| is_older(&node, old.as_ref())) {
                return;
            }
            let changed = old.is_none_or(|old| matters(old, &node));
            nodes.insert(name.clone(), Arc::new(node));
            changed
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

impl Inner {
    fn link_name(&self, key: &Key) -> Option<(Key, String)> {
        let view = self.machines.get(key)?.view.as_ref().ok()?;
        let cluster = view.cluster_name.clone()?;
        Some((Key::new(&key.namespace, cluster), view.node_name.clone()?))
    }

    fn link(&mut self, key: &Key) {
        if let Some(name) = self.link_name(key) {
            self.by_node.entry(name).or_default().insert(key.clone());
        }
    }

    fn unlink(&mut self, key: &Key) {
        if let Some(name) = self.link_name(key)
            && let Some(machines) = self.by_node.get_mut(&name)
        {
            machines.remove(key);
            if machines.is_empty() {
                self.by_node.remove(&name);
            }
        }
    }
}

/// Whether a Node has changed in anything but a heartbeat.
fn matters(old: &Node, new: &Node) -> bool {
    let conditions = |n: &Node| -> Vec<(String, String, Option<String>, Option<jiff::Timestamp>)> {
        let list = n.status.as_ref().and_then(|s| s.conditions.as_ref());
        list.into_iter()
            .flatten()
            .map(|c| {
                let since = c.last_transition_time.as_ref().map(|t| t.0);
                (c.type_.clone(), c.status.clone(), c.reason.clone(), since)
            })
            .collect()
    };
    let boot = |n: &Node| {
        n.status
            .as_ref()
            .and_then(|s| s.node_info.as_ref())
            .map(|i| i.boot_id.clone())
    };
    old.metadata.uid != new.metadata.uid
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.spec != new.spec
        || boot(old) != boot(new)
        || conditions(old) != conditions(new)
}

#[cfg(test)]
mod tests;
