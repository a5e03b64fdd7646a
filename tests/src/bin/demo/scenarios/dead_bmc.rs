//! The BMC does not answer: nothing is guessed, a person's word counts.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::LONG,
};

use super::{rule::Rule, story::Story, words::PERSON};

pub(super) const ABOUT: &str = "A host hangs, and its BMC is dead, too. Nobody can switch the host off, and nobody knows \
whether it still runs. If Kubernetes started its database pod on another host now, it might run twice and \
destroy its data. Rackhand does not guess: it says what it misses, tries again and again, and waits for a \
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
                "{victim} hangs: no kubelet, but power, and {pod} still runs; its BMC is dead"
            ),
        )
        .await;
    story
        .during(stage.wait_blocked(&victim, "FenceUnconfirmed"))
        .await?;
    story.why(
        Rule::F8,
        &format!(
            "a dead BMC looks the same whether the host is on or off. {pod} does still run on \
             {victim}, so a second one must not be started: no taint is set, the pod stays where it is."
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
            "nothing was tainted while it was not known to be off",
        )
        .await;
    story.check_power("before a person came", &victim, &[], &[]);

    story.note(
        "A person goes to the rack. Before anything is confirmed, this must be made sure of:",
    );
    for text in [
        format!("1. It is this machine: the label on it says {victim}, or its serial number fits."),
        "2. It has no power: both cords are pulled or both outlets are off, no lamp, no fan. That it \
         does not answer to ping proves nothing."
            .to_owned(),
        "3. It stays so: nobody plugs it in again until Rackhand has moved the pods and waits for \
         the power-on."
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
            "sees that no lamp is lit and no fan turns, and gives the word:",
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
        "the annotation names this one request by its UID, so that a word given for an earlier \
         failure can never be taken for this one. It stands in for the BMC's own word, and all the \
         rest goes as always.",
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
