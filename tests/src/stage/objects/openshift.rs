//! The kinds of OpenShift's Machine API: the used fields with the limits and defaults of OpenShift's schema, whose
//! status of a Machine accepts any value, so that a test can write malformed ones; or the published ones, with
//! OpenShift's own machine-healthcheck controller as a process under its published rights.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster_api::prepared;
use crate::stage::{NAMESPACE, Stage};
use crate::{
    cluster::{apply, apply_yaml, parse_yaml},
    process::{Process, free_port},
};

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
/// Name of the process of OpenShift's controller, and of its log.
const HEALTH_CHECKS: &str = "machine-healthcheck";
/// The ServiceAccount of that controller; its rights are of the same name, except those to remediations.
const ACCOUNT: &str = "machine-api-controllers";
const RIGHTS: [&str; 2] = [ACCOUNT, "machine-api-operator-ext-remediation"];
/// Its namespace, in place of which the tests use theirs.
const HOME: &str = "openshift-machine-api";

impl Stage {
    /// Installs the kinds, and the controller's rights to act on them.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub async fn install_openshift(&self) -> Result<()> {
        apply_yaml(&self.client, OPENSHIFT_KINDS).await?;
        self.install("openshift").await
    }

    /// Installs the published kinds, and the rights of both controllers.
    ///
    /// # Errors
    /// The release cannot be built, or the API server rejects an object.
    pub async fn install_openshift_release(&self) -> Result<()> {
        let dir = openshift_release()?;
        for file in ["02_machine.Default.crd", "07_machinehealthcheck.crd"] {
            for object in manifest(&dir, file)? {
                apply(&self.client, object).await?;
            }
        }
        for object in manifest(&dir, "09_rbac")? {
            let (name, namespace) = (
                &object["metadata"]["name"],
                &object["metadata"]["namespace"],
            );
            let is_its = RIGHTS.iter().any(|right| name == right);
            if is_its && (namespace.is_null() || namespace == NAMESPACE) {
                apply(&self.client, object).await?;
            }
        }
        self.install("openshift").await
    }

    /// Makes a Machine of OpenShift the consumer of a BareMetalHost.
    ///
    /// # Errors
    /// The API server rejects the change.
    pub async fn set_openshift_consumer(&self, host: &str, machine: &str) -> Result<()> {
        let consumer = json!({ "spec": { "consumerRef": {
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "name": machine, "namespace": NAMESPACE,
        }}});
        let (params, consumer) = (PatchParams::default(), Patch::Merge(consumer));
        let hosts = self.bare_metal_hosts();
        hosts.patch(host, &params, &consumer).await?;
        Ok(())
    }

    /// Starts OpenShift's controller of MachineHealthChecks.
    ///
    /// # Errors
    /// It cannot be built, or does not start.
    pub async fn start_openshift_controller(&self) -> Result<Process> {
        let (health, metrics) = (free_port()?, free_port()?);
        let account = self.plane.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
        let program = openshift_release()?.join(HEALTH_CHECKS);
        let command = vec![
            program.display().to_string(),
            format!("--kubeconfig={}", account.display()),
            format!("--namespace={NAMESPACE}"),
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            "-v=3".to_owned(),
        ];
        Process::start(HEALTH_CHECKS, &command, &[], &self.dir)
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
        object["metadata"]["namespace"] = NAMESPACE.into();
        apply(&self.client, object).await
    }
}

/// The folder with OpenShift's controller and its manifests, from `hack/setup`, which builds it if it is missing.
fn openshift_release() -> Result<PathBuf> {
    prepared("--print-openshift")
}

/// The objects of a published manifest, with the namespace of the tests.
fn manifest(dir: &Path, name: &str) -> Result<Vec<Value>> {
    let path = dir.join(format!("install/0000_30_machine-api-operator_{name}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    parse_yaml(&text.replace(HOME, NAMESPACE))
}
