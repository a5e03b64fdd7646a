//! NodeHealthChecks of Rackhand with a foreign remediator that does nothing.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply,
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::{NODE_NAME, World, resource};

impl World {
    pub(super) fn idle(&self) -> Api<DynamicObject> {
        let resource = resource("example.org/v1", "IdleRemediation");
        Api::namespaced_with(self.stage.client.clone(), NAMESPACE, &resource)
    }

    /// Creates a Node without a kubelet, with a condition `Sick` that no part of Kubernetes uses.
    pub(super) async fn make_node(&self, name: &str, pool: &str, annotations: Value) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "labels": { "of": pool }, "annotations": annotations,
            },
        });
        apply(&self.stage.client, node).await.map(drop)
    }

    pub(super) async fn sick(&self, name: &str, sick: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.stage.client.clone());
        let since = Timestamp::now() - SignedDuration::from_secs(301);
        let patch = json!({ "status": { "conditions": [{
            "type": "Sick", "status": if sick { "True" } else { "False" },
            "reason": "Test", "message": "",
            "lastTransitionTime": format!("{since:.0}"),
            "lastHeartbeatTime": format!("{since:.0}"),
        }] } });
        let params = PatchParams::default();
        let patch = Patch::Strategic(patch);
        nodes.patch_status(name, &params, &patch).await?;
        Ok(())
    }

    pub(super) async fn our_check(&self, name: &str, more: Value) -> Result<()> {
        let mut check = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": name, "annotations": { "rackhand.dev/evaluate": "true" } },
            "spec": {
                "selector": { "matchLabels": { "of": name } }, "minHealthy": 0,
                "unhealthyConditions": [{ "type": "Sick", "status": "True", "duration": "1s" }],
            },
        });
        let (spec, more) = (check["spec"].as_object_mut(), more.as_object().cloned());
        if let (Some(spec), Some(more)) = (spec, more) {
            spec.extend(more);
        }
        apply(&self.stage.client, check).await.map(drop)
    }

    pub(super) async fn idle_template(&self, name: &str) -> Result<Value> {
        let template = json!({
            "apiVersion": "example.org/v1", "kind": "IdleRemediationTemplate",
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "annotations": { "remediation.medik8s.io/multiple-templates-support": "" },
            },
            "spec": { "template": { "spec": {} } },
        });
        apply(&self.stage.client, template).await?;
        Ok(json!({
            "apiVersion": "example.org/v1", "kind": "IdleRemediationTemplate",
            "name": name, "namespace": NAMESPACE,
        }))
    }

    /// The remediations of a Node, oldest first.
    pub(super) async fn idle_of(&self, node: &str) -> Result<Vec<DynamicObject>> {
        let mut list = self.idle().list(&ListParams::default()).await?.items;
        list.retain(|r| r.annotations().get(NODE_NAME).map(String::as_str) == Some(node));
        list.sort_by_key(|r| r.creation_timestamp().map(|t| t.0));
        Ok(list)
    }

    pub(super) async fn wait_idle(&self, node: &str, count: usize) -> Result<Vec<DynamicObject>> {
        wait_until(&format!("{node}: {count} remediations"), LONG, || async {
            let list = self.idle_of(node).await?;
            Ok(match list.len() == count {
                true => Ok(list),
                false => Err(list.len().to_string()),
            })
        })
        .await
    }

    pub(super) async fn wait_check(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let status = self.checks().get(name).await?.data["status"].clone();
            Ok(match wanted(&status) {
                true => Ok(status),
                false => Err(status.to_string()),
            })
        })
        .await
    }

    pub(super) async fn wait_note(&self, check: &str, words: &str) -> Result<()> {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.stage.client.clone(), "default");
        wait_until(&format!("{check}: {words}"), LONG, || async {
            let list = events.list(&ListParams::default()).await?;
            let of = |e: &&k8s_openapi::api::events::v1::Event| {
                e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(check)
            };
            let notes: Vec<String> = list
                .iter()
                .filter(of)
                .filter_map(|e| e.note.clone())
                .collect();
            Ok(match notes.iter().any(|note| note.contains(words)) {
                true => Ok(()),
                false => Err(format!("{notes:?}")),
            })
        })
        .await
    }

    /// Runs `rackhand-controller explain nhc`.
    pub(super) async fn explain(&self, args: &[&str]) -> Result<Value> {
        let more = ["--health-checks=annotated", "-o", "json"];
        let args = [&["nhc"], args, &more].concat();
        Ok(serde_json::from_str(&self.stage.explain(&args, "").await?)?)
    }
}
