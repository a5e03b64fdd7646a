//! The account of medik8s' operator, templates, and foreign kinds.

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

/// The kinds of a remediator that does nothing, and OpenShift's kinds without their controllers.
pub(super) const KINDS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: idleremediationtemplates.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: IdleRemediationTemplate, plural: idleremediationtemplates}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: idleremediations.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: IdleRemediation, plural: idleremediations}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: ClusterVersion, plural: clusterversions}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: idle
  labels: {rackhand.dev/aggregate-to-controller: "true"}
rules:
  - apiGroups: [example.org]
    resources: [idleremediationtemplates, idleremediations]
    verbs: [get, list, watch, create, update, patch, delete]
"#;
