//! A person changes a DIMM: the host is emptied, switched off, lit, and comes back.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{LedState, PowerState},
    stage::{LONG, NAMESPACE, wait_until},
};

use crate::story::Story;

pub(super) const ABOUT: &str = "\
A DIMM of a healthy host has to be changed. A person asks for that with one command, instead of cordoning and \
draining the Node, pausing every health check, switching the host off and remembering to undo it all. Rackhand does \
it under the same budgets, quorum and proofs as after a failure, and nobody remediates the host meanwhile.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("A DIMM is to be changed");
    let name = victim.as_str();
    story
        .see(&format!(
            "rackhand-controller maintenance start --machine {name} --namespace {NAMESPACE} --reason 'DIMM A3' --led"
        ))
        .await?;
    let parked = wait_until("the host is parked", LONG, || async {
        let objects = stage.api("rackhand.dev", "v1alpha1", "HostMaintenance");
        let status = objects.get(name).await?.data["status"].clone();
        Ok(match status["phase"] == "Parked" {
            true => Ok(()),
            false => Err(status["message"].to_string()),
        })
    });
    story.during(parked).await?;
    ensure!(host.real_power() == PowerState::Off, "{victim} is not off");
    let lit = wait_until("the locator LED is lit", LONG, || async {
        let led = host.with_settings(|_, settings| settings.led);
        Ok(match led {
            LedState::Off => Err("dark".to_owned()),
            LedState::Lit | LedState::Blinking => Ok(()),
        })
    });
    story.during(lit).await?;
    story
        .see(&format!(
            "kubectl get hostmaintenances --namespace {NAMESPACE}"
        ))
        .await?;
    story
        .see(&format!(
            "rackhand-controller maintenance list --namespace {NAMESPACE}"
        ))
        .await?;
    story.note(
        "The host is confirmed off and held, its workload runs elsewhere, its LED is lit, and its health check leaves \
         the Machine alone.",
    );
    story.check_power("while the DIMM is changed", &victim, &["rackhand"], &[]);

    story
        .line("person", "changes the DIMM, and ends the maintenance")
        .await;
    story
        .see(&format!(
            "rackhand-controller maintenance end {name} --namespace {NAMESPACE}"
        ))
        .await?;
    story.back().await?;

    story.one_cycle_in_all().await
}
