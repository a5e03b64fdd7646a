//! What is in a cluster before its owner reads a page.

use anyhow::Result;
use kube::Client;
use rackhand_api::names;
use rackhand_tests::{
    cluster::{apply, apply_file, apply_yaml, shipped},
    repository::root,
    stage::OPENSHIFT_KINDS,
};
use serde_json::{Value, json};

/// What a cluster is, before Rackhand is installed in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Cluster API, CAPM3 and baremetal-operator.
    ClusterApi,
    /// OpenShift's Machine API and baremetal-operator.
    OpenShift,
    /// medik8s' operator.
    Medik8s,
    /// Nodes and nothing else.
    Nodes,
    /// Machines and NodeHealthChecks, with Rackhand and some objects of it.
    Installed,
}

/// The configuration of the agent in [`World::Installed`].
pub const AGENT: &str = r#"
rack = "rack-a"
listen = "0.0.0.0:7443"
tls = "/etc/rackhand/tls"
socket = "/run/rackhand/agent.sock"
state = "/var/lib/rackhand"
allowed_bmc_networks = ["192.0.2.0/24"]
defaults.trust = { ca_file = "/etc/rackhand/bmc-ca.pem" }

[[hosts]]
name = "node-7"

[hosts.bmc]
address = "redfish://192.0.2.17/redfish/v1/Systems/1"
username = "rackhand"
password_file = "/etc/rackhand/secrets/node-7"
"#;

const NODES: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-7}
status:
  conditions:
    - {type: Ready, status: "True", reason: KubeletReady, message: ready, lastHeartbeatTime: "2026-08-01T00:00:00Z", lastTransitionTime: "2026-08-01T00:00:00Z"}
---
apiVersion: v1
kind: Node
metadata: {name: node-8}
status:
  conditions:
    - {type: Ready, status: Unknown, reason: NodeStatusUnknown, message: silent, lastHeartbeatTime: "2026-08-01T00:00:00Z", lastTransitionTime: "2026-08-01T00:00:00Z"}
"#;

const CLUSTER: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: demo, namespace: metal3}
spec: {}
status:
  phase: Provisioned
  infrastructureReady: true
  controlPlaneReady: true
  conditions:
    - {type: InfrastructureReady, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-08-01T00:00:00Z"}
    - {type: ControlPlaneInitialized, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-08-01T00:00:00Z"}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3RemediationTemplate
metadata: {name: reboot-by-capm3, namespace: metal3}
spec:
  template:
    spec:
      strategy: {type: Reboot, retryLimit: 1, timeout: 300s}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: workers, namespace: metal3}
spec:
  clusterName: demo
  selector:
    matchLabels: {nodepool: workers}
  checks:
    unhealthyNodeConditions:
      - {type: Ready, status: Unknown, timeoutSeconds: 300}
  remediation:
    triggerIf: {unhealthyLessThanOrEqualTo: 40%}
    templateRef:
      apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
      kind: Metal3RemediationTemplate
      name: reboot-by-capm3
"#;

const OPENSHIFT: &str = r#"
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata:
  name: node-7
  namespace: openshift-machine-api
  labels: {nodepool: workers}
  annotations: {metal3.io/BareMetalHost: openshift-machine-api/node-7}
status: {phase: Running, nodeRef: {kind: Node, name: node-7}}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: workers, namespace: openshift-machine-api}
spec:
  selector:
    matchLabels: {nodepool: workers}
  unhealthyConditions:
    - {type: Ready, status: Unknown, timeout: 300s}
"#;

const NODE_HEALTH_CHECK: &str = r#"
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: workers}
spec:
  selector:
    matchExpressions:
      - {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}
  minHealthy: 51%
  remediationTemplate:
    apiVersion: self-node-remediation.medik8s.io/v1alpha1
    kind: SelfNodeRemediationTemplate
    namespace: medik8s
    name: automatic
"#;

/// The same where Rackhand evaluates it.
const OWN_NODE_HEALTH_CHECK: &str = r#"
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: workers}
spec:
  selector:
    matchExpressions:
      - {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}
  minHealthy: 51%
  escalatingRemediations:
    - order: 1
      timeout: 5m
      remediationTemplate:
        apiVersion: rackhand.dev/v1alpha1
        kind: PowerRemediationTemplate
        namespace: rackhand-system
        name: quick
"#;

/// Remediations and what else the pages about a running system look at.
const REMEDIATIONS: &str = r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Remediation
metadata: {name: node-8, namespace: metal3}
spec:
  strategy: {type: Reboot, retryLimit: 1, timeout: 300s}
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediation
metadata: {name: node-7, namespace: metal3}
spec:
  strategy: {type: Reboot, retryLimit: 1}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: rackhand-controller, namespace: rackhand-system}
spec: {holderIdentity: rackhand-controller-0, leaseTransitions: 3, leaseDurationSeconds: 15}
---
apiVersion: rackhand.dev/v1alpha1
kind: RackAgent
metadata: {name: rack-a}
spec: {rack: rack-a, endpoint: "rack-a.example.org:7443"}
"#;

/// Writes them.
///
/// # Errors
/// The API server refuses one.
pub async fn install(client: &Client, world: World, bmc: &str, kubeconfig: &str) -> Result<()> {
    let crds = root().join("deploy/crds");
    apply_yaml(client, NODES).await?;
    match world {
        World::ClusterApi => {
            for crd in shipped("crds/standalone")? {
                apply(client, of_another_project(crd)).await?;
            }
            write_machines(client, bmc, kubeconfig).await?;
        }
        World::OpenShift => {
            apply_yaml(client, OPENSHIFT_KINDS).await?;
            apply_file(
                client,
                &crds.join("standalone/metal3.io_baremetalhosts.yaml"),
            )
            .await?;
            write_hosts(client, "openshift-machine-api", bmc).await?;
            apply_yaml(client, OPENSHIFT).await?;
        }
        World::Medik8s => {
            for crd in shipped("crds/nodes")? {
                apply(client, of_another_project(crd)).await?;
            }
            apply_yaml(client, NODE_HEALTH_CHECK).await?;
        }
        World::Nodes => {}
        World::Installed => {
            for folder in ["standalone", "node-health-checks"] {
                for object in shipped(&format!("kustomize/{folder}"))? {
                    apply(client, object).await?;
                }
            }
            write_machines(client, bmc, kubeconfig).await?;
            apply_yaml(client, OWN_NODE_HEALTH_CHECK).await?;
            apply_yaml(client, REMEDIATIONS).await?;
        }
    }
    Ok(())
}

/// A CRD as that of the project whose kind it is: without the label of ours.
fn of_another_project(mut crd: Value) -> Value {
    if let Some(labels) = crd["metadata"]["labels"].as_object_mut() {
        labels.remove(names::CRD_LABEL);
    }
    crd
}

async fn write_machines(client: &Client, bmc: &str, kubeconfig: &str) -> Result<()> {
    write_hosts(client, "metal3", bmc).await?;
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "demo-kubeconfig",
            "namespace": "metal3",
            "labels": { "cluster.x-k8s.io/cluster-name": "demo" },
        },
        "stringData": { "value": kubeconfig },
    });
    apply(client, secret).await?;
    apply_yaml(client, CLUSTER).await?;
    for name in ["node-7", "node-8"] {
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": name,
                "namespace": "metal3",
                "labels": { "nodepool": "workers", "cluster.x-k8s.io/cluster-name": "demo" },
            },
            "spec": {
                "clusterName": "demo",
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine",
                    "name": name,
                },
            },
            "status": { "phase": "Running", "nodeRef": { "kind": "Node", "name": name } },
        });
        apply(client, machine).await?;
    }
    Ok(())
}

async fn write_hosts(client: &Client, namespace: &str, bmc: &str) -> Result<()> {
    for object in [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "node-7-bmc", "namespace": namespace },
            "stringData": { "username": "rackhand", "password": "PASSWORD" },
        }),
        json!({
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "BareMetalHost",
            "metadata": { "name": "node-7", "namespace": namespace },
            "spec": {
                "online": true,
                "bmc": { "address": bmc, "credentialsName": "node-7-bmc" },
            },
        }),
    ] {
        apply(client, object).await?;
    }
    Ok(())
}
