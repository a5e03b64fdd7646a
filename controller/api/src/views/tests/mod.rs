//! Objects as users and controllers write them, in both versions' shapes.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;

mod health_check;
mod metal3;
mod openshift;
mod power;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn yaml(text: &str) -> DynamicObject {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn machine_is_read_in_both_shapes() {
    let old = MachineView::from_dynamic(&object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": "m-0", "namespace": "metal3", "uid": "u-0",
            "creationTimestamp": "2026-08-01T10:00:00Z",
            "labels": {"cluster.x-k8s.io/control-plane": ""},
        },
        "spec": {
            "clusterName": "test1",
            "providerID": "metal3://metal3/host-0/m3m-0",
            "infrastructureRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "Metal3Machine", "name": "m3m-0", "namespace": "metal3"
            },
            "somethingNew": {"deep": true}
        },
        "status": {
            "nodeRef": {"kind": "Node", "name": "node-0", "uid": "n"},
            "infrastructureReady": true,
            "failureReason": "CreateError",
            "conditions": [{"type": "InfrastructureReady", "status": "True",
                "lastTransitionTime": "2026-08-01T10:05:00Z"}],
            "v1beta2": {"conditions": [{"type": "InfrastructureReady", "status": "False",
                "reason": "NotReady", "lastTransitionTime": "2026-08-01T10:06:00Z",
                "message": "", "observedGeneration": 2}]}
        }
    })))
    .unwrap();
    assert!(old.is_control_plane());
    assert_eq!(old.node_name.as_deref(), Some("node-0"));
    assert_eq!(old.infrastructure_provisioned, Some(true));
    assert_eq!(old.failure_reason.as_deref(), Some("CreateError"));
    assert_eq!(
        old.meta.created.unwrap().to_string(),
        "2026-08-01T10:00:00Z"
    );
    let infrastructure = old.infrastructure_ref.as_ref().unwrap();
    assert_eq!(
        infrastructure.group.as_deref(),
        Some("infrastructure.cluster.x-k8s.io")
    );
    assert_eq!(old.conditions_v1beta1.len(), 1);
    let ready = old.condition("InfrastructureReady").unwrap();
    assert!(ready.is_false(), "the new list is preferred");
    assert_eq!(
        (ready.message.as_deref(), ready.observed_generation),
        (None, Some(2))
    );

    let new = MachineView::from_dynamic(&object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": "m-0"},
        "spec": {"infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": "m3m-0"
        }},
        "status": {
            "initialization": {"infrastructureProvisioned": true},
            "conditions": [{"type": "HealthCheckSucceeded", "status": "False"}],
            "deprecated": {"v1beta1": {
                "failureMessage": "gone",
                "conditions": [{"type": "OwnerRemediated", "status": "False"}]
            }}
        }
    })))
    .unwrap();
    assert_eq!(
        new.infrastructure_ref.unwrap().group.as_deref(),
        Some("infrastructure.cluster.x-k8s.io")
    );
    assert_eq!(new.infrastructure_provisioned, Some(true));
    assert_eq!(new.failure_message.as_deref(), Some("gone"));
    assert_eq!(
        new.conditions_v1beta2[0].condition_type,
        "HealthCheckSucceeded"
    );
    assert_eq!(new.conditions_v1beta1[0].condition_type, "OwnerRemediated");
}

#[test]
fn shape_follows_the_object_before_the_version() {
    let shape = |version: &str, status: Value| {
        MachineView::from_dynamic(&object(json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Machine",
            "metadata": {"name": "m"}, "status": status
        })))
        .unwrap()
        .shape
    };
    assert_eq!(shape("v1beta1", json!({})), Shape::V1Beta1);
    assert_eq!(shape("v1beta2", json!({})), Shape::V1Beta2);
    assert_eq!(
        shape("v1beta2", json!({"v1beta2": {"conditions": []}})),
        Shape::V1Beta1
    );
    assert_eq!(
        shape("v1beta1", json!({"deprecated": {"v1beta1": {}}})),
        Shape::V1Beta2
    );
}

#[test]
fn patch_of_both_condition_lists_is_read_back() {
    let old = json!([{"type": "A", "status": "True"}]);
    let new = json!([{"type": "B", "status": "True"}]);
    for (shape, version) in [(Shape::V1Beta1, "v1beta1"), (Shape::V1Beta2, "v1beta2")] {
        let view = MachineView::from_dynamic(&object(json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Machine",
            "metadata": {"name": "m"}, "status": shape.status_with(&old, &new)
        })))
        .unwrap();
        assert_eq!(view.shape, shape);
        assert_eq!(view.conditions_v1beta1[0].condition_type, "A");
        assert_eq!(view.conditions_v1beta2[0].condition_type, "B");
    }
}

#[test]
fn cluster_is_read_in_both_shapes() {
    let view = |status: Value| {
        ClusterView::from_dynamic(&object(json!({
            "metadata": {"name": "c"}, "spec": {"paused": true}, "status": status
        })))
        .unwrap()
    };
    let old = view(json!({"infrastructureReady": true, "controlPlaneReady": false}));
    assert!(old.is_paused());
    assert_eq!(old.infrastructure_provisioned, Some(true));
    assert_eq!(old.control_plane_initialized, Some(false));
    let new = view(json!({"initialization": {
        "infrastructureProvisioned": true, "controlPlaneInitialized": true
    }}));
    assert_eq!(new.control_plane_initialized, Some(true));
}

#[test]
fn template_of_any_kind_is_read() {
    let view = RemediationTemplateView::from_dynamic(&object(json!({
        "apiVersion": "x/v1", "kind": "AnyTemplate", "metadata": {"name": "t"},
        "spec": {"template": {"spec": {"a": 1}}}
    })))
    .unwrap();
    assert_eq!(Value::Object(view.template), json!({"spec": {"a": 1}}));
    let empty = RemediationTemplateView::from_dynamic(&object(json!({"metadata": {"name": "t"}})));
    assert!(empty.unwrap().template.is_empty());
}
