//! The stage of these tests: a cluster of Nodes, most of them without a kubelet.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::Lease, api::core::v1::Node};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    stage::{LONG, Recorder, Stage, wait_until},
};
use serde_json::{Value, json};

/// The kinds of a foreign remediator that does nothing.
const PROVIDER_X: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: providerxremediationtemplates.medik8s.io
spec:
  group: medik8s.io
  scope: Namespaced
  names: {kind: ProviderXRemediationTemplate, plural: providerxremediationtemplates}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: providerxremediations.medik8s.io
spec:
  group: medik8s.io
  scope: Namespaced
  names: {kind: ProviderXRemediation, plural: providerxremediations}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: provider-x
  labels:
    rbac.ext-remediation/aggregate-to-ext-remediation: "true"
rules:
  - apiGroups: [medik8s.io]
    resources: [providerxremediationtemplates]
    verbs: [get, list, watch]
  - apiGroups: [medik8s.io]
    resources: [providerxremediations]
    verbs: [get, list, watch, create, update, patch, delete]
"#;

const TEMPLATES: &str = r#"
apiVersion: medik8s.io/v1alpha1
kind: ProviderXRemediationTemplate
metadata: {name: group-x, namespace: default}
spec: {template: {spec: {how: gently}}}
---
apiVersion: medik8s.io/v1alpha1
kind: ProviderXRemediationTemplate
metadata:
  name: first
  namespace: default
  annotations: {remediation.medik8s.io/multiple-templates-support: "true"}
spec: {template: {spec: {how: first}}}
---
apiVersion: medik8s.io/v1alpha1
kind: ProviderXRemediationTemplate
metadata:
  name: second
  namespace: default
  annotations: {remediation.medik8s.io/multiple-templates-support: "true"}
spec: {template: {spec: {how: second}}}
"#;

pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) recorder: Recorder,
}

impl World {
    pub(crate) fn new(stage: Stage) -> Self {
        Self {
            recorder: Recorder::of_nodes(&stage.client),
            stage,
        }
    }
}

pub(crate) async fn begin(stage: &Stage) -> Result<()> {
    apply_yaml(&stage.client, PROVIDER_X).await?;
    apply_yaml(&stage.client, TEMPLATES).await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

/// Renews the Leases of Nodes without a kubelet, so that they do not become Unknown.
pub(crate) async fn renew(client: Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let of_test = ListParams::default().labels("test.rackhand.dev/fake");
    loop {
        // All at once: one after another would take too long on a busy machine.
        let renewals = nodes
            .list(&of_test)
            .await
            .into_iter()
            .flatten()
            .map(|node| {
                let name = node.name_any();
                let now = Timestamp::now();
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": { "name": name },
                    "spec": {
                        "holderIdentity": name, "leaseDurationSeconds": 40,
                        "renewTime": format!("{now:.6}"),
                    },
                });
                let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
                async move {
                    let params = PatchParams::apply("test").force();
                    leases
                        .patch(&name, &params, &Patch::Apply(&lease))
                        .await
                        .ok();
                }
            });
        join_all(renewals).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

impl World {
    pub(crate) fn checks(&self) -> Api<DynamicObject> {
        self.stage.node_health_checks()
    }

    pub(crate) fn remediations(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("medik8s.io", "v1alpha1", "ProviderXRemediation");
        let resource = ApiResource::from_gvk(&gvk);
        Api::namespaced_with(self.stage.client.clone(), "default", &resource)
    }

    /// Creates a Node without a kubelet.
    pub(crate) async fn make_node(&self, name: &str, pool: &str) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "test.rackhand.dev/fake": "", "pool": pool } },
        });
        apply(&self.stage.client, node).await?;
        self.set_ready(name, "True").await
    }

    /// Sets condition Ready, with a transition time more than 5 minutes ago.
    pub(crate) async fn set_ready(&self, name: &str, status: &str) -> Result<()> {
        self.set(name, "Ready", status).await
    }

    /// Sets condition `Sick`, with a transition time more than 5 minutes ago.
    pub(crate) async fn sick(&self, name: &str, sick: bool) -> Result<()> {
        self.set(name, "Sick", if sick { "True" } else { "False" })
            .await
    }

    pub(crate) async fn set(&self, name: &str, type_: &str, status: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.stage.client.clone());
        let since = Timestamp::now() - SignedDuration::from_secs(301);
        let patch = json!({ "status": { "conditions": [{
            "type": type_, "status": status, "reason": "Test", "message": "",
            "lastTransitionTime": format!("{since:.0}"),
            "lastHeartbeatTime": format!("{since:.0}"),
        }] } });
        let params = PatchParams::default();
        nodes
            .patch_status(name, &params, &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    /// Creates a check of the Nodes of a pool. No part of Kubernetes uses its condition.
    pub(crate) async fn make_check(&self, name: &str, more: Value) -> Result<()> {
        let mut check = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "pool": name } },
                "unhealthyConditions": [{ "type": "Sick", "status": "True", "duration": "1s" }],
            },
        });
        if let (Some(spec), Value::Object(more)) = (check["spec"].as_object_mut(), more) {
            spec.extend(more);
        }
        apply(&self.stage.client, check).await.map(drop)
    }

    pub(crate) async fn patch_check(&self, name: &str, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.checks()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub(crate) async fn wait_check(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let object = self.checks().get(name).await?;
            let status = object.data["status"].clone();
            Ok(if wanted(&status) {
                Ok(status)
            } else {
                Err(status.to_string())
            })
        })
        .await
    }

    /// The remediations of a Node, oldest first.
    pub(crate) async fn of_node(&self, node: &str) -> Result<Vec<DynamicObject>> {
        let mut list = self
            .remediations()
            .list(&ListParams::default())
            .await?
            .items;
        list.retain(|r| {
            r.annotations()
                .get("remediation.medik8s.io/node-name")
                .map(String::as_str)
                == Some(node)
        });
        list.sort_by_key(|r| r.creation_timestamp().map(|t| t.0));
        Ok(list)
    }

    pub(crate) async fn wait_remediations(
        &self,
        node: &str,
        count: usize,
    ) -> Result<Vec<DynamicObject>> {
        wait_until(&format!("{node}: {count} remediations"), LONG, || async {
            let list = self.of_node(node).await?;
            Ok(if list.len() == count {
                Ok(list)
            } else {
                Err(list.len().to_string())
            })
        })
        .await
    }

    /// Waits for an Event about a check.
    pub(crate) async fn wait_event(&self, check: &str, reason: &str) -> Result<()> {
        self.wait_event_of(&["Normal", "Warning"], check, reason)
            .await
    }

    /// Waits for a Warning about a check.
    pub(crate) async fn wait_warning(&self, check: &str, reason: &str) -> Result<()> {
        self.wait_event_of(&["Warning"], check, reason).await
    }

    async fn wait_event_of(&self, types: &[&str], check: &str, reason: &str) -> Result<()> {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.stage.client.clone(), "default");
        wait_until(&format!("{check}: Event {reason}"), LONG, || async {
            let list = events.list(&ListParams::default()).await?;
            let about = list.iter().filter(|e| {
                e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(check)
                    && e.type_.as_deref().is_some_and(|t| types.contains(&t))
            });
            let told: Vec<(String, String)> = about
                .map(|e| {
                    (
                        e.reason.clone().unwrap_or_default(),
                        e.note.clone().unwrap_or_default(),
                    )
                })
                .collect();
            let found = told
                .iter()
                .any(|(r, note)| r == reason && note.starts_with("[remediation] "));
            Ok(if found {
                Ok(())
            } else {
                Err(format!("{told:?}"))
            })
        })
        .await
    }

    pub(crate) async fn shown(&self) -> String {
        let (checks, all) = (self.checks(), ListParams::default());
        let checks = checks.list(&all).await.into_iter().flatten();
        let shown = checks.map(|c| format!("--- {}: {}\n", c.name_any(), c.data["status"]));
        shown.collect()
    }
}

pub(crate) fn unhealthy(status: &Value) -> Vec<&str> {
    let list = status["unhealthyNodes"].as_array();
    let names = list
        .into_iter()
        .flatten()
        .filter_map(|n| n["name"].as_str());
    names.collect()
}

pub(crate) fn template(name: &str) -> Value {
    json!({
        "apiVersion": "medik8s.io/v1alpha1", "kind": "ProviderXRemediationTemplate",
        "namespace": "default", "name": name,
    })
}
