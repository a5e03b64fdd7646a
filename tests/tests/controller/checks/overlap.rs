//! Two health checks that select the same Machines: one acts, and the other reports it and takes over later.
//! With `--watch-filter`, each of two controllers evaluates its own checks.

use anyhow::{Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{HostLink, LONG, NAMESPACE, RackSpec, Recorder, Stage, StageConfig, wait_until},
};
use serde_json::json;

use crate::second_check;

/// The younger check, which selects the Machines of the older one.
fn younger() -> String {
    second_check("younger", "worker")
}

#[tokio::test(flavor = "multi_thread")]
async fn q12_older_of_two_checks_acts_and_younger_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("rack", 2, HostLink::Inventory)];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    // If both are created within one second, the name decides for the same check.
    apply_yaml(
        &stage.client,
        &stage.health_check_of("older", "worker", "100%"),
    )
    .await?;
    apply_yaml(&stage.client, &younger()).await?;
    let words = overlapping(stage, true).await?;
    ensure!(words.contains("older acts for rack-1, rack-2"), "{words}");
    stage.wait_warning("younger", "OtherCheckActs").await?;
    let text = stage
        .explain(&["mhc", "younger", "--namespace", NAMESPACE], "")
        .await?;
    ensure!(
        text.contains("nothing: MachineHealthCheck older acts for it"),
        "{text}"
    );
    let text = stage
        .explain(&["mhc", "older", "--namespace", NAMESPACE], "")
        .await?;
    ensure!(!text.contains("acts for it"), "{text}");

    let recorder = Recorder::start(&stage.client);
    ensure!(stage.host("rack-1")?.hang(), "the host was not up");
    recorder.wait_created("rack-1").await?;
    stage.wait_back("rack-1").await?;
    stage.one_cycle("rack-1")?;
    let second = recorder.of("PowerRemediation", "rack-1");
    ensure!(second.is_empty(), "{second:?}");

    stage
        .checks()
        .delete("older", &DeleteParams::default())
        .await?;
    overlapping(stage, false).await?;
    ensure!(stage.host("rack-2")?.hang(), "the host was not up");
    let remediations = power_remediations(stage);
    let remediation = recorder
        .wait_version("PowerRemediation", "rack-2", "it is requested", |_| true)
        .await?;
    let from = &remediation["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"];
    ensure!(from == "reboot", "{remediation}");
    wait_until("rack-2: its remediation is gone", LONG, || async {
        let found = remediations.get_opt("rack-2").await?;
        Ok(match found {
            None => Ok(()),
            Some(found) => Err(found.data["status"]["message"].to_string()),
        })
    })
    .await?;
    stage.wait_back("rack-2").await?;
    let second = recorder.of("Metal3Remediation", "rack-2");
    ensure!(second.is_empty(), "{second:?}");
    stage.one_cycle("rack-2")
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_filter_evaluates_only_labelled_checks() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("rack", 2, HostLink::Inventory)];
    let stage = Stage::start(
        dir.path(),
        StageConfig::steady(racks, &["--watch-filter=mine"]),
    )
    .await
    .unwrap();
    if let Err(error) = filtered(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn filtered(stage: &Stage) -> Result<()> {
    stage.start_controller("controller-0").await?;
    let other = &stage.health_check_of("other", "worker", "100%");
    apply_yaml(&stage.client, other).await?;
    let before = stage.checks().get("other").await?.resource_version();
    apply_yaml(&stage.client, &younger()).await?;
    label(stage, "younger", "mine").await?;
    overlapping(stage, false).await?;
    let after = stage.checks().get("other").await?.resource_version();
    ensure!(before == after, "it was written to");
    let text = stage
        .explain(&["mhc", "other", "--namespace", NAMESPACE], "")
        .await?;
    let why = "does not carry the label cluster.x-k8s.io/watch-filter=mine (--watch-filter)";
    ensure!(text.contains(why), "{text}");

    // After it is labelled, it acts, because it is older.
    label(stage, "other", "mine").await?;
    overlapping(stage, true).await?;
    label(stage, "other", "theirs").await?;
    overlapping(stage, false).await?;
    Ok(())
}

async fn label(stage: &Stage, check: &str, value: &str) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { "cluster.x-k8s.io/watch-filter": value } } });
    let params = PatchParams::default();
    stage
        .checks()
        .patch(check, &params, &Patch::Merge(patch))
        .await?;
    Ok(())
}

fn power_remediations(stage: &Stage) -> Api<DynamicObject> {
    stage.api("rackhand.dev", "v1alpha1", "PowerRemediation")
}

/// Waits until the younger check has, or no longer has, the condition Overlapping; returns its message.
async fn overlapping(stage: &Stage, wanted: bool) -> Result<String> {
    let what = format!("younger says that another one acts: {wanted}");
    wait_until(&what, LONG, || async {
        let object = stage.checks().get("younger").await?;
        let mut list = object.data["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let found = list.find(|c| c["type"] == "Overlapping");
        let words = found.map(|c| c["message"].as_str().unwrap_or_default().to_owned());
        let evaluated = object.data["status"]["expectedMachines"] == 2;
        Ok(if words.is_some() == wanted && evaluated {
            Ok(words.unwrap_or_default())
        } else {
            Err(object.data["status"].to_string())
        })
    })
    .await
}
