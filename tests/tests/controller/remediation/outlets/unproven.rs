//! Hosts of which neither the BMC nor the PDUs prove anything, and states with outlets that a newer controller wrote.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use rackhand_tests::{
    pdu::PduPair,
    rack::{PowerState, ResetType},
    stage::{LONG, NAMESPACE, Recorder, Stage, wait_until},
};

use super::{lose, with_pdus};

const BLOCKED: &str = "rackhand.dev/blocked";

#[tokio::test(flavor = "multi_thread")]
async fn f8_without_bmc_and_pdus_a_person_decides_and_a_newer_state_is_refused() {
    with_pdus(run).await;
}

async fn run(stage: &Stage, recorder: &Recorder, pdus: &PduPair) -> Result<()> {
    everything_is_dead(stage, recorder, pdus).await?;
    state_is_newer(stage, pdus).await
}

/// BMC and PDUs of a host are dead: it is held and says why and what a person can do, nothing is moved, and it
/// goes on once a person has confirmed.
async fn everything_is_dead(stage: &Stage, recorder: &Recorder, pdus: &PduPair) -> Result<()> {
    let (name, host) = ("fed-1", stage.host("fed-1")?);
    for pdu in [0, 1] {
        pdus.set_dead(pdu, true);
    }
    let pod = lose(stage, name, false).await?;
    let seen = stage.wait_blocked(name, "FenceUnconfirmed").await?;
    let seen = match seen.message.contains("a/1, b/1") {
        true => seen,
        false => {
            let names_outlets = |seen: &rackhand_tests::stage::Seen| {
                seen.reason == "FenceUnconfirmed" && seen.message.contains("a/1, b/1")
            };
            stage
                .wait_remediation(name, "the outlets were tried", names_outlets)
                .await?
        }
    };
    ensure!(
        seen.message.contains("rackhand.dev/confirm-fenced"),
        "{}",
        seen.message
    );
    ensure!(pdus.are_on(1) == [true, true], "an outlet was switched");
    ensure!(host.real_power() == PowerState::On, "the host lost power");
    stage.never_tainted(recorder, name).await?;
    let bound = stage.bound_pod(name).await?.context("the pod is gone")?;
    ensure!(bound.metadata.uid == Some(pod), "the pod was touched");

    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    let confirm = ["confirm-fenced", name, "--namespace", NAMESPACE];
    stage.controller_command(&confirm, "fed-1\n").await?;
    let drained = |seen: &rackhand_tests::stage::Seen| seen.step == "PoweringOn";
    stage.wait_remediation(name, "drained", drained).await?;
    ensure!(host.real_power() == PowerState::Off, "nothing is repaired");
    recorder.catch_up(name).await?;
    ensure!(recorder.taints(name).len() == 1, "it is tainted");

    for pdu in [0, 1] {
        pdus.set_dead(pdu, false);
    }
    host.bmc_alive().await?;
    stage.wait_back(name).await?;
    stage.one_cycle(name)?;
    stage.tainted_only_while_off(recorder, name).await?;
    ensure!(pdus.are_on(1) == [true, true], "an outlet is off");
    Ok(())
}

/// A state of a newer format is refused: the host stays as it is, and the object says who goes on.
async fn state_is_newer(stage: &Stage, pdus: &PduPair) -> Result<()> {
    let (name, objects) = ("fed-2", stage.remediations());
    lose(stage, name, true).await?;
    stage.wait_step(name, "Draining").await?;
    ensure!(pdus.are_on(2) == [false, false], "the outlets are off");
    ensure!(stage.stop_controller("controller-0")?.success(), "ends");

    let recorded = stage.recorded(name).await?.data["spec"]["state"].clone();
    ensure!(recorded["format"] == 1, "{recorded}");
    let mut newer = recorded.clone();
    newer["format"] = 2.into();
    stage.replace_recorded(name, newer.clone()).await?;
    stage.let_pod_go(name).await?;
    stage.start_controller("controller-1").await?;
    let why = wait_until("the object says why", LONG, || async {
        let object = objects.get(name).await?;
        let blocked = object.annotations().get(BLOCKED).cloned();
        let blocked = blocked.filter(|why| why.starts_with("StateUnreadable: "));
        Ok(blocked.ok_or_else(|| format!("{:?}", object.annotations())))
    })
    .await?;
    ensure!(why.contains("run that version again"), "{why}");
    ensure!(
        pdus.are_on(2) == [false, false],
        "an outlet was switched on"
    );
    ensure!(stage.tainted(name).await?, "the taint stays");
    let left = stage.recorded(name).await?;
    ensure!(
        left.data["spec"]["state"] == newer,
        "what was done is not written over"
    );

    // That version runs again.
    stage.replace_recorded(name, recorded).await?;
    stage.wait_back(name).await?;
    stage.one_cycle(name)?;
    ensure!(pdus.are_on(2) == [true, true], "an outlet is off");
    Ok(())
}
