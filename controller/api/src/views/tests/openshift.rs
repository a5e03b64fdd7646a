//! OpenShift's health checks and Machines as users write them.

use std::time::Duration;

use serde_json::json;

use super::{object, yaml};
use crate::IntOrPercent;
use crate::views::{MachineView, OpenShiftHealthCheckView};

const CHECK: &str = r#"
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: workers
  namespace: openshift-machine-api
  annotations:
    machine.openshift.io/remediation-strategy: external-baremetal
spec:
  nodeStartupTimeout: 60m
  maxUnhealthy: 40%
  selector:
    matchLabels:
      machine.openshift.io/cluster-api-machine-role: worker
  unhealthyConditions:
  - {type: Ready, status: "False", timeout: 300s}
status:
  expectedMachines: 3
  conditions:
  - {type: RemediationAllowed, status: "False", severity: Warning, reason: TooManyUnhealthy}
"#;

#[test]
fn openshift_check_is_read_as_documented() {
    let view = OpenShiftHealthCheckView::from_dynamic(&yaml(CHECK)).unwrap();
    assert_eq!(view.node_startup_timeout, Some(Duration::from_secs(3600)));
    assert_eq!(view.max_unhealthy, Ok(Some(IntOrPercent::Percent(40))));
    assert_eq!(view.node_checks.len(), 1);
    assert!(view.external_baremetal && view.remediation_template.is_none());
    assert_eq!(view.expected_machines, Some(3));
    let allowed = view.condition("RemediationAllowed").unwrap();
    assert_eq!(allowed.severity.as_deref(), Some("Warning"));
}

#[test]
fn quoted_integer_is_a_limit() {
    let view = OpenShiftHealthCheckView::from_dynamic(&object(json!({
        "metadata": {"name": "check"}, "spec": {"maxUnhealthy": "3", "selector": {}}
    })))
    .unwrap();
    assert_eq!(view.max_unhealthy, Ok(Some(IntOrPercent::Int(3))));
}

#[test]
fn invalid_limit_does_not_hide_the_check() {
    let view = OpenShiftHealthCheckView::from_dynamic(&object(json!({
        "metadata": {"name": "check"}, "spec": {"maxUnhealthy": "few", "selector": {}}
    })))
    .unwrap();
    let why = view.max_unhealthy.unwrap_err();
    assert!(why.starts_with("spec.maxUnhealthy is \"few\""), "{why}");
    assert!(view.selector.is_empty() && view.selector.matches(&Default::default()));
    let bad = OpenShiftHealthCheckView::from_dynamic(&object(json!({
        "metadata": {"name": "check"}, "spec": {"nodeStartupTimeout": 5}
    })));
    assert!(bad.is_err());
}

#[test]
fn openshift_machine_has_phase_failure_and_last_updated() {
    let machine = MachineView::from_dynamic(&object(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "m", "annotations": {"host.metal3.io/external-remediation": ""}},
        "status": {
            "phase": "Failed", "lastUpdated": "2026-08-01T02:00:00Z",
            "errorReason": "CreateError", "errorMessage": "no host",
        },
    })))
    .unwrap();
    assert_eq!(machine.phase.as_deref(), Some("Failed"));
    assert!(machine.last_updated.is_some() && machine.cluster_name.is_none());
    assert_eq!(machine.failure_reason.as_deref(), Some("CreateError"));
    assert!(
        machine
            .meta
            .has_annotation("host.metal3.io/external-remediation")
    );
}
