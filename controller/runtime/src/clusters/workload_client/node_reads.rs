//! Live reads of the Nodes of one cluster, or of their Leases, each by a call of its own or by a list that all share who
//! ask at the same time (F5, F12, F14). `rackhand_core::watches::list_choice` decides which.
//!
//! Invariant: either is a consistent read that begins after the question, so that an object which a list of all lacks is
//! absent. A list that fails, or that selects by label and lacks the Node, is followed by a call of its own, unless the API
//! server does not answer at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo},
    },
    apimachinery::pkg::apis::meta::v1::{
        FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
    },
};
use kube::{
    Client, ResourceExt,
    api::{GetParams, ListParams},
    core::Request,
};
use parking_lot::Mutex;
use rackhand_api::names::{NODE_LEASE_NAMESPACE, is_object_name};
use rackhand_core::watches::{
    list_choice::{ListChoice, Size, Source, Subject},
    named_list::{Answer, ConsistentLists, Extent, HOSTNAME_LABEL, NodeLabels},
    shared_list::Answers,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::calls::Calls;
use crate::{
    clusters::{
        node_conversion::lease_renewal,
        pages::{self, PagedList, fetch},
    },
    store::{
        api::{ApiError, CALL_TIMEOUT, optional},
        clock,
        shared_reads::JoinedList,
    },
};

/// Timeout of all pages of a shared list, as of the one call that it replaces.
const LIST_TIMEOUT: Duration = CALL_TIMEOUT;
/// Lists that select Nodes and are under way at the same time, where they are too many for one.
const CONCURRENT: usize = 4;
/// At how many objects a list that selects Nodes is given up: many have the same label.
const MOST_NAMED: usize = 500;

/// What is read of each Node.
pub(super) trait OfNode: Clone + Send + Sync + Sized + 'static {
    /// The fields that are parsed.
    type Wire: DeserializeOwned + Send;
    const SUBJECT: Subject;
    /// The kind, for messages.
    const KIND: &'static str;

    /// The path of the kind.
    fn path() -> String;
    /// The name of the Node, and what is kept.
    fn read(wire: Self::Wire) -> (String, Self);

    /// The label by which a list selects it.
    fn hostname(&self) -> Option<&str> {
        None
    }
}

/// A Node without images, addresses, capacities and the like, which are most of it.
#[derive(Deserialize)]
pub(super) struct WireNode {
    #[serde(default)]
    metadata: WireMeta,
    spec: Option<NodeSpec>,
    status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMeta {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<WireManager>>,
    name: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// A manager of fields.
#[derive(Deserialize)]
struct WireManager {
    manager: Option<String>,
    #[serde(rename = "fieldsV1")]
    fields: Option<WireFields>,
}

/// The managed fields of a spec. Those of a status, with one for each condition, take more memory than all that is read.
#[derive(Deserialize)]
struct WireFields {
    #[serde(rename = "f:spec")]
    spec: Option<Value>,
}

impl WireManager {
    /// The entry of a manager of fields of the spec.
    fn of_spec(self) -> Option<ManagedFieldsEntry> {
        let spec = self.fields?.spec?;
        Some(ManagedFieldsEntry {
            manager: self.manager,
            fields_v1: Some(FieldsV1(json!({ "f:spec": spec }))),
            ..ManagedFieldsEntry::default()
        })
    }
}

impl From<WireMeta> for ObjectMeta {
    fn from(wire: WireMeta) -> Self {
        let managers = wire.managed_fields.into_iter().flatten();
        let managers: Vec<_> = managers.filter_map(WireManager::of_spec).collect();
        Self {
            annotations: wire.annotations,
            creation_timestamp: wire.creation_timestamp,
            deletion_timestamp: wire.deletion_timestamp,
            finalizers: wire.finalizers,
            labels: wire.labels,
            managed_fields: (!managers.is_empty()).then_some(managers),
            name: wire.name,
            owner_references: wire.owner_references,
            resource_version: wire.resource_version,
            uid: wire.uid,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus {
    conditions: Option<Vec<NodeCondition>>,
    node_info: Option<NodeSystemInfo>,
}

impl OfNode for Node {
    type Wire = WireNode;
    const SUBJECT: Subject = Subject::Nodes;
    const KIND: &'static str = "node";

    fn path() -> String {
        "/api/v1/nodes".into()
    }

    fn read(wire: WireNode) -> (String, Self) {
        let status = wire.status.map(|status| NodeStatus {
            conditions: status.conditions,
            node_info: status.node_info,
            ..NodeStatus::default()
        });
        let name = wire.metadata.name.clone().unwrap_or_default();
        let node = Self {
            metadata: wire.metadata.into(),
            spec: wire.spec,
            status,
        };
        (name, node)
    }

    fn hostname(&self) -> Option<&str> {
        self.labels().get(HOSTNAME_LABEL).map(String::as_str)
    }
}

/// renewTime and duration of the Lease of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Renewal(pub(super) Option<(String, Duration)>);

impl OfNode for Renewal {
    type Wire = Lease;
    const SUBJECT: Subject = Subject::Leases;
    const KIND: &'static str = "Lease";

    fn path() -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{NODE_LEASE_NAMESPACE}/leases")
    }

    fn read(wire: Lease) -> (String, Self) {
        let renewal = Self(lease_renewal(&wire));
        (wire.metadata.name.unwrap_or_default(), renewal)
    }
}

/// The result of a live read.
pub(super) struct LiveRead<T> {
    /// `None`: there is no such object.
    pub(super) found: Option<T>,
    /// The time before it was read.
    pub(super) begun: Timestamp,
}

/// The live reads of one kind in one cluster.
pub(super) struct NodeReads<T> {
    reader: Arc<Reader>,
    shared: JoinedList<Answer<T>>,
}

/// Makes the calls.
struct Reader {
    client: Client,
    calls: Arc<Calls>,
    choice: Mutex<ListChoice>,
    labels: Mutex<NodeLabels>,
    /// Nodes of the cluster, as its watch shows them.
    nodes: Arc<AtomicUsize>,
    /// Whether a list was refused, which is logged once.
    refused: AtomicBool,
}

// === impl NodeReads ===

impl<T: OfNode> NodeReads<T> {
    /// `nodes`: how many Nodes the cluster has.
    pub(super) fn new(client: &Client, calls: &Arc<Calls>, nodes: &Arc<AtomicUsize>) -> Self {
        let reader = Arc::new(Reader {
            client: client.clone(),
            calls: calls.clone(),
            choice: Mutex::new(ListChoice::new(T::SUBJECT)),
            labels: Mutex::default(),
            nodes: nodes.clone(),
            refused: AtomicBool::new(false),
        });
        let of_list = reader.clone();
        let shared = JoinedList::new(
            Arc::new(move |names| {
                let reader = of_list.clone();
                async move { reader.shared::<T>(names).await }.boxed()
            }),
            T::SUBJECT.gap(),
        );
        Self { reader, shared }
    }

    /// Records how the API server answers lists.
    pub(super) fn served(&self, lists: ConsistentLists) {
        self.reader.choice.lock().served(lists);
    }

    /// Reads the object of this Node. No Node has a name that the API server would not take.
    ///
    /// # Errors
    /// The API server was not read.
    pub(super) async fn of(&self, node: &str) -> Result<LiveRead<T>, ApiError> {
        if !is_object_name(node) {
            let begun = clock::monotonic_now();
            return Ok(LiveRead { found: None, begun });
        }
        if !self.reader.is_shared::<T>(node) {
            return self.reader.alone(node).await;
        }
        let shared = self.shared.of(node).await;
        let found = match shared {
            Ok((Answer::Found(object), begun)) => (Some(object), begun),
            Ok((Answer::Absent, begun)) => (None, begun),
            Ok((Answer::Unknown, _)) => return self.reader.alone(node).await,
            Err(error) if is_answered_alone(&error) => return self.reader.alone(node).await,
            Err(error) => return Err(ApiError::other(format!("{} {node}", T::KIND), error)),
        };
        let (found, begun) = found;
        Ok(LiveRead { found, begun })
    }
}

// === impl Reader ===

impl Reader {
    /// Whether the next list answers about this Node.
    fn is_shared<T: OfNode>(&self, node: &str) -> bool {
        let nodes = self.nodes.load(Ordering::Relaxed);
        let (source, extent) = {
            let mut choice = self.choice.lock();
            let source = choice.choose(node, nodes, clock::monotonic_now());
            (source, choice.extent(nodes))
        };
        let is_listed = extent == Extent::All || self.labels.lock().value(node).is_some();
        source == Source::Shared && is_listed
    }

    /// Reads it by a call of its own.
    async fn alone<T: OfNode>(&self, node: &str) -> Result<LiveRead<T>, ApiError> {
        let what = format!("{} {node}", T::KIND);
        let _permit = self.calls.acquire().await?;
        let (begun, asked) = (clock::monotonic_now(), Instant::now());
        let request = Request::new(T::path()).get(node, &GetParams::default());
        let request = request.map_err(|error| ApiError::other(&what, error))?;
        let read = fetch::<T::Wire>(&self.client, &what, request).await;
        self.calls.record_answer(&read);
        if T::SUBJECT == Subject::Nodes {
            self.calls.record_load(&read, asked.elapsed());
        }
        let found = optional(read)?.map(|(wire, bytes)| {
            self.choice.lock().read_node(Size { objects: 1, bytes });
            T::read(wire).1
        });
        if T::SUBJECT == Subject::Nodes {
            let mut labels = self.labels.lock();
            match &found {
                Some(object) => labels.seen(node, object.hostname()),
                None => labels.forget(node),
            }
        }
        Ok(LiveRead { found, begun })
    }

    /// Answers about these names by one list, or by as many as their labels take; about a single one by a call of its own.
    async fn shared<T: OfNode>(
        &self,
        names: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Answer<T>>, ApiError> {
        if let (1, Some(name)) = (names.len(), names.first()) {
            let found = self.alone(name).await?.found;
            let answer = Extent::All.answer(found);
            return Ok(BTreeMap::from([(name.clone(), answer)]));
        }
        let nodes = self.nodes.load(Ordering::Relaxed);
        let extent = self.choice.lock().extent(nodes);
        let asked = Instant::now();
        let (listed, calls) = match extent {
            Extent::All => (self.all(names).await, None),
            Extent::Named => {
                let selectors = self.labels.lock().selectors(&names);
                let calls = selectors.len();
                (self.named(names, selectors).await, Some(calls))
            }
        };
        self.calls.record_answer(&listed);
        let took = match &listed {
            Ok((_, size)) => {
                self.refused.store(false, Ordering::Relaxed);
                let mut choice = self.choice.lock();
                match calls {
                    None => choice.listed_all(*size, asked.elapsed()),
                    Some(calls) => choice.listed_named(calls, *size, asked.elapsed()),
                }
            }
            Err(error) => {
                self.choice.lock().failed(clock::monotonic_now());
                let is_refused = error.is_forbidden();
                // Each minute it is tried again.
                if !is_refused || !self.refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "a shared list failed; each is read by a call of its own for a minute");
                }
                asked.elapsed()
            }
        };
        if T::SUBJECT == Subject::Nodes {
            self.calls.record_load(&listed, took);
        }
        let (found, _) = listed?;
        let answers = found.into_iter();
        Ok(answers
            .map(|(name, found)| (name, extent.answer(found)))
            .collect())
    }

    /// Lists all objects of the kind, and keeps those that are asked for.
    async fn all<T: OfNode>(&self, names: BTreeSet<String>) -> Result<Listed<T>, ApiError> {
        let (page, most) = {
            let choice = self.choice.lock();
            (choice.page(), choice.most())
        };
        let list = PagedList {
            what: &format!("{}s of all nodes", T::KIND),
            path: &T::path(),
            params: ListParams::default().limit(u32::try_from(page).unwrap_or(u32::MAX)),
            most,
            limit: LIST_TIMEOUT,
        };
        pages::list(&self.client, list, names, keep).await
    }

    /// Lists the Nodes that these select, and keeps those that are asked for.
    async fn named<T: OfNode>(
        &self,
        names: BTreeSet<String>,
        selectors: Vec<String>,
    ) -> Result<Listed<T>, ApiError> {
        let limit = (self.choice.lock()).limit(self.nodes.load(Ordering::Relaxed));
        let lists = selectors.into_iter().map(|selector| {
            let names = names.clone();
            async move {
                let mut params = ListParams::default().labels(&selector);
                params.limit = limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
                let list = PagedList {
                    what: &format!("{}s by hostname", T::KIND),
                    path: &T::path(),
                    params,
                    most: MOST_NAMED,
                    limit: LIST_TIMEOUT,
                };
                pages::list(&self.client, list, names, keep::<T>).await
            }
        });
        let none = names.iter().map(|name| (name.clone(), None)).collect();
        let lists = stream::iter(lists).buffer_unordered(CONCURRENT);
        let add = |(mut all, sum): Listed<T>, (one, size): Listed<T>| {
            all.extend(one.into_iter().filter(|(_, found)| found.is_some()));
            let size = Size {
                objects: sum.objects.saturating_add(size.objects),
                bytes: sum.bytes.saturating_add(size.bytes),
            };
            std::future::ready(Ok((all, size)))
        };
        lists.try_fold((none, Size::default()), add).await
    }
}

/// What a list has shown of each name that is asked about.
type Listed<T> = (BTreeMap<String, Option<T>>, Size);

/// Keeps an object whose name is asked about, whatever it was selected by.
fn keep<T: OfNode>(wire: T::Wire, answers: &mut Answers<Option<T>>) {
    let (name, object) = T::read(wire);
    if let Some(of) = answers.of(&name) {
        *of = Some(object);
    }
}

/// Whether a call of its own may answer what a list has not: the API server refuses the list, its pages have expired, or
/// they are too many. One that does not answer, or has too much to do, is not asked again.
fn is_answered_alone(error: &ApiError) -> bool {
    match error {
        ApiError::Timeout { .. } => false,
        // One object that cannot be parsed is not that of everybody.
        ApiError::Kube { source, .. } if matches!(**source, kube::Error::SerdeError(_)) => true,
        ApiError::Kube { .. } => error.is_answer() && error.put_off().is_none(),
        ApiError::NotLeader { .. } | ApiError::Other { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::node_facts;

    #[test]
    fn everything_that_decides_about_a_node_is_read() {
        let wire = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "a": "b" }, "annotations": { "c": "d" }, "finalizers": ["e/f"],
                "managedFields": [{ "manager": "kubectl-taint", "fieldsV1": { "f:spec": { "f:taints": {} } } }],
            },
            "spec": {
                "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "metal3://b",
                "unschedulable": true,
                "taints": [{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }],
            },
            "status": {
                "conditions": [{
                    "type": "Ready", "status": "Unknown", "reason": "r", "message": "m",
                    "lastHeartbeatTime": "2026-01-01T00:00:09Z", "lastTransitionTime": "2026-01-01T00:00:01Z",
                }],
                "nodeInfo": { "bootID": "boot", "systemUUID": "uuid", "kernelVersion": "6.8" },
            },
        });
        let whole: Node = serde_json::from_value(wire.clone()).unwrap();
        let mut large = wire;
        large["status"]["images"] = json!([{ "names": ["a"], "sizeBytes": 1 }]);
        let of_kubelet = json!({
            "manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:status": { "f:conditions": { "k:{\"type\":\"Ready\"}": { "f:status": {} } } } },
        });
        let managers = large["metadata"]["managedFields"].as_array_mut();
        managers.unwrap().push(of_kubelet);
        large["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "192.0.2.1" }]);
        let (name, read) = Node::read(serde_json::from_value(large).unwrap());
        assert_eq!((name.as_str(), &read), ("n", &whole));
        assert_eq!(node_facts(&read, None), node_facts(&whole, None));
        let (name, read) = Node::read(serde_json::from_value(json!({})).unwrap());
        assert_eq!((name.as_str(), read), ("", Node::default()));
    }

    #[test]
    fn f5_renewal_of_a_lease_is_read() {
        let lease = json!({
            "metadata": { "name": "n", "namespace": NODE_LEASE_NAMESPACE },
            "spec": { "renewTime": "2026-01-01T00:00:09.123456Z", "leaseDurationSeconds": 20 },
        });
        let (name, renewal) = Renewal::read(serde_json::from_value(lease).unwrap());
        let expected = (
            "2026-01-01T00:00:09.123456Z".to_owned(),
            Duration::from_secs(20),
        );
        assert_eq!((name.as_str(), renewal), ("n", Renewal(Some(expected))));
        let (name, renewal) = Renewal::read(serde_json::from_value(json!({})).unwrap());
        assert_eq!((name.as_str(), renewal), ("", Renewal(None)));
    }
}
