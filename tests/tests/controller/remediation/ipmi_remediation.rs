//! Hosts with IPMI BMCs, in an agent's inventory or with a BareMetalHost only.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use rackhand_tests::{
    rack::ipmi::{Action, ChassisControl, Command, Rule, Target},
    stage::{HostLink, LONG, RackSpec, Recorder, Stage, StageConfig, wait_until},
};

const SICK: [&str; 2] = ["known-1", "sent-1"];

#[tokio::test(flavor = "multi_thread")]
async fn ipmi_host_is_fenced_and_recovers_with_one_power_cycle() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("known", 2, HostLink::Inventory).by_ipmi(),
        RackSpec::new("sent", 2, HostLink::Detached).by_ipmi(),
    ];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = scenario(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn scenario(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    for host in SICK {
        let bmc = stage.ipmi(host).context("no IPMI BMC")?;
        bmc.inject(once(Target::Rakp1, Action::Ignore));
        // Only the next reading shows whether the command was carried out.
        let control = Target::Command(Command::CHASSIS_CONTROL);
        bmc.inject(once(control, Action::LoseAnswer));
        ensure!(stage.host(host)?.hang(), "{host} was not up");
    }
    try_join_all(SICK.map(|host| back(stage, host))).await?;
    for host in SICK {
        stage.one_cycle(host)?;
        stage.tainted_only_while_off(recorder, host).await?;
        let counters = stage.ipmi(host).context("no IPMI BMC")?.counters();
        for control in counters.controls {
            let expected = [ChassisControl::Down, ChassisControl::Up];
            ensure!(expected.contains(&control.control), "{host}: {control:?}");
        }
    }
    for host in ["known-2", "sent-2"] {
        let counters = stage.ipmi(host).context("no IPMI BMC")?.counters();
        ensure!(counters.controls.is_empty(), "{host}: {counters:?}");
    }
    Ok(())
}

fn once(on: Target, action: Action) -> Rule {
    Rule::on(on, action).times(1)
}

async fn back(stage: &Stage, host: &str) -> Result<()> {
    wait_until(&format!("{host} goes off"), LONG, || async {
        let counters = stage.host(host)?.counters();
        Ok(if counters.offs > 0 {
            Ok(())
        } else {
            Err(format!("{counters:?}"))
        })
    })
    .await?;
    stage.wait_back(host).await
}
