//! Conversion of checks and Machines into the facts of the core, and where each part of their API is tested
//! (docs/reference/cluster-api.md, Fields).
//!
//! | part | tests |
//! |---|---|
//! | fields, both shapes | here; `rackhand_api::views` |
//! | limits of fields, selector | `tests/controller/checks/admission`; `rackhand_api` |
//! | status, columns | `rackhand_api`; `tests/controller/operators/input` |
//! | conversion, annotations, failureReason and failureMessage | here |
//! | webhooks | `tests/controller/checks/admission`: Cluster API's webhook and the admission policies decide alike |
//! | reasons and messages of Machines, RemediationAllowed | `rackhand_core::checks::machines` |
//! | Paused, ExternalRemediation... | `checks/conditions.rs` |
//! | transition times of conditions | `store/conditions.rs` |
//! | Events | `tests/controller/remediation/path.rs`, `tests/controller/operators/input` |
//! | annotations of remediations | `checks/remediations/lifecycle.rs` |

use std::time::Duration;

use kube::api::DynamicObject;
use rackhand_api::views::{ClusterView, MachineHealthCheckView, MachineView};
use rackhand_core::checks::machines::{Check, ConditionRule, Limit, MachineFacts, SkipReason};
use rackhand_core::values::int_or_percent::IntOrPercent;
use serde_json::{Value, json};

use super::facts;

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn check(spec: &Value) -> Check {
    let object = object(&json!({ "metadata": { "name": "c" }, "spec": spec }));
    facts::check(
        &MachineHealthCheckView::from_dynamic(&object).unwrap(),
        false,
    )
}

fn machine(annotations: &Value, status: &Value) -> MachineFacts {
    let object = object(&json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "metadata": { "name": "m", "annotations": annotations }, "status": status,
    }));
    facts::machine(&MachineView::from_dynamic(&object).unwrap())
}

fn rule(type_: &str, status: &str, seconds: u64) -> ConditionRule {
    ConditionRule {
        type_: type_.into(),
        status: status.into(),
        timeout: Duration::from_secs(seconds),
    }
}

#[test]
fn v1beta1_and_v1beta2_specs_parse_to_same_check() {
    let old = check(&json!({
        "clusterName": "demo",
        "nodeStartupTimeout": "20m0s",
        "maxUnhealthy": "40%",
        "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "5m" }],
        "unhealthyMachineConditions": [{ "type": "A", "status": "False", "timeout": "1h" }],
        "remediationTemplate": { "apiVersion": "x/v1", "kind": "YTemplate", "name": "z" },
    }));
    let new = check(&json!({
        "clusterName": "demo",
        "checks": {
            "nodeStartupTimeoutSeconds": 1200,
            "unhealthyNodeConditions": [{ "type": "Ready", "status": "Unknown", "timeoutSeconds": 300 }],
            "unhealthyMachineConditions": [{ "type": "A", "status": "False", "timeoutSeconds": 3600 }],
        },
        "remediation": {
            "triggerIf": { "unhealthyLessThanOrEqualTo": "40%" },
            "templateRef": { "apiVersion": "x/v1", "kind": "YTemplate", "name": "z" },
        },
    }));
    assert_eq!(old, new);
    assert_eq!(
        old,
        Check {
            startup_timeout: Some(Duration::from_secs(1200)),
            node_conditions: vec![rule("Ready", "Unknown", 300)],
            machine_conditions: vec![rule("A", "False", 3600)],
            limit: Limit::AtMost(IntOrPercent::Percent(40)),
            external: true,
            paused: false,
        }
    );
}

#[test]
fn absent_fields_have_cluster_api_defaults() {
    let bare = check(&json!({ "clusterName": "demo" }));
    assert_eq!(bare.startup_timeout, Some(Duration::from_secs(600)));
    assert_eq!(bare.limit, Limit::AtMost(IntOrPercent::Percent(100)));
    assert!(!bare.external && bare.node_conditions.is_empty());
    let off = |spec: &Value| check(spec).startup_timeout;
    assert_eq!(off(&json!({ "nodeStartupTimeout": "0m" })), None);
    assert_eq!(
        off(&json!({ "checks": { "nodeStartupTimeoutSeconds": 0 } })),
        None
    );
    let untimed = json!({ "unhealthyConditions": [{ "type": "Ready", "status": "False" }] });
    assert_eq!(check(&untimed).node_conditions, [rule("Ready", "False", 0)]);
}

#[test]
fn unhealthy_range_takes_precedence_over_max_unhealthy() {
    let range = Limit::Range { min: 1, max: 3 };
    let old = json!({ "maxUnhealthy": 7, "unhealthyRange": "[1-3]" });
    assert_eq!(check(&old).limit, range);
    let new = json!({ "remediation": { "triggerIf": {
        "unhealthyLessThanOrEqualTo": 7, "unhealthyInRange": "[1-3]",
    }}});
    assert_eq!(check(&new).limit, range);
    for (limit, want) in [
        (json!(7), IntOrPercent::Int(7)),
        (json!(-1), IntOrPercent::Int(-1)),
        (json!("-40%"), IntOrPercent::Int(-1)),
        (json!("150%"), IntOrPercent::Percent(150)),
    ] {
        let limit = check(&json!({ "maxUnhealthy": limit })).limit;
        assert_eq!(limit, Limit::AtMost(want));
    }
}

#[test]
fn machine_annotations_count_with_any_value() {
    let none = machine(&json!({}), &json!({}));
    assert!(none.skipped.is_none() && !none.remediate_annotation);
    for value in ["", "true", "false"] {
        let all = machine(
            &json!({
                "cluster.x-k8s.io/paused": value,
                "cluster.x-k8s.io/skip-remediation": value,
                "cluster.x-k8s.io/remediate-machine": value,
            }),
            &json!({}),
        );
        assert_eq!(all.skipped, Some(SkipReason::Paused), "{value:?}");
        assert!(all.remediate_annotation, "{value:?}");
        let skipped = machine(
            &json!({ "cluster.x-k8s.io/skip-remediation": value }),
            &json!({}),
        );
        assert_eq!(
            skipped.skipped,
            Some(SkipReason::SkipRemediation),
            "{value:?}"
        );
    }
}

#[test]
fn machine_failure_is_read_from_either_status_location() {
    let failure = |status: &Value| machine(&json!({}), status).failure;
    let both = json!({ "failureReason": "CreateError", "failureMessage": "no host" });
    assert_eq!(failure(&both).as_deref(), Some("CreateError: no host"));
    let nested = json!({ "deprecated": { "v1beta1": { "failureReason": "UpdateError" } } });
    assert_eq!(failure(&nested).as_deref(), Some("UpdateError"));
    assert_eq!(failure(&json!({ "failureReason": "" })), None);
}

#[test]
fn rules_use_v1beta2_conditions_and_health_conditions_use_both_lists() {
    let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "lastTransitionTime": "2026-08-01T02:00:00Z" });
    let facts = machine(
        &json!({}),
        &json!({
            "conditions": [condition("OwnerRemediated", "False"), condition("Old", "True")],
            "v1beta2": { "conditions": [condition("HealthCheckSucceeded", "True")] },
        }),
    );
    let rules: Vec<&str> = facts.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(rules, ["HealthCheckSucceeded"]);
    assert_eq!(facts.health_condition, Some(true));
    assert_eq!(facts.owner_remediated, Some(false));
}

#[test]
fn cluster_readiness_is_read_from_condition_or_v1beta1_field() {
    let cluster = |status: &Value| {
        let object = object(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "metadata": { "name": "c", "creationTimestamp": "2026-08-01T00:00:00Z" },
            "status": status,
        }));
        let facts = facts::cluster(&ClusterView::from_dynamic(&object).unwrap());
        (
            facts.infrastructure_ready.is_some(),
            facts.control_plane_initialized.is_some(),
        )
    };
    assert_eq!(cluster(&json!({})), (false, false));
    assert_eq!(
        cluster(&json!({ "infrastructureReady": true })),
        (true, false)
    );
    let condition = json!([{ "type": "ControlPlaneInitialized", "status": "True" }]);
    assert_eq!(cluster(&json!({ "conditions": condition })), (false, true));
    let not = json!([{ "type": "InfrastructureReady", "status": "False" }]);
    let contradicts = json!({ "conditions": not, "infrastructureReady": true });
    assert_eq!(
        cluster(&contradicts),
        (false, false),
        "the condition counts"
    );
}
