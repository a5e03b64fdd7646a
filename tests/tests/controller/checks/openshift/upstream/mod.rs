//! OpenShift's own machine-healthcheck controller, under its published kinds and rights, on the same API server as
//! Rackhand: both judge the same states, and Rackhand remediates what that controller requests.
//!
//! `hack/setup --print-openshift` brings the controller.

mod beside;
mod case;
mod table;

use anyhow::{Result, ensure};
use rackhand_tests::{
    process::Process,
    stage::{HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig},
};

use super::world::{World, machine_of};
use beside::{annotated, left_alone, requested};
use case::{closed, judged};

/// The hosts that fail, each in a scenario.
const HOSTS: [&str; 3] = ["by-template", "by-both", "by-mark"];

#[tokio::test(flavor = "multi_thread")]
async fn openshift_controller_and_rackhand_judge_alike_and_rackhand_carries_out_its_remediations() {
    let rack = RackSpec {
        hosts: HOSTS.map(str::to_owned).to_vec(),
        ..RackSpec::new("upstream", 0, HostLink::Managed)
    };
    let arguments = ["--power-timeout=20s", "--cooperative-grace=1s"];
    let config = StageConfig::steady(vec![rack.in_pool("none")], &arguments);
    let (_dir, stage, process) = crate::prepared(config, begin).await;
    let recorder = Recorder::of_openshift(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("both_controllers_judge_alike", judged(w));
    all.add(
        "f1_its_remediation_by_template_is_carried_out",
        requested(w),
    );
    all.add("f1_host_that_both_mark_is_cycled_once", annotated(w));
    all.add("its_mark_alone_moves_no_host", left_alone(w));
    let outcome = match all.run().await {
        Ok(()) => closed(w, &process).await,
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!(
            "{error:#}\n{}\n{}",
            world.stage.report().await,
            process.log_tail()
        );
    }
}

async fn begin(stage: &Stage) -> Result<Process> {
    stage.install_openshift_release().await?;
    for host in HOSTS {
        stage
            .set_openshift_consumer(host, &machine_of(host))
            .await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    let mut process = stage.start_openshift_controller().await?;
    ensure!(process.ended().is_none(), "{}", process.log_tail());
    Ok(process)
}
