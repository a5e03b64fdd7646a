//! Actions of people and other controllers on the objects of a stage.

use anyhow::{Context, Result};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{CLUSTER, LONG, NAMESPACE, Stage};

/// Finalizer that keeps a pod of [`Stage::bind_pod`] in the API.
const FINALIZER: &str = "test.example/wait";

impl Stage {
    /// API of the BareMetalHosts.
    #[must_use]
    pub fn bare_metal_hosts(&self) -> Api<DynamicObject> {
        self.api("metal3.io", "v1alpha1", "BareMetalHost")
    }

    /// API of the MachineHealthChecks.
    #[must_use]
    pub fn checks(&self) -> Api<DynamicObject> {
        self.api("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck")
    }

    /// Sets an annotation, or removes it with `None`.
    ///
    /// # Errors
    /// The API server rejects the change.
    pub async fn annotate(
        &self,
        objects: &Api<DynamicObject>,
        name: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let body = json!({ "metadata": { "annotations": { key: value } } });
        objects
            .patch(name, &PatchParams::default(), &Patch::Merge(body))
            .await
            .with_context(|| format!("annotating {name}"))?;
        Ok(())
    }

    /// Has Rackhand delete the pods of hosts that are confirmed off, for Metal3Remediations too.
    ///
    /// # Errors
    /// The API server rejects the change.
    pub async fn delete_pods_at_once(&self) -> Result<()> {
        let clusters = self.api("cluster.x-k8s.io", "v1beta1", "Cluster");
        let key = "rackhand.dev/pod-deletion";
        self.annotate(&clusters, CLUSTER, key, Some("Immediate"))
            .await
    }

    /// Creates the remediation of a Machine like a health check; returns its UID.
    ///
    /// # Errors
    /// The Machine does not exist, or the API server rejects the remediation.
    pub async fn remediate(&self, machine: &str) -> Result<String> {
        let owner = self.machines().get(machine).await?;
        let made = self
            .create_remediation_for(machine, &owner.uid().unwrap_or_default())
            .await?;
        Ok(made.uid().unwrap_or_default())
    }

    /// Creates the remediation of a Machine with this UID.
    pub(super) async fn create_remediation(&self, machine: &str, uid: &str) -> Result<()> {
        self.create_remediation_for(machine, uid).await.map(drop)
    }

    async fn create_remediation_for(&self, machine: &str, uid: &str) -> Result<DynamicObject> {
        let health = &self.config.health;
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3Remediation",
            "metadata": {
                "name": machine,
                "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
                "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta1",
                    "kind": "Machine",
                    "name": machine,
                    "uid": uid,
                }],
            },
            "spec": { "strategy": {
                "type": "Reboot",
                "retryLimit": health.retries,
                "timeout": health.boot,
            }},
        }))?;
        let made = self
            .remediations()
            .create(&PostParams::default(), &object)
            .await?;
        Ok(made)
    }

    /// Deletes the remediation of a Machine, like a health check after a recovery.
    ///
    /// # Errors
    /// The object does not exist.
    pub async fn withdraw(&self, machine: &str) -> Result<()> {
        self.remediations()
            .delete(machine, &DeleteParams::default())
            .await
            .map(drop)
            .with_context(|| format!("withdrawing {machine}"))
    }

    /// Creates a pod that is bound to a Node; with `kept`, it has a finalizer that keeps it in the API until
    /// [`Self::let_pod_go`].
    ///
    /// # Errors
    /// The API server rejects the change.
    pub async fn bind_pod(&self, node: &str, kept: bool) -> Result<Pod> {
        let finalizers: &[&str] = if kept { &[FINALIZER] } else { &[] };
        let pod: Pod = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": format!("on-{node}"), "finalizers": finalizers },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "c", "image": "c.invalid/c:1" }],
            },
        }))?;
        Ok(self
            .bound_pods()
            .create(&PostParams::default(), &pod)
            .await?)
    }

    /// Binds a pod to a Node as [`Self::bind_pod`] does, and waits until it runs there.
    ///
    /// # Errors
    /// The API server rejects it, or it does not start in time.
    pub async fn run_pod(&self, node: &str) -> Result<()> {
        self.bind_pod(node, false).await?;
        let host = self.host(node)?;
        host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await
            .map(drop)
    }

    /// Creates the PodDisruptionBudget `keep-NODE`, by which the pod of [`Self::run_pod`] may not be evicted.
    ///
    /// # Errors
    /// The pod does not exist, or the API server rejects the budget.
    pub async fn forbid_eviction(&self, node: &str) -> Result<Api<PodDisruptionBudget>> {
        let label = json!({ "metadata": { "labels": { "on": node } } });
        self.bound_pods()
            .patch(
                &format!("on-{node}"),
                &PatchParams::default(),
                &Patch::Merge(label),
            )
            .await?;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), "default");
        let budget = serde_json::from_value(json!({
            "metadata": { "name": format!("keep-{node}") },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "on": node } } },
        }))?;
        budgets.create(&PostParams::default(), &budget).await?;
        Ok(budgets)
    }

    /// Whether a Node is cordoned, by whomever.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn is_cordoned(&self, node: &str) -> Result<bool> {
        let node = self.node(node).await?;
        Ok(node.spec.and_then(|spec| spec.unschedulable) == Some(true))
    }

    /// The pod of [`Self::bind_pod`], if it exists.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn bound_pod(&self, node: &str) -> Result<Option<Pod>> {
        Ok(self.bound_pods().get_opt(&format!("on-{node}")).await?)
    }

    /// Removes the finalizer of a pod of [`Self::bind_pod`].
    ///
    /// # Errors
    /// The pod does not exist.
    pub async fn let_pod_go(&self, node: &str) -> Result<()> {
        let body = json!({ "metadata": { "finalizers": null } });
        self.bound_pods()
            .patch(
                &format!("on-{node}"),
                &PatchParams::default(),
                &Patch::Merge(body),
            )
            .await
            .map(drop)
            .with_context(|| format!("letting the pod on {node} go"))
    }

    fn bound_pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }
}
