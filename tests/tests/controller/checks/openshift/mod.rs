//! MachineHealthChecks of OpenShift on a real control plane: status, actions, and cases without action.
//!
//! All scenarios run at the same time on one stage, each with checks and Machines of its own. The last one,
//! with OpenShift's own controllers, runs after them.

pub mod acts;
pub mod marks;
mod overlap;
mod shows;
mod upstream;
pub mod world;

use anyhow::{Result, ensure};
use rackhand_tests::stage::{HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig};

use acts::{closed, owner, template};
use marks::{external, left_to_openshift};
use overlap::overlap;
use shows::{invalid, paused, shown};
use world::{World, machine_of};

#[tokio::test(flavor = "multi_thread")]
async fn openshift_checks_show_status_act_and_respect_pauses() {
    let managed = RackSpec {
        hosts: ["template-1", "external-1", "external-2"]
            .map(str::to_owned)
            .to_vec(),
        ..RackSpec::new("managed", 0, HostLink::Managed)
    };
    let racks = vec![
        RackSpec::new("plain", 2, HostLink::Inventory).in_pool("none"),
        managed.in_pool("none"),
    ];
    let arguments = [
        "--power-timeout=20s",
        "--cooperative-grace=1s",
        "--health-checks=all",
    ];
    let config = StageConfig::steady(racks, &arguments);
    let (_dir, stage, ()) = crate::prepared(config, begin).await;
    let recorder = Recorder::of_openshift(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("counts_and_conditions_match_openshift", shown(w));
    all.add("machine_is_deleted_only_if_its_owner_replaces_it", owner(w));
    all.add("remediation_is_created_once_template_exists", template(w));
    all.add("f1_annotated_machine_is_power_cycled_once", external(w));
    all.add("f10_closed_limit_deletes_no_machine", closed(w));
    all.add("paused_check_acts_and_writes_nothing", paused(w));
    all.add("invalid_check_is_reported", invalid(w));
    all.add("q12_older_of_two_checks_acts_until_paused", overlap(w));
    let outcome = match all.run().await {
        Ok(()) => left_to_openshift(w).await,
        failed => failed,
    };
    let outcome = match outcome {
        Ok(()) => end(w).await,
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.install_openshift().await?;
    for host in ["template-1", "external-1", "external-2"] {
        stage
            .set_openshift_consumer(host, &machine_of(host))
            .await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

/// Checks that no request of the controller was forbidden, and that the malformed Machine was logged once.
async fn end(w: &World) -> Result<()> {
    let log = w.stage.log_of("controller-0")?;
    let with = |part: &str| log.lines().filter(|l| l.contains(part)).count();
    ensure!(with("forbidden") == 0 && with("Forbidden") == 0, "{log}");
    let told = log
        .lines()
        .filter(|l| l.contains("cannot be read") && l.contains("shown-bad"));
    ensure!(told.count() == 1, "{log}");
    Ok(())
}
