//! The account of medik8s' operator, templates, and foreign kinds.

use rackhand_tests::stage::{idle_remediator, open_kind};

/// The account of medik8s' operator with only its aggregated rights.
pub(super) const OPERATOR: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: node-healthcheck-controller-manager, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: node-healthcheck-operator-aggregation}
aggregationRule:
  clusterRoleSelectors:
    - matchLabels: {rbac.ext-remediation/aggregate-to-ext-remediation: "true"}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: node-healthcheck-operator-aggregation}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: node-healthcheck-operator-aggregation
subjects:
  - {kind: ServiceAccount, name: node-healthcheck-controller-manager, namespace: default}
"#;

pub(super) const TEMPLATES: &str = r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: long, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot, retryLimit: 9, timeouts: {bootSeconds: 40}}}}}
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: full, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot, timeouts: {bootSeconds: 120}}}}}
"#;

/// The kinds of a remediator that does nothing, and a kind of OpenShift without its controller.
pub(super) fn kinds() -> String {
    idle_remediator() + &open_kind("config.openshift.io", "Cluster", "ClusterVersion")
}
