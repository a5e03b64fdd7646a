//! Evidence before the power-off, from BMCs that report it and from BMCs that hang.

use anyhow::{Result, ensure};
use jiff::Timestamp;
use kube::{Api, api::ListParams};
use rackhand_api::kinds::{host_evidence::HostEvidence, host_history::HostHistory};
use rackhand_tests::{
    rack::{Action, Rule},
    stage::{HostLink, LONG, RackSpec, Recorder, Scenarios, Stage, StageConfig, wait_until},
};

/// The evidence timeout of the controller, in seconds, in which a busy machine reads a BMC that answers.
const TIMEOUT: i64 = 8;
/// Time for what the controller does beside it: one write, the hold, and rounding to whole seconds. Both together are
/// less than the 20 s after which the agent gives up one request of a BMC that hangs.
const BESIDE: i64 = 11;

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_collected_and_a_bmc_that_hangs_delays_nothing_beyond_the_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("inv", 4, HostLink::Inventory),
        RackSpec::new("bmh", 2, HostLink::Managed),
        RackSpec::new("ipmi", 2, HostLink::Inventory).by_ipmi(),
    ];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = run(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    let timeout = format!("--evidence-timeout={TIMEOUT}s");
    stage
        .start_controller_as("controller-0", vec![timeout])
        .await?;
    stage.apply_health_check().await?;
    let mut all = Scenarios::new();
    all.add("redfish_reports", reported(stage, recorder, "inv-1"));
    all.add(
        "redfish_reports_cooperatively",
        reported(stage, recorder, "bmh-1"),
    );
    all.add("ipmi_reports", reported(stage, recorder, "ipmi-1"));
    all.add("a_log_that_hangs", log_hangs(stage, recorder));
    all.add("a_bmc_that_hangs_in_every_call", bmc_hangs(stage));
    all.run().await
}

async fn reported(stage: &Stage, recorder: &Recorder, name: &str) -> Result<()> {
    let host = stage.host(name)?;
    let is_ipmi = stage.ipmi(name).is_some();
    ensure!(host.hang(), "{name} was not up");
    let evidence = evidence(stage, name).await?;
    let power = evidence.power.as_deref().unwrap_or_default();
    let protocol = if is_ipmi { "(IPMI)" } else { "(Redfish)" };
    ensure!(power.contains(protocol), "{evidence:?}");
    let expected = if is_ipmi {
        "last start: chassis control command"
    } else {
        "progress: OSRunning"
    };
    ensure!(evidence.boot == [expected], "{evidence:?}");
    ensure!(evidence.missing.is_empty(), "{evidence:?}");
    stage.wait_back(name).await?;
    stage.one_cycle(name)?;
    stage.tainted_only_while_off(recorder, name).await
}

/// The event log, the boot state and the sensors hang; the power does not.
async fn log_hangs(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let name = "inv-2";
    let host = stage.host(name)?;
    for path in [
        "**/LogServices/**",
        "**/Chassis/*/Thermal",
        "**/Chassis/*/Power",
    ] {
        host.inject(Rule::always(Action::Hang).on("GET", path));
    }
    ensure!(host.hang(), "{name} was not up");
    let evidence = evidence(stage, name).await?;
    ensure!(evidence.power.is_some(), "{evidence:?}");
    let log = "event log: no answer in time".to_owned();
    ensure!(evidence.missing.contains(&log), "{evidence:?}");
    delayed_within_the_timeout(stage, name).await?;
    stage.wait_back(name).await?;
    stage.one_cycle(name)?;
    stage.tainted_only_while_off(recorder, name).await
}

/// Nothing at all is answered, until long after the timeout.
async fn bmc_hangs(stage: &Stage) -> Result<()> {
    let name = "inv-3";
    let host = stage.host(name)?;
    host.inject(Rule::always(Action::Hang));
    ensure!(host.hang(), "{name} was not up");
    stage.wait_step(name, "PoweringOff").await?;
    host.clear_faults();
    stage.wait_back(name).await?;
    delayed_within_the_timeout(stage, name).await?;
    let evidence = evidence(stage, name).await?;
    ensure!(evidence.power.is_none(), "{evidence:?}");
    ensure!(!evidence.missing.is_empty(), "{evidence:?}");
    stage.one_cycle(name)
}

/// From the step in which evidence is collected to the power-off.
async fn delayed_within_the_timeout(stage: &Stage, name: &str) -> Result<()> {
    let what = format!("{name}: its steps");
    let steps = wait_until(&what, LONG, || async {
        let history = history(stage, name).await?;
        let all = history.and_then(|h| h.status).unwrap_or_default();
        let first = all.remediations.into_iter().next();
        let steps = first.map(|r| r.steps).unwrap_or_default();
        let at = |step: &str| steps.iter().find(|s| s.step == step).map(|s| s.at);
        Ok(match (at("Holding"), at("PoweringOff")) {
            (Some(holding), Some(off)) => Ok((holding, off)),
            _ => Err(format!("{steps:?}")),
        })
    });
    let (holding, off): (Timestamp, Timestamp) = steps.await?;
    let delay = off.duration_since(holding).as_secs();
    ensure!(delay <= TIMEOUT + BESIDE, "{name}: delayed by {delay} s");
    Ok(())
}

/// The history of the host of a Node.
async fn history(stage: &Stage, node: &str) -> Result<Option<HostHistory>> {
    let objects: Api<HostHistory> = Api::all(stage.plane().client().await?);
    let all = objects.list(&ListParams::default()).await?;
    let is_of_node = |history: &HostHistory| {
        let mut remediations = history.status.iter().flat_map(|s| &s.remediations);
        remediations.any(|r| r.node.as_deref() == Some(node))
    };
    Ok(all.items.into_iter().find(is_of_node))
}

async fn evidence(stage: &Stage, name: &str) -> Result<HostEvidence> {
    wait_until(&format!("{name}: its evidence"), LONG, || async {
        let history = history(stage, name).await?;
        let all = history.and_then(|h| h.status).unwrap_or_default();
        let found = all
            .remediations
            .first()
            .and_then(|r| r.evidence.first().cloned());
        Ok(found.ok_or_else(|| format!("{all:?}")))
    })
    .await
}
