//! The management cluster to which clusterctl moves a Cluster, and clusterctl itself as a process.

use std::process::ExitStatus;

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::{
    cluster::{ControlPlane, Parts, apply, shipped},
    process::Process,
    stage::{LONG, NAMESPACE, Stage, cluster_api_release, wait_until},
};
use serde_json::{Value, json};

/// Name of the controller of the target.
const CONTROLLER: &str = "target";
/// The label by which clusterctl finds the kinds whose objects it may move.
const LABEL: &str = "clusterctl.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Kinds of which clusterctl moves objects, each with the version in which it is stored.
pub(super) const CLUSTER: [&str; 3] = ["cluster.x-k8s.io", "v1beta2", "Cluster"];
pub(super) const MACHINE: [&str; 3] = ["cluster.x-k8s.io", "v1beta2", "Machine"];
pub(super) const METAL3_MACHINE: [&str; 3] = [INFRASTRUCTURE, "v1beta2", "Metal3Machine"];
pub(super) const METAL3_REMEDIATION: [&str; 3] = [INFRASTRUCTURE, "v1beta2", "Metal3Remediation"];
pub(super) const HOST: [&str; 3] = ["metal3.io", "v1alpha1", "BareMetalHost"];
pub(super) const REMEDIATION: [&str; 3] = ["rackhand.dev", "v1alpha1", "PowerRemediation"];
pub(super) const TEMPLATE: [&str; 3] = ["rackhand.dev", "v1alpha1", "PowerRemediationTemplate"];
pub(super) const SECRET: [&str; 3] = ["", "v1", "Secret"];

/// Objects of a kind in the namespace of the Cluster.
pub(super) fn objects(client: &Client, [group, version, kind]: [&str; 3]) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// The names of all objects of a kind, sorted.
pub(super) async fn names(client: &Client, kind: [&str; 3]) -> Result<Vec<String>> {
    let list = objects(client, kind).list(&ListParams::default()).await?;
    let mut names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
    names.sort();
    Ok(names)
}

/// A management cluster with Rackhand, and the processes that move to it.
pub(super) struct Target {
    plane: ControlPlane,
    pub(super) client: Client,
}

impl Target {
    /// Starts an API server with the same kinds and rights as the source has, and a controller with the same agents.
    /// From now on clusterctl finds the kinds in both.
    pub(super) async fn start(stage: &Stage) -> Result<Self> {
        let plane = ControlPlane::start(&stage.dir().join("target"), Parts::ApiOnly).await?;
        let client = plane.client().await?;
        for mut object in shipped("kustomize/standalone")? {
            if as_installed(&mut object) {
                apply(&stage.client, object.clone()).await?;
            }
            apply(&client, object).await?;
        }
        let this = Self { plane, client };
        this.prepare(stage).await?;
        stage.start_controller_of(&this.plane, CONTROLLER).await?;
        Ok(this)
    }

    /// What is not moved, and has to be there before the move.
    async fn prepare(&self, stage: &Stage) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        apply(&self.client, namespace).await?;
        let bindings: Api<RoleBinding> = Api::namespaced(stage.client.clone(), NAMESPACE);
        let mut binding = bindings.get("rackhand-secrets").await?;
        binding.metadata = ObjectMeta {
            name: binding.metadata.name,
            ..ObjectMeta::default()
        };
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), NAMESPACE);
        bindings.create(&PostParams::default(), &binding).await?;
        for spec in &stage.config().racks {
            let agent = json!({
                "apiVersion": "rackhand.dev/v1alpha1",
                "kind": "RackAgent",
                "metadata": { "name": spec.name },
                "spec": { "rack": spec.name, "endpoint": stage.agent_endpoint(&spec.name)? },
            });
            apply(&self.client, agent).await?;
        }
        Ok(())
    }

    /// Starts to move the namespace of the Cluster here.
    pub(super) fn start_move(&self, stage: &Stage, name: &str) -> Result<Process> {
        let program = cluster_api_release()?.join("move");
        let (from, to) = (stage.plane().kubeconfig(), self.plane.kubeconfig());
        let mut command = [program, from, to]
            .map(|path| path.display().to_string())
            .to_vec();
        command.push(NAMESPACE.to_owned());
        Process::start(name, &command, &[], stage.dir())
    }
}

/// Makes a kind of another project what its own manifests and `clusterctl init` make of it; whether it is one. Those
/// of Rackhand come with their labels.
fn as_installed(crd: &mut Value) -> bool {
    if crd["kind"] != "CustomResourceDefinition" || crd["spec"]["group"] == "rackhand.dev" {
        return false;
    }
    crd["metadata"]["labels"][LABEL] = json!("");
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        let newest = versions.last().map(|version| version["name"].clone());
        for version in versions {
            version["storage"] = json!(Some(&version["name"]) == newest.as_ref());
        }
    }
    true
}

fn log_of(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap_or_default()
}

/// Waits until a move says that an object makes it wait.
pub(super) async fn wait_blocked(process: &mut Process) -> Result<()> {
    wait_until("the move waits", LONG, || {
        let (ended, log) = (process.ended(), log_of(process));
        async move {
            if log.contains("Move blocked by") {
                return Ok(Ok(()));
            }
            Ok(Err(format!("{ended:?}: {log}")))
        }
    })
    .await
}

/// Waits until a move has ended; its exit status and what it wrote.
pub(super) async fn wait_ended(mut process: Process) -> Result<(ExitStatus, String)> {
    let status = wait_until("the move ends", LONG, || {
        let ended = process.ended().ok_or_else(|| process.log_tail());
        async move { Ok(ended) }
    })
    .await?;
    Ok((status, log_of(&process)))
}

/// Gives the objects of a stage the owners that Cluster API, CAPM3 and baremetal-operator give them, because clusterctl
/// moves what a Cluster owns; and the Cluster the status without which clusterctl does not begin.
pub(super) async fn owned_by_cluster(stage: &Stage, cluster: &str) -> Result<()> {
    let kinds = |kind| objects(&stage.client, kind);
    let params = PatchParams::default();
    let status = json!({ "status": { "initialization": { "infrastructureProvisioned": true } } });
    kinds(CLUSTER)
        .patch_status(cluster, &params, &Patch::Merge(status))
        .await?;
    let hosts = stage.config().racks.iter().flat_map(|rack| &rack.hosts);
    for host in hosts.map(String::as_str) {
        let secret = format!("{host}-bmc");
        let chain = [
            (CLUSTER, cluster),
            (MACHINE, host),
            (METAL3_MACHINE, host),
            (HOST, host),
            (SECRET, secret.as_str()),
        ];
        for ((owner, above), (kind, name)) in chain.into_iter().zip(chain.into_iter().skip(1)) {
            let uid = kinds(owner).get(above).await?.uid();
            let [group, version, owner] = owner;
            let references = json!([{
                "apiVersion": format!("{group}/{version}"),
                "kind": owner,
                "name": above,
                "uid": uid.context("no UID")?,
            }]);
            let body = json!({ "metadata": { "ownerReferences": references } });
            kinds(kind)
                .patch(name, &params, &Patch::Merge(body))
                .await?;
        }
    }
    Ok(())
}
