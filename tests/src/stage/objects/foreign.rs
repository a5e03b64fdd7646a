//! Kinds of other projects, without their controllers.

/// The CRD of a kind that accepts any field, in YAML. `scope` is `Namespaced` or `Cluster`.
#[must_use]
pub fn open_kind(group: &str, scope: &str, kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    format!(
        "---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: {scope}
  names: {{kind: {kind}, plural: {plural}}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    )
}

/// The kinds of a remediator that does nothing, `example.org/v1`, and the rights of the controller to them, in YAML.
#[must_use]
pub fn idle_remediator() -> String {
    let kinds = ["IdleRemediationTemplate", "IdleRemediation"];
    let kinds = kinds.map(|kind| open_kind("example.org", "Namespaced", kind));
    kinds.concat()
        + r#"---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: idle
  labels: {rackhand.dev/aggregate-to-controller: "true"}
rules:
  - apiGroups: [example.org]
    resources: [idleremediationtemplates, idleremediations]
    verbs: [get, list, watch, create, update, patch, delete]
"#
}
