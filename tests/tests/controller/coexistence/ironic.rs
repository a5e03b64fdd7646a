//! Real Ironic owns the power of hosts: what Rackhand brought back stays on.
//!
//! Ironic compares power every 15 s here, instead of 120 s; the stand-in for baremetal-operator drives it. Ironic and
//! the agent log in to the BMCs by one account, so the tests count commands, not their senders.

use std::time::Duration;

use anyhow::{Result, ensure};
use rackhand_tests::{
    bmo::{Metal3, Settings, ironic::Power},
    rack::PowerState,
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};
use secrecy::ExposeSecret as _;

/// Interval of Ironic's forced power synchronisation.
const SYNC: Duration = Duration::from_secs(15);
/// Two synchronisations, as in four minutes of an Ironic with its default.
const WATCHED: Duration = Duration::from_secs(32);

#[tokio::test(flavor = "multi_thread")]
async fn f16_real_ironic_undoes_nothing_that_rackhand_brought_back() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("iron", 4, HostLink::Managed)];
    let config = StageConfig::steady(racks, &["--cooperative-grace=4s", "--power-timeout=60s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    let hosts = ["iron-1", "iron-2", "iron-3", "iron-4"];
    // Only a change of our hold key makes it look again after an error.
    let settings = Settings {
        backoff: Duration::from_secs(3600),
        ..Settings::default()
    };
    let metal3 = stage.start_real_ironic(&hosts, settings, SYNC).await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;

    // With both running.
    hang(stage, "iron-1").await?;
    wait_until("iron-1 has gone off", LONG, || async {
        let offs = stage.host("iron-1")?.counters().offs;
        Ok(if offs > 0 {
            Ok(())
        } else {
            Err("it was not switched off".to_owned())
        })
    })
    .await?;
    stage.wait_back("iron-1").await?;

    // baremetal-operator goes away while the host is held, and Ironic has it as off.
    stage.bind_pod("iron-2", true).await?;
    hang(stage, "iron-2").await?;
    stage.wait_step("iron-2", "Draining").await?;
    in_ironic(&metal3, "iron-2", Power::Off).await?;
    reports_off(stage, "iron-2").await?;
    metal3.stop_operator();
    stage.let_pod_go("iron-2").await?;
    stage.wait_blocked("iron-2", "OwnerDoesNotSwitchOn").await?;
    tokio::time::sleep(SYNC).await;
    ensure!(
        stage.host("iron-2")?.real_power() == PowerState::Off,
        "iron-2 is off, as Ironic has it"
    );
    metal3.start_operator();
    stage.wait_back("iron-2").await?;

    // Ironic is stalled with the power-off pending, and carries it out when it goes on.
    let real = metal3.real().expect("real Ironic");
    real.stall(true)?;
    hang(stage, "iron-3").await?;
    wait_until("iron-3 is off", LONG, || async {
        let power = stage.host("iron-3")?.real_power();
        Ok(if power == PowerState::Off {
            Ok(())
        } else {
            Err(format!("{power:?}"))
        })
    })
    .await?;
    real.stall(false)?;
    stage.wait_back("iron-3").await?;

    // Ironic cannot log in to the BMC, and baremetal-operator backs off, until somebody corrects the password.
    real.password("iron-4", "wrong").await?;
    hang(stage, "iron-4").await?;
    let blocked = stage
        .wait_blocked("iron-4", "OwnerDoesNotReportOff")
        .await?;
    let message = blocked.message;
    ensure!(message.contains("its error is"), "{message}");
    let password = stage.config().bmc_password.expose_secret();
    real.password("iron-4", password).await?;
    stage.wait_back("iron-4").await?;

    let offs = |host: &str| -> Result<u64> { Ok(stage.host(host)?.counters().offs) };
    let before = hosts.map(|host| offs(host).unwrap_or_default());
    tokio::time::sleep(WATCHED).await;
    for (host, before) in hosts.into_iter().zip(before) {
        ensure!(offs(host)? == before, "{host} was switched off again");
        ensure!(
            stage.host(host)?.real_power() == PowerState::On,
            "{host} stays on"
        );
        in_ironic(&metal3, host, Power::On).await?;
    }
    Ok(())
}

async fn hang(stage: &Stage, host: &str) -> Result<()> {
    ensure!(stage.host(host)?.hang(), "{host} was not up");
    Ok(())
}

/// Waits until baremetal-operator has copied that Ironic has the host as off.
async fn reports_off(stage: &Stage, host: &str) -> Result<()> {
    wait_until(&format!("{host} is reported off"), LONG, || async {
        let object = stage.bare_metal_hosts().get(host).await?;
        let seen = object.data["status"]["poweredOn"].clone();
        Ok(if seen == false {
            Ok(())
        } else {
            Err(seen.to_string())
        })
    })
    .await
}

async fn in_ironic(metal3: &Metal3, host: &str, wanted: Power) -> Result<()> {
    wait_until(&format!("{host} is {wanted:?} in Ironic"), LONG, || async {
        let real = metal3.real().expect("real Ironic");
        let node = real.node(host).await?;
        Ok(if node.power == Some(wanted) && !node.is_busy() {
            Ok(())
        } else {
            Err(format!("{node:?}"))
        })
    })
    .await
}
