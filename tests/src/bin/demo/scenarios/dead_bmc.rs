//! The BMC does not answer: the host does not count as off until a person confirms it.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::LONG,
};

use crate::story::{PERSON, Rule, Story};

pub(super) const ABOUT: &str = "\
A host hangs, and its BMC is dead as well. Nothing can switch the host off, and it is unknown whether it \
still runs. If Kubernetes started its database pod on another host now, it might run twice and destroy \
its data. Rackhand does not guess: it reports what it cannot confirm, keeps trying, and waits for a \
person who goes to the rack.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    story.begin("The host hangs");
    host.bmc_dead().await?;
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!(
                "{victim} hangs: its kubelet is dead, but it has power and {pod} still runs; its BMC is dead"
            ),
        )
        .await;
    story
        .during(stage.wait_blocked(&victim, "FenceUnconfirmed"))
        .await?;
    story.why(
        Rule::F8,
        &format!(
            "a dead BMC looks the same whether the host is on or off. {pod} still runs on \
             {victim}, so a second one must not be started: no taint is set, and the pod stays."
        ),
    );
    story
        .see(&format!(
            "kubectl -n metal3 get events --field-selector involvedObject.name={victim},type=Warning \
             -o custom-columns=REASON:.reason,MESSAGE:.message"
        ))
        .await?;
    story
        .see(&format!("kubectl get pod {pod} -o wide --no-headers"))
        .await?;
    story
        .check_never_tainted(
            &victim,
            "nothing was tainted while the host was not confirmed off",
        )
        .await;
    story.check_power("before a person came", &victim, &[], &[]);

    story.note(
        "A person goes to the rack. Before confirming anything, they make sure of three things:",
    );
    for text in [
        format!("1. It is the right machine: its label says {victim}, or its serial number matches."),
        "2. It has no power: both cords are pulled or both outlets are off; no lamp is lit, no fan \
         turns. A host that does not answer to ping may still run."
            .to_owned(),
        "3. It stays without power until Rackhand has moved the pods and waits for the power-on."
            .to_owned(),
    ] {
        story.note(&text);
    }
    story
        .line(
            "person",
            &format!("finds {victim} and pulls both of its cords"),
        )
        .await;
    host.switch(ResetType::ForceOff, PERSON);
    let dark = host.wait_for(LONG, "off", |view| view.power == PowerState::Off);
    story.during(dark).await?;
    story
        .line(
            "person",
            "sees that no lamp is lit and no fan turns, and confirms:",
        )
        .await;
    story
        .see(&format!(
            "kubectl -n metal3 annotate m3r {victim} rackhand.dev/confirm-fenced=$(kubectl -n metal3 \
             get m3r {victim} -o jsonpath='{{.metadata.uid}}')"
        ))
        .await?;
    let drained = stage.wait_remediation(&victim, "drained", |seen| seen.step == "PoweringOn");
    story.during(drained).await?;
    story.why(
        Rule::F8,
        "the annotation names this remediation by its UID, so that a confirmation for an earlier \
         failure cannot count for this one. It replaces the BMC's readings; everything else is as \
         usual.",
    );
    story
        .see(&format!("kubectl get pod {pod} -o wide --no-headers"))
        .await?;

    ensure!(
        host.real_power() == PowerState::Off,
        "{victim} has no power"
    );
    host.bmc_alive().await?;
    story
        .line("person", "replaces the BMC and plugs the cords in again")
        .await;
    story.back().await?;

    story.check_power("in all", &victim, &[PERSON], &["rackhand"]);
    story.check_tainted_once(&victim, false).await;
    story.check_nothing_left(&victim).await;
    story.check_others(&[&victim]);
    story.verdict()
}
