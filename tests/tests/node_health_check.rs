//! NodeHealthCheck on a real control plane, without any Machine: the example as medik8s' page prints
//! it, the life of a remediation of a foreign kind, and a host that comes back by our own.
//!
//! All scenarios run at the same time on one stage. Most Nodes are objects only, whose Leases the
//! test renews, so that they say what the test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::Lease, api::core::v1::Node};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    stage::{
        CLUSTER, HostLink, LONG, NAMESPACE, RackSpec, Scenarios, Stage, StageConfig, wait_until,
    },
};
use serde_json::{Value, json};

const CONFIRMED: &str = "remediation.medik8s.io/manually-confirmed-healthy";

/// A remediator that does nothing, whose kinds anybody might ship.
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

/// As medik8s' page prints it.
const PRINTED: &str = r#"
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: nodehealthcheck-sample
spec:
# mandatory
  remediationTemplate:
    kind: ProviderXRemediationTemplate
    apiVersion: medik8s.io/v1alpha1
    name: group-x
    namespace: default
#  # optional
#  selector:
#    matchLabels:
#      kubernetes.io/os: linux
"#;

struct World {
    stage: Stage,
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_checked_and_remediated_without_machines() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("bare", 1, HostLink::Inventory);
    let config = StageConfig::steady(vec![rack], &["--power-timeout=20s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let renewing = tokio::spawn(renew(stage.client.clone()));
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let world = World { stage };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("the_printed_example_lives_its_life", printed(w));
    all.add("an_escalation_tries_one_after_another", escalation(w));
    all.add("a_paused_check_still_cleans_up", pause(w));
    all.add("nothing_is_done_at_the_limit", limit(w));
    all.add("a_person_confirms_that_a_node_is_healthy", confirmation(w));
    all.add("a_missing_template_disables_until_it_comes", disabled(w));
    all.add("a_host_is_fenced_and_comes_back", power(w));
    all.add("what_cannot_be_meant_is_refused", refused(w));
    let outcome = all.run().await;
    renewing.abort();
    if let Err(error) = outcome {
        let shown = world.shown().await;
        panic!("{error:#}\n{shown}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    // A cluster that knows nothing of Cluster API.
    let all = DeleteParams::default();
    stage
        .machines()
        .delete_collection(&all, &ListParams::default())
        .await?;
    let clusters = stage.api("cluster.x-k8s.io", "v1beta1", "Cluster");
    clusters.delete(CLUSTER, &all).await?;
    let path = format!(
        "{}/../deploy/kustomize/node-health-checks",
        env!("CARGO_MANIFEST_DIR")
    );
    apply_yaml(&stage.client, &kubectl(stage, &["kustomize", &path])?).await?;
    apply_yaml(&stage.client, PROVIDER_X).await?;
    apply_yaml(&stage.client, TEMPLATES).await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

fn kubectl(stage: &Stage, args: &[&str]) -> Result<String> {
    let kubeconfig = stage.plane().kubeconfig();
    let output = Command::new("kubectl")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(args)
        .output()
        .context("kubectl is missing; run hack/setup")?;
    ensure!(
        output.status.success(),
        "kubectl {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Keeps the Nodes that have no kubelet from being called unknown.
async fn renew(client: Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let of_test = ListParams::default().labels("test.rackhand.dev/fake");
    loop {
        for node in nodes.list(&of_test).await.into_iter().flatten() {
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
            let params = PatchParams::apply("test").force();
            leases
                .patch(&name, &params, &Patch::Apply(&lease))
                .await
                .ok();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

impl World {
    fn checks(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck");
        let mut resource = ApiResource::from_gvk(&gvk);
        resource.plural = "nodehealthchecks".to_owned();
        Api::all_with(self.stage.client.clone(), &resource)
    }

    fn remediations(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("medik8s.io", "v1alpha1", "ProviderXRemediation");
        let resource = ApiResource::from_gvk(&gvk);
        Api::namespaced_with(self.stage.client.clone(), "default", &resource)
    }

    /// A Node without a kubelet.
    async fn make_node(&self, name: &str, pool: &str) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "test.rackhand.dev/fake": "", "pool": pool } },
        });
        apply(&self.stage.client, node).await?;
        self.set_ready(name, "True").await
    }

    /// Its Ready has been so for more than five minutes.
    async fn set_ready(&self, name: &str, status: &str) -> Result<()> {
        self.set(name, "Ready", status).await
    }

    /// It has been sick, or well, for as long.
    async fn sick(&self, name: &str, sick: bool) -> Result<()> {
        self.set(name, "Sick", if sick { "True" } else { "False" })
            .await
    }

    async fn set(&self, name: &str, type_: &str, status: &str) -> Result<()> {
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

    /// A check of the Nodes of a pool. No part of Kubernetes has a say in the condition.
    async fn make_check(&self, name: &str, more: Value) -> Result<()> {
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

    async fn patch_check(&self, name: &str, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.checks()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn wait_check(
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
    async fn of_node(&self, node: &str) -> Result<Vec<DynamicObject>> {
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

    async fn wait_remediations(&self, node: &str, count: usize) -> Result<Vec<DynamicObject>> {
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

    /// The Events about a check tell of this.
    async fn wait_event(&self, check: &str, reason: &str) -> Result<()> {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.stage.client.clone(), "default");
        wait_until(&format!("{check}: Event {reason}"), LONG, || async {
            let list = events.list(&ListParams::default()).await?;
            let about = list
                .iter()
                .filter(|e| e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(check));
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

    async fn shown(&self) -> String {
        let (checks, all) = (self.checks(), ListParams::default());
        let checks = checks.list(&all).await.into_iter().flatten();
        let shown = checks.map(|c| format!("--- {}: {}\n", c.name_any(), c.data["status"]));
        shown.collect()
    }
}

fn unhealthy(status: &Value) -> Vec<&str> {
    let list = status["unhealthyNodes"].as_array();
    let names = list
        .into_iter()
        .flatten()
        .filter_map(|n| n["name"].as_str());
    names.collect()
}

fn template(name: &str) -> Value {
    json!({
        "apiVersion": "medik8s.io/v1alpha1", "kind": "ProviderXRemediationTemplate",
        "namespace": "default", "name": name,
    })
}

async fn printed(w: &World) -> Result<()> {
    w.make_node("printed-1", "printed").await?;
    apply_yaml(&w.stage.client, PRINTED).await?;
    let name = "nodehealthcheck-sample";
    w.wait_check(name, "enabled", |s| s["phase"] == "Enabled")
        .await?;
    w.set_ready("printed-1", "False").await?;
    let made = w.wait_remediations("printed-1", 1).await?;
    let check = w.checks().get(name).await?;
    let object = &made[0];
    ensure!(object.name_any() == "printed-1", "{object:?}");
    ensure!(
        object.data["spec"] == json!({ "how": "gently" }),
        "{object:?}"
    );
    let owner = &object.owner_references()[0];
    ensure!(Some(owner.uid.clone()) == check.uid(), "{owner:?}");
    ensure!(
        owner.kind == "NodeHealthCheck" && owner.controller != Some(true),
        "{owner:?}"
    );
    let labels = object.labels();
    ensure!(
        labels["app.kubernetes.io/part-of"] == "node-healthcheck-controller",
        "{labels:?}"
    );
    let annotations = object.annotations();
    ensure!(
        annotations["remediation.medik8s.io/template-name"] == "group-x",
        "{annotations:?}"
    );
    let status = w
        .wait_check(name, "remediating", |s| s["phase"] == "Remediating")
        .await?;
    ensure!(unhealthy(&status) == ["printed-1"], "{status}");
    let resource = &status["unhealthyNodes"][0]["remediations"][0]["resource"];
    ensure!(
        resource["uid"].as_str() == object.uid().as_deref(),
        "{status}"
    );
    let leases: Api<Lease> = Api::namespaced(w.stage.client.clone(), "medik8s-leases");
    let lease = leases.get("node-printed-1").await?.spec.unwrap_or_default();
    ensure!(
        lease.holder_identity.as_deref() == Some("NodeHealthCheck-nodehealthcheck-sample")
            && lease.lease_duration_seconds == Some(660),
        "{lease:?}"
    );
    let columns = kubectl(&w.stage, &["get", "nhc", name])?;
    ensure!(
        columns.contains("PHASE") && columns.contains("Remediating"),
        "{columns}"
    );
    ensure!(columns.contains("printed-1"), "{columns}");
    for reason in ["DetectedUnhealthy", "RemediationCreated"] {
        w.wait_event(name, reason).await?;
    }

    w.set_ready("printed-1", "True").await?;
    w.wait_remediations("printed-1", 0).await?;
    let status = w
        .wait_check(name, "enabled again", |s| {
            s["phase"] == "Enabled" && unhealthy(s).is_empty()
        })
        .await?;
    ensure!(status["conditions"][0]["type"] == "Disabled", "{status}");
    w.wait_event(name, "RemediationRemoved").await?;
    wait_until("the Lease is given back", LONG, || async {
        let found = leases.get_opt("node-printed-1").await?;
        Ok(found.map_or(Ok(()), |lease| Err(format!("{lease:?}"))))
    })
    .await?;
    let (_, metrics) = w.stage.admin("controller-0", "/metrics").await?;
    let labels = r#"{name="printed-1",namespace="default",remediation="ProviderXRemediation"}"#;
    let line = format!("nodehealthcheck_ongoing_remediation{labels} 0");
    ensure!(metrics.contains(&line), "{line}");
    Ok(())
}

async fn escalation(w: &World) -> Result<()> {
    for node in ["escalation-1", "escalation-2"] {
        w.make_node(node, "escalation").await?;
    }
    let step = |name: &str, order: i64| {
        json!({
            "remediationTemplate": template(name), "order": order, "timeout": "10m",
        })
    };
    let steps = json!([step("second", 2), step("first", 1)]);
    let rules = json!({ "minHealthy": "50%", "escalatingRemediations": steps });
    w.make_check("escalation", rules).await?;
    w.sick("escalation-1", true).await?;
    let first = w.wait_remediations("escalation-1", 1).await?;
    ensure!(first[0].data["spec"]["how"] == "first", "{first:?}");
    // It gives up by itself, and is not waited for.
    let failed =
        json!({ "status": { "conditions": [{ "type": "Succeeded", "status": "False" }] } });
    w.remediations()
        .patch_status(
            &first[0].name_any(),
            &PatchParams::default(),
            &Patch::Merge(failed),
        )
        .await?;
    let both = w.wait_remediations("escalation-1", 2).await?;
    let told = |r: &DynamicObject| {
        r.annotations()
            .contains_key("remediation.medik8s.io/nhc-timed-out")
    };
    let how = |how: &str| both.iter().find(|r| r.data["spec"]["how"] == how);
    ensure!(how("first").is_some_and(told), "{both:?}");
    ensure!(how("second").is_some_and(|r| !told(r)), "{both:?}");
    let status = w
        .wait_check("escalation", "both are shown", |s| {
            s["unhealthyNodes"][0]["remediations"]
                .as_array()
                .is_some_and(|r| r.len() == 2)
        })
        .await?;
    let entries = &status["unhealthyNodes"][0]["remediations"];
    ensure!(
        entries[0]["templateName"] == "first" && entries[0]["timedOut"].is_string(),
        "{status}"
    );
    ensure!(
        entries[1]["templateName"] == "second" && entries[1]["timedOut"].is_null(),
        "{status}"
    );
    w.sick("escalation-1", false).await?;
    w.wait_remediations("escalation-1", 0).await.map(drop)
}

async fn pause(w: &World) -> Result<()> {
    for node in ["pause-1", "pause-2", "pause-3"] {
        w.make_node(node, "pause").await?;
    }
    let rules = json!({
        "maxUnhealthy": "2", "remediationTemplate": template("group-x"), "pauseRequests": ["upgrade"],
    });
    w.make_check("pause", rules).await?;
    w.sick("pause-1", true).await?;
    let status = w
        .wait_check("pause", "sees it", |s| unhealthy(s) == ["pause-1"])
        .await?;
    ensure!(
        status["phase"] == "Paused" && status["observedNodes"] == 3,
        "{status}"
    );
    w.wait_event("pause", "RemediationSkipped").await?;
    ensure!(w.of_node("pause-1").await?.is_empty(), "it is paused");
    w.patch_check("pause", json!({ "pauseRequests": null }))
        .await?;
    w.wait_remediations("pause-1", 1).await?;
    w.patch_check("pause", json!({ "pauseRequests": ["again"] }))
        .await?;
    w.wait_check("pause", "paused again", |s| s["phase"] == "Paused")
        .await?;
    w.sick("pause-1", false).await?;
    w.wait_remediations("pause-1", 0).await?;
    w.wait_check("pause", "counts the truth", |s| s["healthyNodes"] == 3)
        .await
        .map(drop)
}

async fn limit(w: &World) -> Result<()> {
    for node in ["limit-1", "limit-2", "limit-3"] {
        w.make_node(node, "limit").await?;
        if node != "limit-1" {
            w.sick(node, true).await?;
        }
    }
    let rules = json!({ "minHealthy": "51%", "remediationTemplate": template("group-x") });
    w.make_check("limit", rules).await?;
    w.wait_check("limit", "sees both", |s| {
        unhealthy(s) == ["limit-2", "limit-3"]
    })
    .await?;
    w.wait_event("limit", "RemediationSkipped").await?;
    for node in ["limit-2", "limit-3"] {
        ensure!(
            w.of_node(node).await?.is_empty(),
            "1 of 3 is healthy, 2 have to be"
        );
    }
    w.sick("limit-3", false).await?;
    w.wait_remediations("limit-2", 1).await?;
    ensure!(w.of_node("limit-3").await?.is_empty(), "it is healthy");
    w.sick("limit-2", false).await?;
    w.wait_remediations("limit-2", 0).await.map(drop)
}

async fn confirmation(w: &World) -> Result<()> {
    for node in ["confirm-1", "confirm-2"] {
        w.make_node(node, "confirm").await?;
    }
    let rules = json!({
        "minHealthy": 1, "remediationTemplate": template("group-x"), "healthyDelay": "-1s",
    });
    w.make_check("confirm", rules).await?;
    w.sick("confirm-1", true).await?;
    w.wait_remediations("confirm-1", 1).await?;
    w.sick("confirm-1", false).await?;
    w.wait_check("confirm", "waits for a person", |s| {
        s["unhealthyNodes"][0]["healthyDelayed"] == true
    })
    .await?;
    ensure!(
        w.of_node("confirm-1").await?.len() == 1,
        "nobody has confirmed"
    );
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    let word = Patch::Merge(json!({ "metadata": { "annotations": { CONFIRMED: "me" } } }));
    nodes
        .patch("confirm-1", &PatchParams::default(), &word)
        .await?;
    w.wait_remediations("confirm-1", 0).await?;
    wait_until("the word is taken off", LONG, || async {
        let node = nodes.get("confirm-1").await?;
        let there = node.annotations().contains_key(CONFIRMED);
        Ok(if there {
            Err("there".to_owned())
        } else {
            Ok(())
        })
    })
    .await
}

async fn disabled(w: &World) -> Result<()> {
    for node in ["disabled-1", "disabled-2"] {
        w.make_node(node, "disabled").await?;
    }
    let rules = json!({ "minHealthy": 1, "remediationTemplate": template("late") });
    w.make_check("disabled", rules).await?;
    let status = w
        .wait_check("disabled", "says so", |s| s["phase"] == "Disabled")
        .await?;
    let condition = &status["conditions"][0];
    ensure!(
        condition["reason"] == "RemediationTemplateNotFound",
        "{status}"
    );
    ensure!(
        condition["message"]
            .as_str()
            .is_some_and(|m| m.contains("default/late")),
        "{status}"
    );
    w.sick("disabled-1", true).await?;
    let late = json!({
        "apiVersion": "medik8s.io/v1alpha1", "kind": "ProviderXRemediationTemplate",
        "metadata": { "name": "late", "namespace": "default" },
        "spec": { "template": { "spec": {} } },
    });
    apply(&w.stage.client, late).await?;
    w.wait_remediations("disabled-1", 1).await?;
    w.wait_check("disabled", "is enabled", |s| {
        s["conditions"][0]["reason"] == "NodeHealthCheckEnabled" && s["phase"] == "Remediating"
    })
    .await
    .map(drop)
}

async fn power(w: &World) -> Result<()> {
    let node = "bare-1";
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    let label = Patch::Merge(json!({ "metadata": { "labels": { "pool": "power" } } }));
    nodes.patch(node, &PatchParams::default(), &label).await?;
    let reboot = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
        "metadata": { "name": "reboot", "namespace": NAMESPACE },
        "spec": { "template": { "spec": { "strategy": {
            "type": "Reboot", "timeouts": { "bootSeconds": 120 },
        } } } },
    });
    apply(&w.stage.client, reboot).await?;
    let rules = json!({
        "maxUnhealthy": "100%",
        "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "duration": "1s" }],
        "remediationTemplate": {
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
            "namespace": NAMESPACE, "name": "reboot",
        },
    });
    w.make_check("power", rules).await?;
    w.wait_check("power", "sees its Node", |s| s["healthyNodes"] == 1)
        .await?;
    ensure!(w.stage.host(node)?.hang(), "it was not up");
    let requests = w.stage.api("rackhand.dev", "v1alpha1", "PowerRemediation");
    wait_until("a remediation is made", LONG, || async {
        let found = requests.get_opt(node).await?;
        Ok(found.map(drop).ok_or_else(|| "none".to_owned()))
    })
    .await?;
    wait_until("it is over", LONG, || async {
        let found = requests.get_opt(node).await?;
        Ok(found.map_or(Ok(()), |r| Err(r.data["status"].to_string())))
    })
    .await?;
    w.wait_check("power", "is enabled again", |s| {
        s["phase"] == "Enabled" && s["healthyNodes"] == 1
    })
    .await?;
    w.stage.one_cycle(node)?;
    let left = w.stage.left_on(node).await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

async fn refused(w: &World) -> Result<()> {
    let ours = || template("group-x");
    let step = |order: i64, timeout: &str| {
        json!({
            "remediationTemplate": ours(), "order": order, "timeout": timeout,
        })
    };
    let deletion = json!({
        "apiVersion": "machine-deletion-remediation.medik8s.io/v1alpha1",
        "kind": "MachineDeletionRemediationTemplate", "namespace": "default", "name": "t",
    });
    for (spec, why) in [
        (
            json!({ "minHealthy": 1 }),
            "exactly one of remediationTemplate",
        ),
        (
            json!({ "minHealthy": 1, "maxUnhealthy": 1, "remediationTemplate": ours() }),
            "only one of minHealthy",
        ),
        (
            json!({ "minHealthy": 1, "escalatingRemediations": [step(1, "60s"), step(1, "60s")] }),
            "each order",
        ),
        (
            json!({ "minHealthy": 1, "escalatingRemediations": [step(1, "59s")] }),
            "60s or more",
        ),
        (
            json!({ "maxUnhealthy": 1, "remediationTemplate": deletion }),
            "MachineDeletion",
        ),
        (
            json!({ "minHealthy": "101%", "remediationTemplate": ours() }),
            "minHealthy",
        ),
        (
            json!({ "minHealthy": 1, "remediationTemplate": ours(), "selector": {} }),
            "must not be empty",
        ),
        (
            json!({ "minHealthy": 1, "remediationTemplate": ours(), "healthyDelay": "soon" }),
            "healthyDelay",
        ),
    ] {
        let refused = w.make_check("refused", spec.clone()).await;
        let error = format!(
            "{:#}",
            refused.err().with_context(|| format!("taken: {spec}"))?
        );
        ensure!(error.contains(why), "{spec}: {error}");
    }
    Ok(())
}
