//! `preflight` says whether a BareMetalHost can be held, by the webhook of baremetal-operator.

use anyhow::{Context as _, Result};
use rackhand_tests::{
    bmo::Settings,
    pki::CertSpec,
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};

use crate::operators::preflight::{rows, run};

#[tokio::test(flavor = "multi_thread")]
async fn preflight_tries_a_hold_and_says_what_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("h", 1, HostLink::Managed)];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    let metal3 = stage.start_metal3(&["h-1"], Settings::default()).await?;
    says(stage, "ok", "a hold would be accepted").await?;
    metal3.stop_operator();
    says(stage, "failed", "failed calling webhook").await?;
    let webhook = metal3.webhook().context("a webhook")?;
    webhook.unregister().await?;
    says(stage, "ok", "a hold would be accepted").await
}

/// Waits until the row `holds` has this status and contains this message, and checks that nothing was changed.
async fn says(stage: &Stage, status: &str, message: &str) -> Result<()> {
    let spec = CertSpec::peer("person", "spiffe://rackhand/controller");
    let tls = stage.issue(&spec)?;
    wait_until(&format!("holds: {status}"), LONG, || async {
        let (_, report) = run(stage, &tls)?;
        let row = rows(&report)?.iter().find(|row| row["check"] == "holds");
        let row = row.with_context(|| format!("no row holds: {report:#}"))?;
        let is_said = row["message"].as_str().is_some_and(|m| m.contains(message));
        let is_named = row["target"] == "BareMetalHost metal3/h-1";
        Ok(match row["status"] == status && is_said && is_named {
            true => Ok(()),
            false => Err(row.to_string()),
        })
    })
    .await?;
    let host = stage.bare_metal_hosts().get("h-1").await?;
    let annotations = host.metadata.annotations.unwrap_or_default();
    let is_held = annotations
        .keys()
        .any(|key| key.starts_with("reboot.metal3.io"));
    anyhow::ensure!(!is_held, "{annotations:?}");
    Ok(())
}
