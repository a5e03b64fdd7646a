//! Live reads of the Nodes of one cluster, or of their Leases, each by a call of its own or by a list that all share who
//! ask at the same time (F5, F12, F14). `rackhand_core::watches::list_choice` decides which.
//!
//! Invariant: either is a consistent read that begins after the question, so that an object which it lacks is absent. A list
//! that fails is followed by a call of its own, unless the API server does not answer at all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client,
    api::{GetParams, ListParams},
    core::Request,
};
use parking_lot::Mutex;
use rackhand_api::names::NODE_LEASE_NAMESPACE;
use rackhand_core::watches::{
    list_choice::{ListChoice, Size, Source, Subject},
    shared_list::Answers,
};
use serde::{Deserialize, de::DeserializeOwned};
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
        shared_reads::{JoinedList, List},
    },
};

/// Timeout of all pages of a shared list, as of the one call that it replaces.
const LIST_TIMEOUT: Duration = CALL_TIMEOUT;

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
}

/// A Node without images, addresses, capacities and the like, which are most of it.
#[derive(Deserialize)]
pub(super) struct WireNode {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: Option<NodeSpec>,
    status: Option<WireStatus>,
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
            metadata: wire.metadata,
            spec: wire.spec,
            status,
        };
        (name, node)
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
    client: Client,
    calls: Arc<Calls>,
    choice: Arc<Mutex<ListChoice>>,
    all: JoinedList<Option<T>>,
}

// === impl NodeReads ===

impl<T: OfNode> NodeReads<T> {
    pub(super) fn new(client: &Client, calls: &Arc<Calls>) -> Self {
        let choice = Arc::new(Mutex::new(ListChoice::new(T::SUBJECT)));
        let all = list_of_all(client, calls, &choice);
        Self {
            client: client.clone(),
            calls: calls.clone(),
            choice,
            all: JoinedList::new(all, T::SUBJECT.gap()),
        }
    }

    /// Reads the object of this Node of a cluster with so many Nodes.
    ///
    /// # Errors
    /// The API server was not read.
    pub(super) async fn of(&self, node: &str, nodes: usize) -> Result<LiveRead<T>, ApiError> {
        let now = clock::monotonic_now();
        let source = self.choice.lock().choose(node, nodes, now);
        if source == Source::OfNode {
            return self.alone(node).await;
        }
        match self.all.of(node).await {
            Ok((found, begun)) => Ok(LiveRead { found, begun }),
            Err(error) if is_answered_alone(&error) => self.alone(node).await,
            Err(error) => Err(ApiError::other(format!("{} {node}", T::KIND), error)),
        }
    }

    /// Reads it by a call of its own.
    async fn alone(&self, node: &str) -> Result<LiveRead<T>, ApiError> {
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
        Ok(LiveRead { found, begun })
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

/// Lists all objects of the kind, and keeps those that are asked for.
fn list_of_all<T: OfNode>(
    client: &Client,
    calls: &Arc<Calls>,
    choice: &Arc<Mutex<ListChoice>>,
) -> List<Option<T>> {
    let (client, calls, choice) = (client.clone(), calls.clone(), choice.clone());
    let refused = Arc::new(AtomicBool::new(false));
    Arc::new(move |names| {
        let (client, calls, choice) = (client.clone(), calls.clone(), choice.clone());
        let refused = refused.clone();
        let list = async move {
            let (page, most) = {
                let choice = choice.lock();
                (choice.page(), choice.most())
            };
            let list = PagedList {
                what: &format!("{}s of all nodes", T::KIND),
                path: &T::path(),
                params: ListParams::default().limit(u32::try_from(page).unwrap_or(u32::MAX)),
                most,
                limit: LIST_TIMEOUT,
            };
            let keep = |wire: T::Wire, answers: &mut Answers<Option<T>>| {
                let (name, object) = T::read(wire);
                if let Some(of) = answers.of(&name) {
                    *of = Some(object);
                }
            };
            let asked = Instant::now();
            let listed = pages::list(&client, list, names, keep).await;
            calls.record_answer(&listed);
            let took = match &listed {
                Ok((_, size)) => {
                    refused.store(false, Ordering::Relaxed);
                    choice.lock().listed_all(*size, asked.elapsed())
                }
                Err(error) => {
                    choice.lock().failed(clock::monotonic_now());
                    let is_refused = error.is_forbidden();
                    // Each minute it is tried again.
                    if !is_refused || !refused.swap(true, Ordering::Relaxed) {
                        tracing::warn!(%error, "a shared list failed; each is read by a call of its own for a minute");
                    }
                    asked.elapsed()
                }
            };
            if T::SUBJECT == Subject::Nodes {
                calls.record_load(&listed, took);
            }
            listed.map(|(answers, _)| answers)
        };
        list.boxed()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
