//! The objects that Cluster API and CAPM3 would create; other projects' controllers, and stand-ins for them.

mod cluster_api;
mod foreign;
mod metal3;
mod nodes;
mod openshift;
mod provider;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

pub(super) use nodes::words;
pub use {
    cluster_api::{MANAGER, cluster_api_release},
    foreign::{idle_remediator, open_kind},
    nodes::{NODE_CHECK, NODE_LEASES},
    openshift::OPENSHIFT_KINDS,
    provider::Provider,
};

use super::{CLUSTER, HostLink, LONG, NAMESPACE, RackSpec, Stage, wait_until};
use crate::cluster::{apply, apply_yaml};

/// Check and template of Cluster API's and CAPM3's documentation with the times of the stage.
const HEALTH_CHECK: &str = r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3RemediationTemplate
metadata:
  name: worker-remediation-request
  namespace: metal3
spec:
  template:
    spec:
      strategy:
        type: Reboot
        retryLimit: @RETRIES@
        timeout: @BOOT@
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: @NAME@
  namespace: metal3
spec:
  clusterName: demo
  maxUnhealthy: @MOST@
  nodeStartupTimeout: 0m
  selector:
    matchLabels:
      nodepool: @POOL@
  unhealthyConditions:
    - type: Ready
      status: Unknown
      timeout: @UNHEALTHY@
    - type: Ready
      status: "False"
      timeout: @UNHEALTHY@
  remediationTemplate:
    apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
    kind: Metal3RemediationTemplate
    name: worker-remediation-request
"#;

impl Stage {
    /// Writes the Cluster, which is ready, and its kubeconfig Secret.
    pub(super) async fn write_cluster(&self) -> Result<()> {
        let now = jiff::Timestamp::now()
            .round(jiff::Unit::Second)?
            .to_string();
        let ready = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": "Ready", "message": "" });
        // Cluster API's manager uses the status of the Cluster, and needs all rights in the workload cluster.
        let (workload, cluster) = if self.config.cluster_api {
            let cluster = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "kind": "Cluster",
                "metadata": { "name": CLUSTER, "namespace": NAMESPACE },
                "spec": {
                    "controlPlaneEndpoint": { "host": "127.0.0.1", "port": 6443 },
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "Metal3Cluster",
                        "name": CLUSTER,
                    },
                },
            });
            (self.plane.kubeconfig(), cluster)
        } else {
            let cluster = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta1",
                "kind": "Cluster",
                "metadata": { "name": CLUSTER, "namespace": NAMESPACE },
                "spec": {},
                "status": {
                    "phase": "Provisioned",
                    "infrastructureReady": true,
                    "controlPlaneReady": true,
                    "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")],
                },
            });
            let rights = self.plane.kubeconfig_of("kube-system", "rackhand").await?;
            (rights, cluster)
        };
        apply(
            &self.client,
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        )
        .await?;
        if self.config.cluster_api {
            let provisioned = json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "kind": "Metal3Cluster",
                "metadata": { "name": CLUSTER, "namespace": NAMESPACE },
                "spec": { "controlPlaneEndpoint": { "host": "127.0.0.1", "port": 6443 } },
                "status": { "ready": true, "initialization": { "provisioned": true } },
            });
            apply(&self.client, provisioned).await?;
        }
        for object in [
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": { "name": "rackhand-secrets", "namespace": NAMESPACE },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "rackhand-secrets",
                },
                "subjects": [{
                    "kind": "ServiceAccount",
                    "name": "rackhand-controller",
                    "namespace": super::SYSTEM,
                }],
            }),
            cluster,
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": format!("{CLUSTER}-kubeconfig"),
                    "namespace": NAMESPACE,
                    "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
                },
                "type": "cluster.x-k8s.io/secret",
                "stringData": { "value": std::fs::read_to_string(workload)? },
            }),
        ] {
            apply(&self.client, object).await?;
        }
        Ok(())
    }

    /// Writes the Machines of a rack and the objects that link them to their hosts.
    pub(super) async fn write_rack(&self, spec: &RackSpec) -> Result<()> {
        for host in &spec.hosts {
            if !self.config.cluster_api {
                apply(&self.client, machine(spec, host)).await?;
            }
            if spec.link != HostLink::Inventory {
                self.write_host(spec, host).await?;
            }
        }
        Ok(())
    }

    async fn write_host(&self, spec: &RackSpec, host: &str) -> Result<()> {
        for object in self.host_objects(spec, host)? {
            apply(&self.client, object).await?;
        }
        Ok(())
    }

    /// Secret, BareMetalHost and, unless it is free, Metal3Machine.
    pub(super) fn host_objects(&self, spec: &RackSpec, host: &str) -> Result<Vec<Value>> {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": format!("{host}-bmc"),
                "namespace": NAMESPACE,
                "labels": { "environment.metal3.io": "baremetal" },
            },
            "stringData": {
                "username": super::BMC_USER,
                "password": self.config.bmc_password.expose_secret(),
            },
        });
        let metal3_machine = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3Machine",
            "metadata": {
                "name": host,
                "namespace": NAMESPACE,
                "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") },
            },
            "spec": { "image": { "url": "http://image.invalid/node.qcow2", "checksum": "none" } },
        });
        let detached = spec.link == HostLink::Detached;
        let annotations = if detached {
            json!({ "baremetalhost.metal3.io/detached": "" })
        } else {
            json!({})
        };
        let free = self.config.cluster_api;
        let mut bare_metal_host = json!({
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "BareMetalHost",
            "metadata": {
                "name": host,
                "namespace": NAMESPACE,
                "labels": { "rackhand.dev/rack": spec.name },
                "annotations": annotations,
            },
            "spec": {
                "online": true,
                "bmc": {
                    "address": self.bmc_address(host)?,
                    "credentialsName": format!("{host}-bmc"),
                    "disableCertificateVerification": true,
                },
                "consumerRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine",
                    "name": host,
                    "namespace": NAMESPACE,
                },
            },
            "status": {
                "operationalStatus": if detached { "detached" } else { "OK" },
                "poweredOn": true,
                "errorCount": 0,
                "errorMessage": "",
                "hardwareProfile": "unknown",
                "provisioning": { "state": if free { "available" } else { "provisioned" }, "ID": "" },
            },
        });
        if free {
            bare_metal_host["spec"]["consumerRef"] = Value::Null;
            return Ok(vec![secret, bare_metal_host]);
        }
        Ok(vec![metal3_machine, secret, bare_metal_host])
    }

    /// Waits until the Nodes of all hosts are Ready.
    pub(super) async fn wait_nodes(&self) -> Result<()> {
        let wanted: usize = self.config.racks.iter().map(|r| r.hosts.len()).sum();
        let nodes: Api<Node> = Api::all(self.client.clone());
        wait_until("every node Ready", LONG, || async {
            let list = nodes.list(&ListParams::default()).await?;
            let ready = list.iter().filter(|n| super::query::is_ready(n)).count();
            Ok(if ready >= wanted {
                Ok(())
            } else {
                Err(format!("{ready} of {wanted}"))
            })
        })
        .await?;
        // A providerID links a Machine to its Node.
        for node in nodes.list(&ListParams::default()).await? {
            tracing::debug!(node = node.name_any(), "ready");
        }
        Ok(())
    }

    /// Applies the health check and its template.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub async fn apply_health_check(&self) -> Result<()> {
        apply_yaml(&self.client, &self.health_check()).await
    }

    /// The YAML of the health check and its template.
    #[must_use]
    pub fn health_check(&self) -> String {
        self.health_check_of("worker-healthcheck", "worker", "100%")
    }

    /// The YAML of a health check of another pool with this `maxUnhealthy`.
    #[must_use]
    pub fn health_check_of(&self, name: &str, pool: &str, most: &str) -> String {
        let health = &self.config.health;
        HEALTH_CHECK
            .replace("@NAME@", name)
            .replace("@POOL@", pool)
            .replace("@MOST@", most)
            .replace("@UNHEALTHY@", &health.unhealthy)
            .replace("@BOOT@", &health.boot)
            .replace("@RETRIES@", &health.retries.to_string())
    }

    /// Applies a StatefulSet, whose Pods must never run twice.
    ///
    /// # Errors
    /// The API server rejects the object.
    pub async fn apply_workload(&self, replicas: u32) -> Result<()> {
        apply(
            &self.client,
            json!({
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": { "name": "db", "namespace": "default" },
                "spec": {
                    "serviceName": "db",
                    "replicas": replicas,
                    "podManagementPolicy": "Parallel",
                    "selector": { "matchLabels": { "app": "db" } },
                    "template": {
                        "metadata": { "labels": { "app": "db" } },
                        "spec": { "containers": [{ "name": "db", "image": "db.invalid/db:1" }] },
                    },
                },
            }),
        )
        .await
        .map(drop)
    }
}

pub(crate) fn machine(spec: &RackSpec, host: &str) -> Value {
    let infrastructure = if spec.link == HostLink::Inventory {
        json!({ "apiVersion": "infrastructure.example/v1", "kind": "PlainMachine", "name": host })
    } else {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3Machine",
            "name": host,
        })
    };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": host,
            "namespace": NAMESPACE,
            "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER, "nodepool": spec.pool },
        },
        "spec": {
            "clusterName": CLUSTER,
            "bootstrap": { "dataSecretName": "none" },
            "infrastructureRef": infrastructure,
            "providerID": format!("rackhand://{}/{host}", spec.name),
        },
        "status": {
            "phase": "Running",
            "infrastructureReady": true,
            "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": host },
        },
    })
}
