//! The kinds of OpenShift's Machine API: the used fields with the limits and defaults of OpenShift's schema.
//! The status of a Machine accepts any value, so that a test can write malformed ones.

use anyhow::Result;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::Value;

use super::Stage;
use crate::cluster::{apply, apply_yaml};

/// CRDs of the OpenShift kinds that the tests need. As on OpenShift, the preferred version of the group has none of the
/// kinds that Rackhand reads.
pub const OPENSHIFT_KINDS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: controlplanemachinesets.machine.openshift.io
spec:
  group: machine.openshift.io
  names: { kind: ControlPlaneMachineSet, plural: controlplanemachinesets }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machines.machine.openshift.io
spec:
  group: machine.openshift.io
  names: { kind: Machine, plural: machines }
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      subresources: { status: {} }
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: { type: object, x-kubernetes-preserve-unknown-fields: true }
            status: { type: object, x-kubernetes-preserve-unknown-fields: true }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machinehealthchecks.machine.openshift.io
spec:
  group: machine.openshift.io
  names:
    kind: MachineHealthCheck
    plural: machinehealthchecks
    shortNames: [mhc, mhcs]
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      subresources: { status: {} }
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [selector, unhealthyConditions]
              properties:
                maxUnhealthy:
                  default: 100%
                  pattern: '^((100|[0-9]{1,2})%|[0-9]+)$'
                  anyOf: [{ type: integer }, { type: string }]
                  x-kubernetes-int-or-string: true
                nodeStartupTimeout:
                  default: 10m
                  type: string
                  pattern: '^0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$'
                remediationTemplate:
                  type: object
                  properties:
                    apiVersion: { type: string }
                    kind: { type: string }
                    name: { type: string }
                    namespace: { type: string }
                selector:
                  type: object
                  properties:
                    matchLabels:
                      type: object
                      additionalProperties: { type: string }
                    matchExpressions:
                      type: array
                      items:
                        type: object
                        required: [key, operator]
                        properties:
                          key: { type: string }
                          operator: { type: string }
                          values: { type: array, items: { type: string } }
                unhealthyConditions:
                  type: array
                  minItems: 1
                  items:
                    type: object
                    required: [status, timeout, type]
                    properties:
                      status: { type: string, minLength: 1 }
                      timeout:
                        type: string
                        pattern: '^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$'
                      type: { type: string, minLength: 1 }
            status:
              type: object
              properties:
                conditions:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [type]
                  items:
                    type: object
                    required: [lastTransitionTime, status, type]
                    properties:
                      lastTransitionTime: { type: string, format: date-time }
                      message: { type: string }
                      reason: { type: string }
                      severity: { type: string }
                      status: { type: string }
                      type: { type: string }
                currentHealthy: { type: integer, minimum: 0 }
                expectedMachines: { type: integer, minimum: 0 }
                remediationsAllowed: { type: integer, format: int32, minimum: 0 }
"#;

/// API group of the kinds.
const GROUP: &str = "machine.openshift.io";

impl Stage {
    /// Installs the kinds, and the controller's rights to act on them.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub async fn install_openshift(&self) -> Result<()> {
        apply_yaml(&self.client, OPENSHIFT_KINDS).await?;
        self.install("openshift").await
    }

    /// API of the Machines of OpenShift.
    #[must_use]
    pub fn openshift_machines(&self) -> Api<DynamicObject> {
        self.api(GROUP, "v1beta1", "Machine")
    }

    /// API of the MachineHealthChecks of OpenShift.
    #[must_use]
    pub fn openshift_checks(&self) -> Api<DynamicObject> {
        self.api(GROUP, "v1beta1", "MachineHealthCheck")
    }

    /// Applies an object of OpenShift's Machine API.
    ///
    /// # Errors
    /// The API server rejects the object.
    pub async fn apply_openshift(&self, kind: &str, mut object: Value) -> Result<DynamicObject> {
        object["apiVersion"] = format!("{GROUP}/v1beta1").into();
        object["kind"] = kind.into();
        object["metadata"]["namespace"] = super::NAMESPACE.into();
        apply(&self.client, object).await
    }
}
