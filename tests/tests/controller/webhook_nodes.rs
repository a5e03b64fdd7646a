//! What is taken and what is refused of a NodeHealthCheck, by two judges on a real API server: the CRD
//! that we ship, and our webhook. Both must say the same; what only a webhook can say it says alone.

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use rackhand_tests::{
    cluster::{apply, shipped},
    process::free_port,
    stage::{LONG, wait_until},
    webhook::Court,
};
use serde_json::{Value, json};

const CRD: &str = "nodehealthchecks.remediation.medik8s.io";

fn template(kind: &str) -> Value {
    json!({ "apiVersion": "x.y/v1", "kind": kind, "name": "t", "namespace": "ns" })
}

fn step(order: i64, timeout: &str) -> Value {
    json!({ "remediationTemplate": template("XTemplate"), "order": order, "timeout": timeout })
}

/// Today's form with other fields; null takes one away.
fn spec(more: Value) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": { "pool": "a" } },
        "minHealthy": "51%",
        "remediationTemplate": template("XTemplate"),
    });
    if let (Some(fields), Value::Object(more)) = (spec.as_object_mut(), more) {
        fields.extend(more);
        fields.retain(|_, value| !value.is_null());
    }
    spec
}

fn escalating(steps: &Value) -> Value {
    spec(json!({ "remediationTemplate": null, "escalatingRemediations": steps }))
}

/// Name, spec, and for one that is refused a word of what is said about it.
fn cases() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let none = Value::Null;
    let deletion = || template("MachineDeletionRemediationTemplate");
    vec![
        ("today", spec(json!({})), None),
        (
            "older",
            json!({ "remediationTemplate": template("XTemplate") }),
            None,
        ),
        (
            "steps",
            escalating(&json!([step(2, "5m"), step(1, "60s")])),
            None,
        ),
        ("quoted", spec(json!({ "minHealthy": "8" })), None),
        ("delay", spec(json!({ "healthyDelay": "-1s" })), None),
        (
            "no-selector",
            spec(json!({ "selector": none })),
            Some("selector"),
        ),
        (
            "empty-selector",
            spec(json!({ "selector": {} })),
            Some("must not be empty"),
        ),
        (
            "two-limits",
            spec(json!({ "maxUnhealthy": 1 })),
            Some("only one of minHealthy"),
        ),
        ("no-limit", escalating_without_limit(), Some("minHealthy")),
        (
            "much",
            spec(json!({ "minHealthy": "101%" })),
            Some("minHealthy"),
        ),
        (
            "negative",
            spec(json!({ "minHealthy": -1 })),
            Some("minHealthy"),
        ),
        (
            "no-template",
            spec(json!({ "remediationTemplate": none })),
            Some("exactly one of"),
        ),
        (
            "two-templates",
            spec(json!({ "escalatingRemediations": [step(1, "60s")] })),
            Some("exactly one of"),
        ),
        (
            "odd-kind",
            spec(json!({ "remediationTemplate": template("X") })),
            Some("kind"),
        ),
        (
            "deletion",
            spec(json!({
                "minHealthy": none, "maxUnhealthy": 1, "remediationTemplate": deletion(),
            })),
            Some("MachineDeletion"),
        ),
        (
            "same-order",
            escalating(&json!([step(1, "60s"), step(1, "60s")])),
            Some("order"),
        ),
        (
            "short-step",
            escalating(&json!([step(1, "59s")])),
            Some("60s or more"),
        ),
        (
            "soon",
            spec(json!({ "healthyDelay": "soon" })),
            Some("healthyDelay"),
        ),
        (
            "minus",
            spec(json!({ "stormCooldownDuration": "-5m" })),
            Some("stormCooldownDuration"),
        ),
        (
            "no-condition",
            spec(json!({ "unhealthyConditions": [
                { "type": "", "status": "False", "duration": "1s" },
            ]})),
            Some("unhealthyConditions[0].type"),
        ),
    ]
}

fn escalating_without_limit() -> Value {
    let mut spec = escalating(&json!([step(1, "60s")]));
    spec.as_object_mut().unwrap().remove("minHealthy");
    spec
}

struct World(Court);

impl World {
    fn checks(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck");
        Api::all_with(self.0.client.clone(), &ApiResource::from_gvk(&gvk))
    }

    /// What is said about a check that is created; nothing: it would be taken.
    async fn judged(&self, name: &str, spec: &Value) -> Option<String> {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": name }, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = self.checks().create(&params, &object).await;
        created.err().map(|error| error.to_string())
    }

    async fn agrees(&self, judge: &str) -> Result<()> {
        let mut wrong = Vec::new();
        for (name, spec, expected) in cases() {
            match (self.judged(name, &spec).await, expected) {
                (None, None) => {}
                (Some(said), Some(word)) if said.contains(word) => {}
                (said, expected) => {
                    wrong.push(format!("{name}: expected {expected:?}, it says {said:?}"));
                }
            }
        }
        ensure!(wrong.is_empty(), "{judge}:\n{}", wrong.join("\n"));
        Ok(())
    }

    async fn patch(&self, body: Value) -> std::result::Result<(), String> {
        let params = PatchParams::default();
        let patched = self
            .checks()
            .patch("kept", &params, &Patch::Merge(body))
            .await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    /// Says in its status whether a Node has a remediation.
    async fn remediates(&self, remediates: bool) -> Result<()> {
        let remediation = json!({
            "resource": { "kind": "X", "name": "n1" }, "started": "2026-08-01T02:00:00Z",
        });
        let list = if remediates {
            vec![remediation]
        } else {
            vec![]
        };
        let body = json!({ "status": { "unhealthyNodes": [
            { "name": "n1", "remediations": list },
        ]}});
        let params = PatchParams::default();
        let patch = Patch::Merge(body);
        self.checks().patch_status("kept", &params, &patch).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_crd_and_our_webhook_refuse_the_same_node_health_checks() {
    let dir = tempfile::tempdir().unwrap();
    let world = World(Court::start(dir.path()).await.unwrap());
    if let Err(error) = scenario(&world).await {
        panic!("{error:#}");
    }
}

async fn scenario(w: &World) -> Result<()> {
    for object in shipped("crds/nodes")? {
        apply(&w.0.client, object).await?;
    }
    wait_until("the kind is served", LONG, || async {
        let (name, spec, _) = cases().remove(0);
        Ok(w.judged(name, &spec).await.map_or(Ok(()), Err))
    })
    .await?;
    w.agrees("our CRD").await?;

    // A CRD that refuses nothing, so that the webhook is heard.
    w.0.disarm("crds/nodes", CRD).await?;
    wait_until("the CRD refuses nothing", LONG, || async {
        for (name, spec, _) in cases() {
            if let Some(said) = w.judged(name, &spec).await {
                return Ok(Err(said));
            }
        }
        Ok(Ok(()))
    })
    .await?;
    let port = free_port()?;
    // What stands in a status here, the test has written.
    let controller = w.0.controller(port, &["--health-checks=none"]).await?;
    w.0.point(port, &w.0.pki).await?;
    let outcome = webhook(w).await;
    outcome.with_context(|| controller.log_tail())
}

async fn webhook(w: &World) -> Result<()> {
    // Until it answers, nobody is taken.
    wait_until("the webhook answers", LONG, || async {
        let cases = cases();
        let taken = w.judged("today", &cases[0].1).await;
        let refused = w.judged("empty", &spec(json!({ "selector": {} }))).await;
        Ok(match (taken, refused) {
            (None, Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    w.agrees("our webhook").await?;

    apply(
        &w.0.client,
        json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": "kept" }, "spec": spec(json!({})),
        }),
    )
    .await?;
    w.remediates(true).await?;
    for locked in [
        json!({ "selector": { "matchLabels": { "pool": "b" } } }),
        json!({ "remediationTemplate": { "name": "u" } }),
        json!({ "remediationTemplate": null, "escalatingRemediations": [step(1, "60s")] }),
    ] {
        let said = w.patch(json!({ "spec": locked })).await.err();
        let said = said.with_context(|| format!("taken: {locked}"))?;
        ensure!(
            said.contains("cannot be changed while the check remediates Node n1"),
            "{said}"
        );
    }
    for free in [
        json!({ "spec": { "minHealthy": 1 } }),
        json!({ "spec": { "pauseRequests": ["stop"], "healthyDelay": "1m" } }),
        json!({ "metadata": { "labels": { "a": "b" } } }),
    ] {
        ensure!(w.patch(free.clone()).await == Ok(()), "{free}");
    }
    let params = DeleteParams::default();
    let said = w.checks().delete("kept", &params).await.err();
    let said = said.context("it was deleted")?.to_string();
    ensure!(
        said.contains("cannot be deleted while it remediates Node n1"),
        "{said}"
    );
    w.remediates(false).await?;
    let moved = json!({ "spec": { "selector": { "matchLabels": { "pool": "b" } } } });
    ensure!(w.patch(moved).await == Ok(()), "nothing is remediated");
    w.checks().delete("kept", &params).await?;
    Ok(())
}
