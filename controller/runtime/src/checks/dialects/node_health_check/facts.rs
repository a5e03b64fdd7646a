//! Conversion of Nodes and remediations into facts of the core.

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{
        MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION, MEDIK8S_CONTROL_PLANE_LABEL, MEDIK8S_EXCLUDE_LABEL,
        MEDIK8S_HEALTHY_DELAY_ANNOTATION, MEDIK8S_NODE_NAME_ANNOTATION, MEDIK8S_OLD_ANNOTATION,
        MEDIK8S_TEMPLATE_NAME_ANNOTATION, MEDIK8S_TIMED_OUT_ANNOTATION,
        OPENSHIFT_CURRENT_CONFIG_ANNOTATION, OPENSHIFT_DESIRED_CONFIG_ANNOTATION,
        OPENSHIFT_MACHINE_ANNOTATION,
        conditions::{PERMANENT_NODE_DELETION_EXPECTED, SUCCEEDED},
    },
    views::Meta,
};
use rackhand_core::{
    checks::machines::Condition,
    checks::nodes::{Exclusion, NodeFacts, NodeRemediation, RemediationId},
};
use serde_json::Value;

use crate::{
    checks::remediations::external_remediations::{ExternalKind, ExternalRemediation},
    clusters::{OPENSHIFT_NODE_LABEL, node_roles},
    store::{index::SeenNode, object::Key},
};

/// The facts of a Node.
pub(crate) fn node(node: &SeenNode) -> NodeFacts {
    let (labels, annotations) = (node.labels(), node.annotations());
    let exclusion = match labels.get(MEDIK8S_EXCLUDE_LABEL).map(String::as_str) {
        Some("true") => Exclusion::Excluded,
        Some(_) => Exclusion::Unclear,
        None => Exclusion::None,
    };
    let conditions = node
        .conditions()
        .map(|(type_, status, reason, last_transition)| Condition {
            type_,
            status,
            reason: reason.unwrap_or_default(),
            last_transition,
        });
    let desired = annotations.get(OPENSHIFT_DESIRED_CONFIG_ANNOTATION);
    let current = annotations.get(OPENSHIFT_CURRENT_CONFIG_ANNOTATION);
    NodeFacts {
        name: node.name_any(),
        created: node.creation_timestamp().map(|t| t.0),
        roles: node_roles(labels),
        exclusion,
        confirmed: annotations.contains_key(MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION),
        reconfiguring: desired.is_some() && desired != current,
        conditions: conditions.collect(),
    }
}

/// The Machine of OpenShift that a Node belongs to.
pub(super) fn machine(node: &SeenNode) -> Option<Key> {
    let named = node.annotations().get(OPENSHIFT_MACHINE_ANNOTATION)?;
    let key = Key::parse(named);
    (!key.namespace.is_empty() && !key.name.is_empty()).then_some(key)
}

/// Whether a Node belongs to OpenShift.
pub(super) fn is_of_openshift(node: &SeenNode) -> bool {
    node.labels().contains_key(OPENSHIFT_NODE_LABEL)
}

/// The identity of a remediation.
pub(crate) fn remediation_id(object: &DynamicObject) -> RemediationId {
    let types = object.types.clone().unwrap_or_default();
    RemediationId {
        api_version: types.api_version,
        kind: types.kind,
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

/// The facts of a remediation of any kind.
pub(crate) fn remediation(object: &DynamicObject, now: Timestamp) -> NodeRemediation {
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
    // A timestamp that cannot be parsed counts as now.
    let time = |key: &str| {
        let value = meta.annotations.get(key)?;
        Some(value.parse().unwrap_or(created))
    };
    NodeRemediation {
        id: remediation_id(object),
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

impl ExternalRemediation for NodeRemediation {
    type Wire = DynamicObject;

    fn read(object: &DynamicObject) -> Self {
        remediation(object, Timestamp::now())
    }

    fn uid(&self) -> &str {
        &self.uid
    }
}

/// The kind and namespace of a remediation.
pub(super) fn kind_of(id: &RemediationId) -> ExternalKind {
    ExternalKind {
        api_version: id.api_version.clone(),
        kind: id.kind.clone(),
        namespace: id.namespace.clone(),
    }
}

/// The identity of a remediation of a kind.
pub(super) fn id_of(kind: &ExternalKind, key: &Key) -> RemediationId {
    RemediationId {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_facts_keep_labels_and_fields_used_by_rules() {
        let seen: SeenNode = serde_json::from_value(json!({
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
        assert_eq!(seen.labels()["any"], "label");
        let facts = node(&seen);
        assert!(facts.roles.control_plane && !facts.roles.etcd && facts.confirmed);
        assert_eq!(facts.exclusion, Exclusion::Unclear);
        assert_eq!(facts.conditions[0].reason, "NodeStatusUnknown");
        assert!(!facts.reconfiguring && machine(&seen).is_none() && !is_of_openshift(&seen));
        let little: SeenNode =
            serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
        assert!(node(&little).conditions.is_empty());
    }

    #[test]
    fn openshift_node_annotations_are_read() {
        let seen = |current: &str| -> SeenNode {
            serde_json::from_value(json!({ "metadata": {
                "name": "n", "labels": { "node.openshift.io/os_id": "rhcos" },
                "annotations": {
                    "machineconfiguration.openshift.io/desiredConfig": "new",
                    "machineconfiguration.openshift.io/currentConfig": current,
                    "machine.openshift.io/machine": "openshift-machine-api/m-1",
                },
            }}))
            .unwrap()
        };
        assert!(node(&seen("old")).reconfiguring && !node(&seen("new")).reconfiguring);
        assert_eq!(
            machine(&seen("new")),
            Some(Key::new("openshift-machine-api", "m-1"))
        );
        assert!(is_of_openshift(&seen("new")));
    }

    #[test]
    fn remediation_of_any_kind_is_read_by_medik8s_contract() {
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
        let read = remediation(&object, now);
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
        // Without the annotation the remediation has the name of the Node.
        value["metadata"]["annotations"] = json!({});
        value["status"]["conditions"][0]["status"] = json!("Unknown");
        let object = serde_json::from_value(value).unwrap();
        let read = remediation(&object, now);
        assert_eq!((read.node.as_str(), read.succeeded), ("n-abc", None));
    }
}
