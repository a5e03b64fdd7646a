//! Index of all observed objects by name.
//!
//! Holds the latest version of each object and announces changes to consumers. Synchronous: never awaits,
//! calls an API, or decides anything.

mod change_queue;
mod host_identities;
mod host_links;
mod lost_watches;
mod machines;
mod node;
mod node_lookup;
mod openshift;
mod tombstones;
mod trim;
mod versions;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{ResourceExt, api::DynamicObject};
use parking_lot::RwLock;
use rackhand_api::views::{
    BareMetalHostView, ClusterView, MachineHealthCheckView, Metal3MachineView, NodeHealthCheckView,
    ViewError,
};

use tokio::sync::Notify;

pub(crate) use change_queue::{Change, ChangeQueue};
pub(crate) use host_links::HostLink;
use machines::StoredMachine;
pub(crate) use node::SeenNode;
pub(crate) use tombstones::Tombstones;

use crate::store::{
    object::{Key, Kind},
    power_policy::StoredPolicy,
    remediation::{RemediationId, RemediationObject},
};

/// An object and its parsed view.
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
    hosts: host_identities::HostIdentities,
    /// Names for which a live read found no Node, and the watch has reported none since.
    absent: BTreeSet<String>,
}

/// A Node and its resourceVersion. A new version alone is not announced.
#[derive(Clone)]
struct KnownNode {
    node: Arc<SeenNode>,
    version: Option<String>,
}

#[derive(Default)]
struct Inner {
    clusters: BTreeMap<Key, Entry<ClusterView>>,
    machines: BTreeMap<Key, StoredMachine>,
    checks: BTreeMap<Key, Entry<MachineHealthCheckView>>,
    node_checks: BTreeMap<Key, Entry<NodeHealthCheckView>>,
    /// The kinds of checks for which the Nodes of the management cluster are watched.
    own_nodes_for: BTreeSet<Kind>,
    metal3_machines: BTreeMap<Key, Entry<Metal3MachineView>>,
    hosts: BTreeMap<Key, Entry<BareMetalHostView>>,
    host_links: host_links::HostLinks,
    requests: BTreeMap<RemediationId, Entry<RemediationObject>>,
    /// The remediations that name a Node of the management cluster.
    requests_by_node: BTreeSet<RemediationId>,
    rack_agents: BTreeMap<Key, Arc<DynamicObject>>,
    /// RemediationStates, by the UID of their remediation.
    states: BTreeMap<Key, Arc<DynamicObject>>,
    power_policies: BTreeMap<Key, Entry<StoredPolicy>>,
    openshift: openshift::OpenShiftObjects,
    tombstones: Tombstones,
    workloads: BTreeMap<Key, Workload>,
    lost_watches: lost_watches::LostWatches,
    lookup: node_lookup::NodeLookup,
    /// Machines by the name of their Node. Nodes of several clusters may have the same name.
    by_node: BTreeMap<Box<str>, Vec<Link>>,
}

/// A Machine with the Node that its nodeRef names.
#[derive(PartialEq)]
struct Link {
    cluster: Key,
    machine: Key,
}

/// Index of objects of the management cluster and of Nodes of workload clusters.
///
/// A change is announced under the lock that applies it, so that a consumer that observes a state of the
/// index finds every change up to that state in its queue.
pub(crate) struct Index {
    inner: RwLock<Inner>,
    inboxes: Vec<Arc<ChangeQueue>>,
    /// Wakes tasks that wait until the index has reached a state.
    moved: Notify,
}

/// Whether the resourceVersion `new` is smaller than `old`: the API server assigns them in increasing order.
fn is_less(new: Option<&str>, old: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|v| v.parse::<u64>().ok());
    number(new)
        .zip(number(old))
        .is_some_and(|(new, old)| new < old)
}

/// Whether `new` is an older version of the same object than `old`.
fn is_older<K: ResourceExt>(new: &K, old: &K) -> bool {
    new.uid() == old.uid()
        && is_less(
            new.resource_version().as_deref(),
            old.resource_version().as_deref(),
        )
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

/// Puts an object that is read by its consumers.
fn put_object(
    map: &mut BTreeMap<Key, Arc<DynamicObject>>,
    key: &Key,
    object: Arc<DynamicObject>,
) -> bool {
    let old = map.get(key);
    let is_newer = old.is_none_or(|old| !is_older(object.as_ref(), old.as_ref()));
    if is_newer {
        map.insert(key.clone(), object);
    }
    is_newer
}

impl Inner {
    fn put_host(&mut self, key: &Key, object: Arc<DynamicObject>) -> bool {
        let view = |hosts: &BTreeMap<Key, Entry<BareMetalHostView>>| {
            hosts.get(key).and_then(|entry| entry.view.clone().ok())
        };
        let old = view(&self.hosts);
        let read = BareMetalHostView::from_dynamic;
        let taken = put(&mut self.hosts, key, object, read);
        let new = view(&self.hosts);
        self.host_links.replace(key, old.as_deref(), new.as_deref());
        taken
    }

    fn remove_host(&mut self, key: &Key) {
        let old = self.hosts.remove(key).and_then(|entry| entry.view.ok());
        self.host_links.replace(key, old.as_deref(), None);
    }

    fn put_request(&mut self, id: RemediationId, object: Arc<DynamicObject>) -> bool {
        let read = |object: &DynamicObject| RemediationObject::read(id.kind, object);
        if !put(&mut self.requests, &id, object, read) {
            return false;
        }
        let view = self.requests.get(&id).and_then(|e| e.view.as_ref().ok());
        if view.is_some_and(|view| view.node().is_some()) {
            self.requests_by_node.insert(id);
        } else {
            self.requests_by_node.remove(&id);
        }
        true
    }
}

impl Index {
    pub(crate) fn new(inboxes: Vec<Arc<ChangeQueue>>) -> Self {
        Self {
            inner: RwLock::default(),
            inboxes,
            moved: Notify::new(),
        }
    }

    /// Queues a change for every consumer.
    pub(crate) fn announce(&self, change: &Change) {
        for inbox in self.inboxes.iter().filter(|inbox| inbox.wants(change)) {
            inbox.push(change.clone());
        }
    }

    /// Applies a version of an object, from a watch or from the response to a write. A version older than the
    /// known one is ignored.
    pub(crate) fn apply(&self, kind: Kind, mut object: DynamicObject) {
        let key = Key::of(&object);
        trim::trim(kind, &mut object);
        let object = Arc::new(object);
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        if inner.tombstones.holds(object.metadata.uid.as_deref()) {
            return;
        }
        let taken = match kind {
            Kind::Cluster => put(&mut inner.clusters, &key, object, ClusterView::from_dynamic),
            Kind::Machine => inner.put_machine(&key, &object),
            Kind::MachineHealthCheck => put(
                &mut inner.checks,
                &key,
                object,
                MachineHealthCheckView::from_dynamic,
            ),
            Kind::NodeHealthCheck => put(
                &mut inner.node_checks,
                &key,
                object,
                NodeHealthCheckView::from_dynamic,
            ),
            Kind::Metal3Machine => put(
                &mut inner.metal3_machines,
                &key,
                object,
                Metal3MachineView::from_dynamic,
            ),
            Kind::BareMetalHost => inner.put_host(&key, object),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                inner.put_request(RemediationId::new(kind, key.clone()), object)
            }
            Kind::RackAgent => put_object(&mut inner.rack_agents, &key, object),
            Kind::RemediationState => put_object(&mut inner.states, &key, object),
            Kind::PowerPolicy => put(&mut inner.power_policies, &key, object, StoredPolicy::read),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => {
                inner.openshift.put(kind, &key, object)
            }
        };
        if taken {
            self.announce(&Change::Object(kind, key));
        }
        self.moved.notify_waiters();
    }

    /// Applies the deletion of an object, as reported by a watch.
    pub(crate) fn deleted(&self, kind: Kind, object: &DynamicObject) {
        if let Some(uid) = &object.metadata.uid {
            self.inner.write().tombstones.put(uid);
        }
        self.delete(kind, &Key::of(object));
    }

    pub(crate) fn delete(&self, kind: Kind, key: &Key) {
        let mut inner = self.inner.write();
        match kind {
            Kind::Cluster => drop(inner.clusters.remove(key)),
            Kind::Machine => {
                inner.unlink(key);
                inner.machines.remove(key);
            }
            Kind::MachineHealthCheck => drop(inner.checks.remove(key)),
            Kind::NodeHealthCheck => drop(inner.node_checks.remove(key)),
            Kind::Metal3Machine => drop(inner.metal3_machines.remove(key)),
            Kind::BareMetalHost => inner.remove_host(key),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                let id = RemediationId::new(kind, key.clone());
                inner.requests.remove(&id);
                inner.requests_by_node.remove(&id);
            }
            Kind::RackAgent => drop(inner.rack_agents.remove(key)),
            Kind::RemediationState => drop(inner.states.remove(key)),
            Kind::PowerPolicy => drop(inner.power_policies.remove(key)),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => inner.openshift.remove(kind, key),
        }
        if matches!(kind, Kind::Machine | Kind::OpenShiftMachine) {
            inner.prune_absent();
        }
        self.announce(&Change::Object(kind, key.clone()));
        self.moved.notify_waiters();
    }

    /// Deletes the objects of a kind that a new list does not contain.
    pub(crate) fn retain(&self, kind: Kind, listed: &BTreeSet<Key>) {
        let known = self.keys(kind);
        for key in known.iter().filter(|k| !listed.contains(k)) {
            self.delete(kind, key);
        }
    }

    /// The names of all objects of a kind.
    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        let inner = self.inner.read();
        match kind {
            Kind::Cluster => inner.clusters.keys().cloned().collect(),
            Kind::Machine => inner.machines.keys().cloned().collect(),
            Kind::MachineHealthCheck => inner.checks.keys().cloned().collect(),
            Kind::NodeHealthCheck => inner.node_checks.keys().cloned().collect(),
            Kind::Metal3Machine => inner.metal3_machines.keys().cloned().collect(),
            Kind::BareMetalHost => inner.hosts.keys().cloned().collect(),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                let requests = inner.requests.keys().filter(|id| id.kind == kind);
                requests.map(|id| id.key.clone()).collect()
            }
            Kind::RackAgent => inner.rack_agents.keys().cloned().collect(),
            Kind::RemediationState => inner.states.keys().cloned().collect(),
            Kind::PowerPolicy => inner.power_policies.keys().cloned().collect(),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => inner.openshift.keys(kind),
        }
    }

    pub(crate) fn cluster(&self, key: &Key) -> Option<Entry<ClusterView>> {
        self.inner.read().clusters.get(key).cloned()
    }

    pub(crate) fn clusters(&self) -> Vec<Key> {
        self.inner.read().clusters.keys().cloned().collect()
    }

    pub(crate) fn check(&self, key: &Key) -> Option<Entry<MachineHealthCheckView>> {
        self.inner.read().checks.get(key).cloned()
    }

    pub(crate) fn node_check(&self, key: &Key) -> Option<Entry<NodeHealthCheckView>> {
        self.inner.read().node_checks.get(key).cloned()
    }

    /// The MachineHealthChecks of Cluster API in a namespace.
    pub(crate) fn checks_in(&self, namespace: &str) -> Vec<Entry<MachineHealthCheckView>> {
        let inner = self.inner.read();
        let from = inner.checks.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, entry)| entry.clone())
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

    pub(crate) fn request(&self, id: &RemediationId) -> Option<Entry<RemediationObject>> {
        self.inner.read().requests.get(id).cloned()
    }

    pub(crate) fn requests(&self) -> Vec<(RemediationId, Entry<RemediationObject>)> {
        let inner = self.inner.read();
        let requests = inner.requests.iter();
        requests
            .map(|(id, entry)| (id.clone(), entry.clone()))
            .collect()
    }

    /// Whether a remediation names a Node of the management cluster.
    pub(crate) fn has_requests_by_node(&self) -> bool {
        !self.inner.read().requests_by_node.is_empty()
    }

    pub(crate) fn power_policies(&self) -> Vec<Entry<StoredPolicy>> {
        self.inner.read().power_policies.values().cloned().collect()
    }

    pub(crate) fn rack_agent(&self, key: &Key) -> Option<Arc<DynamicObject>> {
        self.inner.read().rack_agents.get(key).cloned()
    }

    /// RemediationStates of remediations that are not in the index.
    pub(crate) fn unneeded_states(&self) -> Vec<Arc<DynamicObject>> {
        let inner = self.inner.read();
        let requests = inner.requests.values();
        let uids: BTreeSet<&str> = requests
            .filter_map(|entry| entry.object.metadata.uid.as_deref())
            .collect();
        let unneeded = inner
            .states
            .iter()
            .filter(|(key, _)| !uids.contains(key.name.as_str()));
        unneeded.map(|(_, object)| object.clone()).collect()
    }

    /// The RemediationState of the remediation with this UID.
    pub(crate) fn remediation_state(&self, uid: &str) -> Option<Arc<DynamicObject>> {
        self.inner.read().states.get(&Key::new("", uid)).cloned()
    }

    pub(crate) fn rack_agents(&self) -> Vec<(Key, Arc<DynamicObject>)> {
        self.inner
            .read()
            .rack_agents
            .iter()
            .map(|(k, o)| (k.clone(), o.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests;
