//! External remediation by the annotation of `external-baremetal`.

use anyhow::{Result, ensure};
use rackhand_tests::{
    cluster::apply,
    stage::{NAMESPACE, OPENSHIFT_MACHINE},
};
use serde_json::{Value, json};

use super::world::{MARK, STRATEGY, World, machine_of, status_of, wait};

async fn marked(w: &World, host: &str) -> Result<()> {
    let named =
        json!({ "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") } });
    let machine = machine_of(host);
    w.machine(&machine, host, named, status_of(host)).await?;
    let strategy = json!({ STRATEGY: "external-baremetal" });
    w.check(host, strategy, json!({ "nodeStartupTimeout": "5m" }))
        .await?;
    w.wait_check(host, "it is well", |o| o["status"]["currentHealthy"] == 1)
        .await?;
    w.hang(host)?;
    // The mark goes by itself when the host has recovered.
    let has = |machine: &Value| has_mark(Some(machine));
    w.recorder
        .wait_version(OPENSHIFT_MACHINE, &machine, "it is marked", has)
        .await?;
    w.wait_event(&machine, "ExternalAnnotationAdded").await
}

fn has_mark(machine: Option<&Value>) -> bool {
    machine.is_some_and(|m| !m["metadata"]["annotations"][MARK].is_null())
}

pub async fn external(w: &World) -> Result<()> {
    let host = "external-1";
    let machine = machine_of(host);
    marked(w, host).await?;
    let remediation = w.requested(&machine).await?;
    let strategy = &remediation["spec"]["strategy"];
    ensure!(
        strategy["type"] == "Reboot" && strategy["timeouts"]["bootSeconds"] == 300,
        "{strategy}"
    );
    let unmarked = |m: Option<&Value>| m.is_some() && !has_mark(m);
    w.wait_machine(&machine, "the annotation is removed", unmarked)
        .await?;
    wait(
        &w.remediations(),
        &machine,
        "the remediation is deleted",
        |o| o.is_none(),
    )
    .await?;
    w.wait_ready(host).await?;
    w.wait_check(host, "it is well again", |o| {
        o["status"]["currentHealthy"] == 1
    })
    .await?;
    let left = w.stage.left_on(host).await?;
    ensure!(left.is_empty(), "{left:?}");
    w.stage.tainted_only_while_off(&w.recorder, host).await?;
    w.stage.one_cycle(host)
}

/// Where OpenShift's own controllers run, they act on the annotation, and Rackhand never does.
pub async fn left_to_openshift(w: &World) -> Result<()> {
    let namespace = "openshift-machine-api";
    let name = json!({ "name": namespace });
    apply(
        &w.stage.client,
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": name }),
    )
    .await?;
    let labels = json!({ "app": "machine-api" });
    apply(
        &w.stage.client,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "machine-api-controllers", "namespace": namespace },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "machine-controller", "image": "none.invalid/none" }] },
                },
            },
        }),
    )
    .await?;
    let host = "external-2";
    marked(w, host).await?;
    w.wait_event(&machine_of(host), "LeftToOpenShift").await?;
    let remediation = w.remediations().get_opt(&machine_of(host)).await?;
    ensure!(remediation.is_none(), "{remediation:?}");
    w.stage.untouched(host)
}
