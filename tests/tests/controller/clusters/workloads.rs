//! Several workload clusters, each with its own API server: an unreachable one does not delay the others, its
//! Nodes do not count as unhealthy, and new credentials are used.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, api::DeleteParams};
use nix::sys::signal::Signal;
use rackhand_tests::{
    cluster::{ControlPlane, Parts, Server, apply, apply_yaml},
    stage::{LONG, NAMESPACE, Recorder, Stage, StageConfig, wait_until},
};
use serde_json::{Value, json};

const CONTROLLER: &str = "controller-0";
const SUCCEEDED: &str = "HealthCheckSucceeded";
/// The name of a Node in both clusters.
pub(crate) const NODE: &str = "node-1";
/// Rights of the controller in a workload cluster, with two ServiceAccounts.
const RIGHTS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: rackhand
rules:
  - apiGroups: ['']
    resources: [nodes]
    verbs: [get, list, watch, patch]
  - apiGroups: ['']
    resources: [nodes/status]
    verbs: [patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: rackhand
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: rackhand
subjects:
  - {kind: ServiceAccount, namespace: kube-system, name: first}
  - {kind: ServiceAccount, namespace: kube-system, name: second}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: first, namespace: kube-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: second, namespace: kube-system}
";

/// A workload cluster with one Node.
pub(crate) struct Workload {
    name: &'static str,
    pub(crate) plane: ControlPlane,
    pub(crate) client: Client,
}

struct World {
    stage: Stage,
    recorder: Recorder,
    east: Workload,
    west: Workload,
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_workload_cluster_does_not_delay_other_clusters() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(Vec::new(), &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    let east = Workload::start(&stage, "east").await.unwrap();
    let west = Workload::start(&stage, "west").await.unwrap();
    let world = World {
        stage,
        recorder,
        east,
        west,
    };
    if let Err(error) = scenario(&world).await {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn scenario(w: &World) -> Result<()> {
    w.stage.start_controller(CONTROLLER).await?;
    for cluster in [&w.east, &w.west] {
        counted(w, cluster, 1).await?;
    }

    // The connections stay open without traffic.
    w.east.plane.signal(Server::ApiServer, Signal::SIGSTOP)?;
    w.west.set_ready("Unknown").await?;
    verdict(w, "west-1", "False").await?;
    w.west.set_ready("True").await?;
    verdict(w, "west-1", "True").await?;
    counted(w, &w.east, 0).await?;
    w.east.plane.signal(Server::ApiServer, Signal::SIGCONT)?;
    counted(w, &w.east, 1).await?;

    let connected = connections(w, &w.west)?;
    w.west.give(&w.stage, "second").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(w.west.client.clone(), "kube-system");
    accounts.delete("first", &DeleteParams::default()).await?;
    wait_until("connected with the new credentials", LONG, || async {
        let now = connections(w, &w.west)?;
        Ok(if now > connected {
            Ok(())
        } else {
            Err(format!("{now} connections"))
        })
    })
    .await?;
    w.west.set_ready("Unknown").await?;
    verdict(w, "west-1", "False").await?;

    let of_east = w.recorder.of("Machine", "east-1");
    let failed = of_east
        .iter()
        .find(|version| health(&version.object).is_some_and(|status| status == "False"));
    ensure!(
        failed.is_none(),
        "a silent API or a foreign Node made the Machine unhealthy: {failed:?}"
    );
    Ok(())
}

/// The status of condition HealthCheckSucceeded of a Machine.
fn health(machine: &Value) -> Option<&str> {
    let conditions = machine["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|c| c["type"] == SUCCEEDED)?;
    found["status"].as_str()
}

async fn verdict(w: &World, machine: &str, wanted: &str) -> Result<()> {
    wait_until(
        &format!("{machine}: {SUCCEEDED}={wanted}"),
        LONG,
        || async {
            let now = serde_json::to_value(w.stage.machines().get(machine).await?)?;
            Ok(if health(&now) == Some(wanted) {
                Ok(())
            } else {
                Err(now["status"].to_string())
            })
        },
    )
    .await
}

/// Waits until the check counts this many Machines as healthy.
async fn counted(w: &World, cluster: &Workload, healthy: i64) -> Result<()> {
    let what = format!("{} has {healthy} healthy of 1", cluster.name);
    wait_until(&what, LONG, || async {
        let status = w.stage.checks().get(cluster.name).await?.data["status"].clone();
        let same = status["expectedMachines"] == 1 && status["currentHealthy"] == healthy;
        Ok(if same {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

/// Number of connections of the controller to a cluster.
fn connections(w: &World, cluster: &Workload) -> Result<usize> {
    let log = w.stage.log_of(CONTROLLER)?;
    let of = format!("cluster={NAMESPACE}/{}", cluster.name);
    let lines = log.lines().filter(|line| line.contains(&of));
    Ok(lines
        .filter(|line| line.contains("workload cluster connected"))
        .count())
}

impl Workload {
    pub(crate) async fn start(stage: &Stage, name: &'static str) -> Result<Self> {
        let plane = ControlPlane::start(&stage.dir().join(name), Parts::ApiOnly).await?;
        let client = plane.client().await?;
        apply_yaml(&client, RIGHTS).await?;
        let this = Self {
            name,
            plane,
            client,
        };
        this.set_ready("True").await?;
        this.give(stage, "first").await?;
        for object in this.objects() {
            apply(&stage.client, object).await?;
        }
        Ok(this)
    }

    /// Sets condition Ready of the Node, with an old transition time.
    async fn set_ready(&self, status: &str) -> Result<()> {
        let long_ago = "2026-01-01T00:00:00Z";
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": NODE },
            "status": { "conditions": [{
                "type": "Ready",
                "status": status,
                "reason": "Test",
                "message": "",
                "lastHeartbeatTime": long_ago,
                "lastTransitionTime": long_ago,
            }]},
        });
        apply(&self.client, node).await.map(drop)
    }

    /// Gives the controller the credentials of a ServiceAccount.
    async fn give(&self, stage: &Stage, account: &str) -> Result<()> {
        let kubeconfig = self.plane.kubeconfig_of("kube-system", account).await?;
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": format!("{}-kubeconfig", self.name), "namespace": NAMESPACE },
            "stringData": { "value": std::fs::read_to_string(kubeconfig)? },
        });
        apply(&stage.client, secret).await.map(drop)
    }

    fn objects(&self) -> [Value; 3] {
        let labels = json!({ "cluster.x-k8s.io/cluster-name": self.name });
        let ready = |kind: &str| {
            json!({
                "type": kind,
                "status": "True",
                "reason": "Ready",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "metadata": { "name": self.name, "namespace": NAMESPACE },
            "spec": {},
            "status": {
                "infrastructureReady": true,
                "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")],
            },
        });
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": format!("{}-1", self.name),
                "namespace": NAMESPACE,
                "labels": labels,
            },
            "spec": {
                "clusterName": self.name,
                "bootstrap": { "dataSecretName": "none" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.example/v1",
                    "kind": "PlainMachine",
                    "name": "none",
                },
            },
            "status": {
                "infrastructureReady": true,
                "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": NODE },
            },
        });
        let check = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "MachineHealthCheck",
            "metadata": { "name": self.name, "namespace": NAMESPACE },
            "spec": {
                "clusterName": self.name,
                "nodeStartupTimeout": "0s",
                "selector": { "matchLabels": labels },
                "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "1s" }],
            },
        });
        [cluster, machine, check]
    }
}
