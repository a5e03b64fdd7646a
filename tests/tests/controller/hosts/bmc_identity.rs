//! BMCs that are those of other hosts, or whose GUID is not the system UUID of their host.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    pki::CertSpec,
    rack::GuidSource,
    stage::{EntryUuid, HostLink, RackSpec, Recorder, Stage, StageConfig},
};

use super::bmc_watch::{measured, wait_for};

const CONTROLLER: &str = "controller-0";
const NO_SYSTEM_UUID: &str = "rackhand.dev/bmc-system-uuid";

#[tokio::test(flavor = "multi_thread")]
async fn f14_swapped_inventory_is_found_by_preflight_and_the_watch_before_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("swap", 2, HostLink::Inventory)
            .with_entry_uuid(EntryUuid::Absent)
            .swapped(),
        RackSpec::new("fine", 1, HostLink::Inventory).with_entry_uuid(EntryUuid::Absent),
    ];
    let config = StageConfig::steady(racks, &["--bmc-check-interval=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = swapped(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn swapped(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.apply_health_check().await?;
    stage.start_controller(CONTROLLER).await?;
    for rack in ["swap", "fine"] {
        stage.wait_connected(rack, "Connected").await?;
    }
    let spec = CertSpec::peer("person", "spiffe://rackhand/controller");
    let tls = stage.issue(&spec)?;
    let (_, report) = crate::operators::preflight::run(stage, &tls)?;
    for (host, status, message) in [
        ("swap/swap-1", "failed", "is that of swap-2"),
        ("swap/swap-2", "failed", "is that of swap-1"),
        ("hosts", "ok", "1 BMCs report the identity of their node"),
    ] {
        let found = crate::operators::preflight::rows(&report)?
            .iter()
            .any(|row| {
                row["check"] == "identity"
                    && row["target"] == host
                    && row["status"] == status
                    && row["message"].as_str().is_some_and(|m| m.contains(message))
            });
        ensure!(found, "{host} {message}: {report:#?}");
    }
    for (node, other) in [("swap-1", "swap-2"), ("swap-2", "swap-1")] {
        wait_for(stage, node, "True", &format!("is that of {other}")).await?;
    }
    for (rack, hosts) in [("swap", 2), ("fine", 0)] {
        let line = format!("rackhand_bmc_identity_mismatch_hosts{{rack=\"{rack}\"}} {hosts}");
        measured(stage, &line).await?;
    }
    for host in ["swap-1", "swap-2", "fine-1"] {
        stage.untouched(host)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_bmc_with_a_guid_of_its_own_fences_its_host_once_that_is_declared() {
    let dir = tempfile::tempdir().unwrap();
    let virtual_bmcs = |name, link| {
        RackSpec::new(name, 1, link)
            .by_ipmi()
            .with_guid(GuidSource::NewAtStart)
            .with_entry_uuid(EntryUuid::Ignored)
    };
    let racks = vec![
        virtual_bmcs("known", HostLink::Inventory),
        virtual_bmcs("sent", HostLink::Detached),
    ];
    let config = StageConfig::steady(racks, &["--bmc-check-interval=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = declared(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn declared(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller(CONTROLLER).await?;
    stage.apply_health_check().await?;
    // Nothing says yet that the GUID of this one identifies nothing.
    wait_for(stage, "sent-1", "True", NO_SYSTEM_UUID).await?;
    ensure!(stage.host("known-1")?.hang(), "it was not up");
    recorder.wait_created("known-1").await?;
    stage.wait_back("known-1").await?;
    ensure!(stage.host("sent-1")?.hang(), "it was not up");
    stage.wait_blocked("sent-1", "IdentityMismatch").await?;
    stage.untouched("sent-1")?;
    let hosts = stage.bare_metal_hosts();
    stage
        .annotate(&hosts, "sent-1", NO_SYSTEM_UUID, Some("none"))
        .await
        .context("annotation")?;
    // It is tried again by itself.
    stage.wait_back("sent-1").await?;
    for host in ["known-1", "sent-1"] {
        stage.one_cycle(host)?;
        stage.tainted_only_while_off(recorder, host).await?;
    }
    wait_for(stage, "sent-1", "False", "answers").await
}
