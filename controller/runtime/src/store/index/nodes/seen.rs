//! The fields of a Node that the controller reads.
//!
//! The index keeps about 300 bytes of a typical Node of 20 KB, and the parser skips most of the rest. All labels
//! are kept for Nodes of the management cluster, because selectors of NodeHealthChecks may name any label.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::core::ClusterResourceScope;
use rackhand_api::names::{
    CLUSTER_NAMESPACE_ANNOTATION, CORDONED_BY_ANNOTATION, MACHINE_ANNOTATION,
    MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION, MEDIK8S_EXCLUDE_LABEL, METAL3_UUID_LABEL,
    OPENSHIFT_CURRENT_CONFIG_ANNOTATION, OPENSHIFT_DESIRED_CONFIG_ANNOTATION,
    OPENSHIFT_MACHINE_ANNOTATION, PDUS_ANNOTATION, SWITCHES_ANNOTATION,
};
use rackhand_core::{hosts::NODE_RACK_LABEL, remediation::NodeIdentity};
use serde::{Deserialize, Deserializer};

use super::LabelledNode;

/// Labels that identify the control plane, OpenShift, a BareMetalHost and the rack; the first is a prefix.
const LABELS: [&str; 4] = [
    "node-role.kubernetes.io/",
    "node.openshift.io/os_id",
    METAL3_UUID_LABEL,
    NODE_RACK_LABEL,
];
/// Annotations that name the Machine or what hosts share, or that rules of NodeHealthChecks use.
const ANNOTATIONS: [&str; 9] = [
    CORDONED_BY_ANNOTATION,
    MACHINE_ANNOTATION,
    CLUSTER_NAMESPACE_ANNOTATION,
    MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION,
    OPENSHIFT_CURRENT_CONFIG_ANNOTATION,
    OPENSHIFT_DESIRED_CONFIG_ANNOTATION,
    OPENSHIFT_MACHINE_ANNOTATION,
    PDUS_ANNOTATION,
    SWITCHES_ANNOTATION,
];

/// A Node without heartbeats, images, addresses, capacities and the like.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SeenNode {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    conditions: Option<Vec<Condition>>,
    node_info: Option<Info>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(default)]
    last_transition_time: Option<Time>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    status: String,
    #[serde(rename = "type", default)]
    type_: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(rename = "bootID")]
    boot_id: String,
    #[serde(rename = "systemUUID")]
    system_uuid: String,
    #[serde(rename = "kernelVersion")]
    kernel_version: String,
}

/// The parsed metadata.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let Metadata {
        name,
        uid,
        resource_version,
        creation_timestamp,
        deletion_timestamp,
        labels,
        annotations,
    } = Metadata::deserialize(from)?;
    Ok(ObjectMeta {
        name,
        uid,
        resource_version,
        creation_timestamp,
        deletion_timestamp,
        labels: labels.and_then(some),
        annotations: read_annotations(annotations),
        ..ObjectMeta::default()
    })
}

fn some(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!map.is_empty()).then_some(map)
}

fn is_label(key: &str) -> bool {
    LABELS
        .iter()
        .any(|label| key == *label || label.ends_with('/') && key.starts_with(label))
}

/// Parses only the annotations that are used.
fn read_annotations(
    annotations: Option<BTreeMap<String, String>>,
) -> Option<BTreeMap<String, String>> {
    let mut annotations = annotations?;
    annotations.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
    some(annotations)
}

impl kube::Resource for SeenNode {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        "Node".into()
    }

    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl From<Node> for SeenNode {
    fn from(node: Node) -> Self {
        let meta = node.metadata;
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        Self {
            metadata: ObjectMeta {
                name: meta.name,
                uid: meta.uid,
                resource_version: meta.resource_version,
                creation_timestamp: meta.creation_timestamp,
                deletion_timestamp: meta.deletion_timestamp,
                labels: meta.labels.and_then(some),
                annotations: read_annotations(meta.annotations),
                ..ObjectMeta::default()
            },
            spec: Spec {
                provider_id: spec.provider_id,
                taints: spec.taints,
                unschedulable: spec.unschedulable,
            },
            status: Status {
                conditions: status.conditions.map(|list| {
                    let seen = |c: k8s_openapi::api::core::v1::NodeCondition| Condition {
                        type_: c.type_,
                        status: c.status,
                        reason: c.reason,
                        last_transition_time: c.last_transition_time,
                    };
                    list.into_iter().map(seen).collect()
                }),
                node_info: status.node_info.map(|info| Info {
                    boot_id: info.boot_id,
                    system_uuid: info.system_uuid,
                    kernel_version: info.kernel_version,
                }),
            },
        }
    }
}

impl From<&SeenNode> for Node {
    fn from(node: &SeenNode) -> Self {
        let SeenNode {
            metadata,
            spec,
            status,
        } = node;
        let conditions = status.conditions.as_ref().map(|list| {
            let whole = |c: &Condition| k8s_openapi::api::core::v1::NodeCondition {
                type_: c.type_.clone(),
                status: c.status.clone(),
                reason: c.reason.clone(),
                last_transition_time: c.last_transition_time.clone(),
                ..Default::default()
            };
            list.iter().map(whole).collect()
        });
        let node_info = status.node_info.as_ref().map(|info| NodeSystemInfo {
            boot_id: info.boot_id.clone(),
            system_uuid: info.system_uuid.clone(),
            kernel_version: info.kernel_version.clone(),
            ..NodeSystemInfo::default()
        });
        Self {
            metadata: metadata.clone(),
            spec: Some(NodeSpec {
                provider_id: spec.provider_id.clone(),
                taints: spec.taints.clone(),
                unschedulable: spec.unschedulable,
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                conditions,
                node_info,
                ..NodeStatus::default()
            }),
        }
    }
}

/// A condition of a Node: type, status, reason and time of the last transition.
pub(crate) type NodeCondition = (String, String, Option<String>, Option<Timestamp>);

// === impl SeenNode ===

impl SeenNode {
    /// The conditions of the Node.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = NodeCondition> {
        self.status.conditions.iter().flatten().map(|c| {
            let since = c.last_transition_time.as_ref().map(|t| t.0);
            (c.type_.clone(), c.status.clone(), c.reason.clone(), since)
        })
    }

    /// The providerID; `None` if it is empty.
    pub(in crate::store::index) fn provider_id(&self) -> Option<&str> {
        let id = self.spec.provider_id.as_deref();
        id.filter(|id| !id.is_empty())
    }

    /// The system UUID as the kubelet reports it; empty if it reports none.
    pub(in crate::store::index) fn system_uuid(&self) -> &str {
        let info = self.status.node_info.as_ref();
        info.map_or("", |info| info.system_uuid.as_str())
    }

    /// What identifies the host of the Node.
    pub(in crate::store::index) fn identity(&self) -> NodeIdentity {
        let labels = self.metadata.labels.as_ref();
        let info = self.status.node_info.as_ref();
        NodeIdentity {
            name: self.metadata.name.clone().unwrap_or_default(),
            system_uuid: info.map(|i| i.system_uuid.clone()).unwrap_or_default(),
            provider_id: self.spec.provider_id.clone().unwrap_or_default(),
            host_label: labels
                .and_then(|labels| labels.get(METAL3_UUID_LABEL).cloned())
                .unwrap_or_default(),
        }
    }

    /// Whether the condition Ready is True.
    pub(in crate::store::index) fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|c| c.type_ == "Ready" && c.status == "True")
    }

    /// The Node, as triggers of this label see it.
    pub(in crate::store::index) fn labelled(&self, key: &str) -> LabelledNode {
        let labels = self.metadata.labels.as_ref();
        let value = |key: &str| labels.and_then(|labels| labels.get(key));
        LabelledNode {
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            value: value(key).cloned(),
            ready: self.is_ready(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            excluded: value(MEDIK8S_EXCLUDE_LABEL).is_some_and(|value| value == "true"),
        }
    }

    /// Drops the unused labels of a Node of a workload cluster, except these.
    pub(in crate::store::index) fn drop_unread_labels(&mut self, kept: &BTreeSet<String>) {
        let mut labels = self.metadata.labels.take().unwrap_or_default();
        labels.retain(|key, _| is_label(key) || kept.contains(key));
        self.metadata.labels = some(labels);
    }

    /// Takes the resourceVersion, which changes with each heartbeat.
    pub(in crate::store::index) fn take_version(&mut self) -> Option<String> {
        self.metadata.resource_version.take()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn real() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "kubernetes.io/hostname": "n", "node-role.kubernetes.io/control-plane": "",
                    "metal3.io/uuid": "b",
                },
                "annotations": { "cluster.x-k8s.io/machine": "m", "x": "y" },
                "managedFields": [{ "manager": "kubelet" }],
            },
            "spec": {
                "podCIDR": "10.0.0.0/24", "providerID": "metal3://b",
                "taints": [{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }],
            },
            "status": {
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok",
                    "lastHeartbeatTime": "2026-01-01T00:00:09Z",
                    "lastTransitionTime": "2026-01-01T00:00:01Z",
                }],
                "nodeInfo": {
                    "bootID": "boot", "systemUUID": "uuid", "kernelVersion": "6.8", "osImage": "Linux",
                },
                "images": [{ "names": ["a"], "sizeBytes": 1 }],
            },
        })
    }

    #[test]
    fn seen_node_from_json_equals_seen_node_from_k8s_type() {
        let whole: Node = serde_json::from_value(real()).unwrap();
        let mut seen: SeenNode = serde_json::from_value(real()).unwrap();
        assert_eq!(seen, SeenNode::from(whole));
        assert_eq!(
            kube::ResourceExt::labels(&seen)["kubernetes.io/hostname"],
            "n"
        );
        seen.drop_unread_labels(&BTreeSet::from(["metal3.io/other".to_owned()]));
        let mut node = serde_json::to_value(Node::from(&seen)).unwrap();
        let info = node["status"]["nodeInfo"].as_object_mut().unwrap();
        info.retain(|_, value| value != "");
        assert_eq!(
            node,
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {
                    "name": "n", "uid": "u", "resourceVersion": "7",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": { "node-role.kubernetes.io/control-plane": "", "metal3.io/uuid": "b" },
                    "annotations": { "cluster.x-k8s.io/machine": "m" },
                },
                "spec": {
                    "providerID": "metal3://b",
                    "taints": [{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }],
                },
                "status": {
                    "conditions": [{
                        "type": "Ready", "status": "True", "reason": "KubeletReady",
                        "lastTransitionTime": "2026-01-01T00:00:01Z",
                    }],
                    "nodeInfo": { "bootID": "boot", "systemUUID": "uuid", "kernelVersion": "6.8" },
                },
            })
        );
    }

    #[test]
    fn sparse_node_is_parsed() {
        for value in [
            json!({}),
            json!({ "metadata": { "name": "n", "labels": null, "annotations": null } }),
            json!({ "spec": {}, "status": { "conditions": null, "nodeInfo": null } }),
            json!({ "status": { "conditions": [{}], "nodeInfo": {} } }),
        ] {
            let seen: SeenNode = serde_json::from_value(value).unwrap();
            let node = Node::from(&seen);
            assert_eq!(seen, SeenNode::from(node));
        }
    }
}
