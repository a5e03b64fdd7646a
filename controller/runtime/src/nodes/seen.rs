//! Nodes and remediations as they come from a watch, and the facts in them.
//!
//! A selector may speak of any label, so all of a Node's are kept, and of the rest only what a rule
//! looks at.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{api::DynamicObject, core::ClusterResourceScope};
use rackhand_api::{
    names::{
        MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION, MEDIK8S_CONTROL_PLANE_LABEL, MEDIK8S_EXCLUDE_LABEL,
        MEDIK8S_HEALTHY_DELAY_ANNOTATION, MEDIK8S_NODE_NAME_ANNOTATION, MEDIK8S_OLD_ANNOTATION,
        MEDIK8S_TEMPLATE_NAME_ANNOTATION, MEDIK8S_TIMED_OUT_ANNOTATION,
        NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL, OPENSHIFT_CURRENT_CONFIG_ANNOTATION,
        OPENSHIFT_DESIRED_CONFIG_ANNOTATION, OPENSHIFT_MACHINE_ANNOTATION,
        conditions::{PERMANENT_NODE_DELETION_EXPECTED, SUCCEEDED},
    },
    views::Meta,
};
use rackhand_core::{
    health::Condition,
    nodes::{Exclusion, NodeFacts, Request, RequestId},
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{object::Key, remediation::OPENSHIFT_NODE_LABEL};

/// The annotations of Nodes that are read.
const ANNOTATIONS: [&str; 4] = [
    MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION,
    OPENSHIFT_CURRENT_CONFIG_ANNOTATION,
    OPENSHIFT_DESIRED_CONFIG_ANNOTATION,
    OPENSHIFT_MACHINE_ANNOTATION,
];

/// A Node from the wire, without what nobody here reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireNode {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    status: WireStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    conditions: Option<Vec<WireCondition>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<Time>,
}

/// The metadata that is read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireMeta {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let meta = WireMeta::deserialize(from)?;
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
    Ok(ObjectMeta {
        name: meta.name,
        uid: meta.uid,
        resource_version: meta.resource_version,
        creation_timestamp: meta.creation_timestamp,
        labels: meta.labels,
        annotations: Some(annotations),
        ..ObjectMeta::default()
    })
}

impl kube::Resource for WireNode {
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

/// A Node that is known.
#[derive(Debug, Clone)]
pub(crate) struct KnownNode {
    pub(crate) uid: String,
    /// The number of its resourceVersion.
    pub(crate) version: Option<u64>,
    pub(crate) labels: BTreeMap<String, String>,
    /// Its Machine of OpenShift.
    pub(crate) machine: Option<Key>,
    pub(crate) facts: Arc<NodeFacts>,
}

impl From<WireNode> for KnownNode {
    fn from(node: WireNode) -> Self {
        let meta = node.metadata;
        let labels = meta.labels.unwrap_or_default();
        let exclusion = match labels.get(MEDIK8S_EXCLUDE_LABEL).map(String::as_str) {
            Some("true") => Exclusion::Excluded,
            Some(_) => Exclusion::Unclear,
            None => Exclusion::None,
        };
        let conditions = node.status.conditions.into_iter().flatten();
        let conditions = conditions.map(|c| Condition {
            type_: c.type_,
            status: c.status,
            reason: c.reason.unwrap_or_default(),
            last_transition: c.last_transition_time.map(|t| t.0),
        });
        let annotations = meta.annotations.unwrap_or_default();
        let desired = annotations.get(OPENSHIFT_DESIRED_CONFIG_ANNOTATION);
        let current = annotations.get(OPENSHIFT_CURRENT_CONFIG_ANNOTATION);
        let facts = NodeFacts {
            name: meta.name.unwrap_or_default(),
            created: meta.creation_timestamp.map(|t| t.0),
            control_plane: labels.contains_key(NODE_ROLE_CONTROL_PLANE_LABEL)
                || labels.contains_key(NODE_ROLE_MASTER_LABEL),
            exclusion,
            confirmed: annotations.contains_key(MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION),
            reconfiguring: desired.is_some() && desired != current,
            conditions: conditions.collect(),
        };
        Self {
            uid: meta.uid.unwrap_or_default(),
            version: meta.resource_version.and_then(|v| v.parse().ok()),
            machine: annotations
                .get(OPENSHIFT_MACHINE_ANNOTATION)
                .map(|named| Key::parse(named))
                .filter(|key| !key.namespace.is_empty() && !key.name.is_empty()),
            labels,
            facts: Arc::new(facts),
        }
    }
}

// === impl KnownNode ===

impl KnownNode {
    /// Nothing that matters differs; a heartbeat changes only the version.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.labels == other.labels
            && self.machine == other.machine
            && self.facts == other.facts
    }

    /// OpenShift runs on it.
    pub(crate) fn is_of_openshift(&self) -> bool {
        self.labels.contains_key(OPENSHIFT_NODE_LABEL)
    }
}

/// The name of a remediation.
pub(crate) fn request_id(object: &DynamicObject) -> RequestId {
    let types = object.types.clone().unwrap_or_default();
    RequestId {
        api_version: types.api_version,
        kind: types.kind,
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

/// What a remediation says, of whichever kind.
pub(crate) fn request(object: &DynamicObject, now: Timestamp) -> Request {
    let meta = Meta::of(object);
    let annotation = |key: &str| meta.annotations.get(key).filter(|v| !v.is_empty());
    let created = meta.created.unwrap_or(now);
    let status = |type_: &str| -> Option<&str> {
        let list = object.data.pointer("/status/conditions")?.as_array()?;
        let found = list
            .iter()
            .find(|c| c.get("type").and_then(Value::as_str) == Some(type_))?;
        found.get("status").and_then(Value::as_str)
    };
    // A time that does not read is a time all the same.
    let time = |key: &str| {
        let value = meta.annotations.get(key)?;
        Some(value.parse().unwrap_or(created))
    };
    Request {
        id: request_id(object),
        node: annotation(MEDIK8S_NODE_NAME_ANNOTATION)
            .unwrap_or(&meta.name)
            .clone(),
        template: annotation(MEDIK8S_TEMPLATE_NAME_ANNOTATION).cloned(),
        owners: meta.owners.iter().map(|owner| owner.uid.clone()).collect(),
        created,
        deleting: meta.is_deleting(),
        timed_out: time(MEDIK8S_TIMED_OUT_ANNOTATION),
        succeeded: match status(SUCCEEDED) {
            Some("True") => Some(true),
            Some("False") => Some(false),
            _ => None,
        },
        node_goes: status(PERMANENT_NODE_DELETION_EXPECTED) == Some("True"),
        delayed_since: time(MEDIK8S_HEALTHY_DELAY_ANNOTATION),
        told_old: meta.has_annotation(MEDIK8S_OLD_ANNOTATION),
        control_plane: meta.has_label(MEDIK8S_CONTROL_PLANE_LABEL),
        uid: meta.uid,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_from_the_wire_keeps_its_labels_and_what_rules_look_at() {
        let node: WireNode = serde_json::from_value(json!({
            "metadata": {
                "name": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "any": "label", "node-role.kubernetes.io/master": "",
                    "remediation.medik8s.io/exclude-from-remediation": "" },
                "annotations": { "remediation.medik8s.io/manually-confirmed-healthy": "", "x": "y" },
                "managedFields": [{ "manager": "kubelet" }],
            },
            "status": {
                "conditions": [{
                    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                    "lastHeartbeatTime": "2026-01-01T00:00:09Z",
                    "lastTransitionTime": "2026-01-01T00:00:01Z",
                }],
                "images": [{ "names": ["a"] }],
            },
        }))
        .unwrap();
        let known = KnownNode::from(node);
        assert_eq!(known.labels["any"], "label");
        let facts = &known.facts;
        assert!(facts.control_plane && facts.confirmed);
        assert_eq!(facts.exclusion, Exclusion::Unclear);
        assert_eq!(facts.conditions[0].reason, "NodeStatusUnknown");
        assert!(!facts.reconfiguring && known.machine.is_none() && !known.is_of_openshift());
        let little: WireNode =
            serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
        assert!(KnownNode::from(little).facts.conditions.is_empty());
    }

    #[test]
    fn what_openshift_writes_on_a_node_is_read() {
        let known = |current: &str| {
            let node: WireNode = serde_json::from_value(json!({ "metadata": {
                "name": "n", "labels": { "node.openshift.io/os_id": "rhcos" },
                "annotations": {
                    "machineconfiguration.openshift.io/desiredConfig": "new",
                    "machineconfiguration.openshift.io/currentConfig": current,
                    "machine.openshift.io/machine": "openshift-machine-api/m-1",
                },
            }}))
            .unwrap();
            KnownNode::from(node)
        };
        assert!(known("old").facts.reconfiguring && !known("new").facts.reconfiguring);
        assert_eq!(
            known("new").machine,
            Some(Key::new("openshift-machine-api", "m-1"))
        );
        assert!(known("new").is_of_openshift());
    }

    #[test]
    fn a_remediation_of_any_kind_is_read_by_the_contract() {
        let now = Timestamp::UNIX_EPOCH;
        let mut value = json!({
            "apiVersion": "x.y/v1", "kind": "X",
            "metadata": {
                "name": "n-abc", "namespace": "ns", "uid": "u",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {
                    "remediation.medik8s.io/node-name": "n",
                    "remediation.medik8s.io/template-name": "t",
                    "remediation.medik8s.io/nhc-timed-out": "2026-01-01T00:05:00Z",
                },
                "ownerReferences": [{ "apiVersion": "a/v1", "kind": "K", "name": "c", "uid": "cu" }],
            },
            "status": { "conditions": [{ "type": "Succeeded", "status": "False" }] },
        });
        let object = serde_json::from_value(value.clone()).unwrap();
        let read = request(&object, now);
        assert_eq!(
            (read.node.as_str(), read.template.as_deref()),
            ("n", Some("t"))
        );
        assert!(read.is_owned_by("cu") && !read.deleting);
        assert_eq!(read.succeeded, Some(false));
        assert_eq!(
            read.timed_out,
            Some("2026-01-01T00:05:00Z".parse().unwrap())
        );
        // Without the annotation the name is the Node's.
        value["metadata"]["annotations"] = json!({});
        value["status"]["conditions"][0]["status"] = json!("Unknown");
        let object = serde_json::from_value(value).unwrap();
        let read = request(&object, now);
        assert_eq!((read.node.as_str(), read.succeeded), ("n-abc", None));
    }
}
