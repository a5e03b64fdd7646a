//! Remediation by Rackhand of what OpenShift's controller requests.

use anyhow::{Result, ensure};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{NAMESPACE, OPENSHIFT_MACHINE},
};
use serde_json::{Value, json};

use super::super::world::{MARK, STRATEGY, TEMPLATE, World, machine_of, status_of, wait};

/// Field managers of both controllers.
const US: &str = "rackhand-controller";
const THEM: &str = "machine-healthcheck";
/// Upper bound of the versions of a check in one failure and recovery. Two controllers that overwrite each other
/// create hundreds in that time.
const SETTLED: usize = 20;

/// Creates a check of one Machine on a host, waits until it is healthy, and hangs the host.
async fn failing(w: &World, host: &str, annotations: Value, spec: Value) -> Result<String> {
    let machine = machine_of(host);
    let named =
        json!({ "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") } });
    w.machine(&machine, host, named, status_of(host)).await?;
    w.check(host, annotations, spec).await?;
    healthy(w, host).await?;
    w.hang(host)?;
    Ok(machine)
}

async fn healthy(w: &World, check: &str) -> Result<()> {
    let one = |o: &Value| o["status"]["currentHealthy"] == 1;
    w.wait_check(check, "it is healthy", one).await.map(drop)
}

/// Waits until the host is back, and checks that it was cycled once.
async fn recovered(w: &World, host: &str) -> Result<()> {
    let machine = machine_of(host);
    wait(
        &w.remediations(),
        &machine,
        "the remediation is gone",
        |o| o.is_none(),
    )
    .await?;
    w.wait_ready(host).await?;
    healthy(w, host).await?;
    let left = w.stage.left_on(host).await?;
    ensure!(left.is_empty(), "{left:?}");
    w.stage.tainted_only_while_off(&w.recorder, host).await?;
    w.stage.one_cycle(host)
}

fn has_mark(machine: &Value) -> bool {
    !machine["metadata"]["annotations"][MARK].is_null()
}

/// Whether a field manager has written an object.
fn wrote(object: &Value, manager: &str) -> bool {
    let fields = object["metadata"]["managedFields"].as_array();
    fields
        .into_iter()
        .flatten()
        .any(|f| f["manager"] == manager)
}

/// Their check creates a PowerRemediation, and deletes it when the Node is healthy.
pub async fn requested(w: &World) -> Result<()> {
    const HOST: &str = "by-template";
    apply_yaml(&w.stage.client, TEMPLATE).await?;
    let reference = json!({ "remediationTemplate": {
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate", "name": "reboot",
    }});
    let machine = failing(w, HOST, json!({}), reference).await?;
    let remediation = w.requested(&machine).await?;
    ensure!(
        wrote(&remediation, THEM) && !wrote(&remediation, US),
        "{remediation}"
    );
    recovered(w, HOST).await?;
    ours_nothing(w, HOST).await
}

/// A check that both evaluate: each may set the annotation, and only Rackhand acts on it.
pub async fn annotated(w: &World) -> Result<()> {
    const HOST: &str = "by-both";
    let annotations = json!({ STRATEGY: "external-baremetal", "rackhand.dev/evaluate": "true" });
    let machine = failing(w, HOST, annotations, json!({})).await?;
    w.recorder
        .wait_version(OPENSHIFT_MACHINE, &machine, "it is marked", has_mark)
        .await?;
    w.requested(&machine).await?;
    let unmarked = |m: Option<&Value>| m.is_some_and(|m| !has_mark(m));
    w.wait_machine(&machine, "the annotation is removed", unmarked)
        .await?;
    recovered(w, HOST).await?;
    let versions = w.recorder.of(OPENSHIFT_MACHINE, &machine).len();
    ensure!(versions < SETTLED, "{versions} versions of the Machine");
    Ok(())
}

/// A check that Rackhand does not evaluate: the annotation alone moves no host, and Rackhand writes nothing.
pub async fn left_alone(w: &World) -> Result<()> {
    const HOST: &str = "by-mark";
    let annotations = json!({ STRATEGY: "external-baremetal" });
    let machine = failing(w, HOST, annotations, json!({})).await?;
    w.wait_machine(&machine, "it is marked", |m| m.is_some_and(has_mark))
        .await?;
    w.wait_event(&machine, "ExternalAnnotationAdded").await?;
    // Meanwhile Rackhand carries out a remediation of another check.
    w.requested(&machine_of("by-both")).await?;
    let remediation = w.remediations().get_opt(&machine).await?;
    ensure!(remediation.is_none(), "{remediation:?}");
    ours_nothing(w, HOST).await?;
    w.stage.untouched(HOST)
}

/// Checks that Rackhand has not written a check or its Machine.
async fn ours_nothing(w: &World, host: &str) -> Result<()> {
    let check = w.stage.openshift_checks().get(host).await?;
    let machine = w.stage.openshift_machines().get(&machine_of(host)).await?;
    for object in [check, machine] {
        let object = serde_json::to_value(&object)?;
        ensure!(!wrote(&object, US), "{object}");
    }
    Ok(())
}
