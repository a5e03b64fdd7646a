//! MachineHealthChecks as users write them, and the errors for invalid ones.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::{object, yaml};
use crate::IntOrPercent;
use crate::views::{
    ConditionCheck, LabelRequirement, LabelSelector, MachineHealthCheckView, Shape, UnhealthyRange,
};

const CHECK_V1BETA1: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: worker-check
  namespace: metal3
spec:
  clusterName: test1
  maxUnhealthy: 100%
  nodeStartupTimeout: 0m
  selector:
    matchLabels:
      nodepool: nodepool-0
  unhealthyConditions:
  - type: Ready
    status: Unknown
    timeout: 300s
  - type: Ready
    status: "False"
    timeout: 5m0.5s
  remediationTemplate:
    kind: Metal3RemediationTemplate
    apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
    name: worker-remediation-request
"#;

const CHECK_V1BETA2: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata:
  name: worker-check
  namespace: metal3
spec:
  clusterName: test1
  selector:
    matchExpressions:
    - {key: nodepool, operator: In, values: [a, b]}
    - {key: drained, operator: DoesNotExist}
  checks:
    nodeStartupTimeoutSeconds: 0
    unhealthyNodeConditions:
    - {type: Ready, status: Unknown, timeoutSeconds: 300}
    unhealthyMachineConditions:
    - {type: NodeReady, status: "False", timeoutSeconds: 0}
  remediation:
    triggerIf:
      unhealthyLessThanOrEqualTo: 3
      unhealthyInRange: "[1-3]"
    templateRef:
      kind: Metal3RemediationTemplate
      apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
      name: worker-remediation-request
status:
  expectedMachines: 4
  targets: [m-0, m-1]
  conditions:
  - {type: RemediationAllowed, status: "True", reason: RemediationAllowed}
  deprecated:
    v1beta1:
      conditions:
      - {type: RemediationAllowed, status: "False", severity: Warning}
"#;

fn check(condition_type: &str, status: &str, millis: u64) -> ConditionCheck {
    ConditionCheck {
        condition_type: condition_type.to_owned(),
        status: status.to_owned(),
        timeout: Duration::from_millis(millis),
    }
}

#[test]
fn v1beta1_check_is_read_as_documented() {
    let view = MachineHealthCheckView::from_dynamic(&yaml(CHECK_V1BETA1)).unwrap();
    assert_eq!(view.cluster_name.as_deref(), Some("test1"));
    assert_eq!(view.max_unhealthy, Some(IntOrPercent::Percent(100)));
    assert_eq!(view.node_startup_timeout, Some(Duration::ZERO));
    assert_eq!(
        view.node_checks,
        [
            check("Ready", "Unknown", 300_000),
            check("Ready", "False", 300_500)
        ]
    );
    assert_eq!(view.machine_checks, []);
    assert_eq!(view.unhealthy_range, None);
    let template = view.remediation_template.unwrap();
    assert_eq!(template.remediation_kind(), "Metal3Remediation");
    assert_eq!(
        template.api_version,
        "infrastructure.cluster.x-k8s.io/v1beta1"
    );
    assert_eq!(view.shape, Shape::V1Beta1);
}

#[test]
fn v1beta2_check_is_read_from_nested_fields() {
    let view = MachineHealthCheckView::from_dynamic(&yaml(CHECK_V1BETA2)).unwrap();
    assert_eq!(view.node_startup_timeout, Some(Duration::ZERO));
    assert_eq!(view.node_checks, [check("Ready", "Unknown", 300_000)]);
    assert_eq!(view.machine_checks, [check("NodeReady", "False", 0)]);
    assert_eq!(view.max_unhealthy, Some(IntOrPercent::Int(3)));
    assert_eq!(
        view.unhealthy_range,
        Some(UnhealthyRange { min: 1, max: 3 })
    );
    assert_eq!(view.targets, ["m-0", "m-1"]);
    assert_eq!(view.shape, Shape::V1Beta2);
    assert!(view.condition("RemediationAllowed").unwrap().is_true());
    assert!(view.conditions_v1beta1[0].is_false());
    assert_eq!(
        view.conditions_v1beta1[0].severity.as_deref(),
        Some("Warning")
    );
}

#[test]
fn unset_startup_timeout_stays_unset() {
    let view = MachineHealthCheckView::from_dynamic(&object(json!({
        "metadata": {"name": "check"}, "spec": {"nodeStartupTimeout": null}
    })))
    .unwrap();
    assert_eq!(view.node_startup_timeout, None);
    assert!(view.selector.is_empty());
}

#[test]
fn error_names_object_field_and_value() {
    for (spec, want) in [
        (
            json!({"unhealthyConditions": [
                {"type": "Ready", "status": "False", "timeout": "5m"},
                {"type": "Ready", "status": "Unknown", "timeout": "5d"}
            ]}),
            "spec.unhealthyConditions[1].timeout is \"5d\": there is no unit \"d\", \
             only ns, us, ms, s, m and h",
        ),
        (
            json!({"nodeStartupTimeout": "-5s"}),
            "spec.nodeStartupTimeout is -5s, want zero or more",
        ),
        (
            json!({"maxUnhealthy": "3"}),
            "spec.maxUnhealthy is \"3\", want an integer or a percentage in quotes such as \"40%\"",
        ),
        (
            json!({"unhealthyRange": "[3-1]"}),
            "spec.unhealthyRange is \"[3-1]\", which ends before it begins",
        ),
        (
            json!({"unhealthyRange": "[+3-5]"}),
            "spec.unhealthyRange is \"[+3-5]\", want a range such as \"[3-5]\"",
        ),
        (
            json!({"checks": {"nodeStartupTimeoutSeconds": -1}}),
            "spec.checks.nodeStartupTimeoutSeconds is -1, want a number of seconds, zero or more",
        ),
        (
            json!({"clusterName": 7}),
            "spec.clusterName is 7, want a string",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
            "spec.selector.matchExpressions[0].operator is \"Is\", want In, NotIn, Exists or \
             DoesNotExist",
        ),
        (
            json!({"selector": {"matchLabels": {"a": 1}}}),
            "spec.selector.matchLabels has 1 at \"a\", want a string",
        ),
        (
            json!({"remediationTemplate": {"kind": "XTemplate", "name": "x"}}),
            "spec.remediationTemplate.apiVersion is missing",
        ),
    ] {
        let error = MachineHealthCheckView::from_dynamic(&object(json!({
            "metadata": {"name": "check", "namespace": "ns"}, "spec": spec
        })))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("MachineHealthCheck ns/check: {want}")
        );
    }
}

#[test]
fn selector_matches_like_kubernetes() {
    let selector = MachineHealthCheckView::from_dynamic(&yaml(CHECK_V1BETA2))
        .unwrap()
        .selector;
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    assert!(selector.matches(&labels(&[("nodepool", "a"), ("other", "x")])));
    assert!(!selector.matches(&labels(&[("nodepool", "c")])));
    assert!(!selector.matches(&labels(&[])));
    assert!(!selector.matches(&labels(&[("nodepool", "a"), ("drained", "")])));
    assert!(LabelSelector::default().matches(&labels(&[])));
    let not_in = LabelSelector {
        match_expressions: vec![LabelRequirement {
            key: "nodepool".to_owned(),
            operator: "NotIn".to_owned(),
            values: vec!["a".to_owned()],
        }],
        ..LabelSelector::default()
    };
    assert!(not_in.matches(&labels(&[])));
    assert!(!not_in.matches(&labels(&[("nodepool", "a")])));
}
