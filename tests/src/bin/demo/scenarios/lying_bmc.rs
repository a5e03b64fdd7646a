//! What a BMC says is held against what the node does.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::LONG,
};

use super::{rule::Rule, story::Story};
use crate::plain;

pub(super) const ABOUT: &str = "Two lies of a BMC. The first one says \"off\" of a host that runs, as a broken BMC does, or the \
BMC of another machine whose address was entered by mistake. The second one answers \"done\" to every command \
and does nothing. In both cases the database pod still runs, and must not be started elsewhere.

One lie cannot be found out from afar: a BMC that says \"off\" of its own host while that host runs and its \
kubelet is dead. There the BMC's word is all there is.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    says_off(&mut story).await?;
    does_nothing(&mut story).await?;
    let victim = story.victim.clone();
    story.check_power("in all", &victim, &["rackhand"], &["rackhand"]);
    story.check_tainted_once(&victim, true).await;
    story.check_nothing_left(&victim).await;
    story.check_others(&[&victim]);
    story.verdict()
}

async fn says_off(story: &mut Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("First lie: \"it is off\", and the host runs");
    host.ignore_commands();
    host.lie_off();
    story.line(
        "fault",
        &format!(
            "the BMC of {victim} does nothing any more and says \"Off\"; {victim} itself is well"
        ),
    ).await;
    story
        .line(
            "person",
            "asks for the host to be power-cycled all the same:",
        )
        .await;
    story
        .see(&format!(
            "kubectl -n metal3 annotate machine {victim} cluster.x-k8s.io/remediate-machine="
        ))
        .await?;
    story
        .during(stage.wait_blocked(&victim, "LeaseRenewed"))
        .await?;
    let undone = host.wait_for(LONG, "told to switch on", |view| {
        view.counters.received(ResetType::On) > 0
    });
    story.during(undone).await?;
    story.why(
        Rule::F5,
        &format!(
            "the BMC said \"Off\" as often as it takes, and yet the kubelet of {victim} has renewed \
             its Lease since: a machine that is off cannot do that. Either the BMC lies, or it is \
             the BMC of another machine. No taint, and power-on is asked for, in case another \
             machine was switched off."
        ),
    );
    story
        .see(&format!(
            "kubectl -n kube-node-lease get lease {victim} -o custom-columns=NODE:.metadata.name,RENEWED:.spec.renewTime; date -u +%T"
        ))
        .await?;
    story
        .check_never_tainted(&victim, "first lie: nothing was tainted")
        .await;
    story.check_power("first lie", &victim, &[], &[]);
    host.clear_faults();
    story
        .line("person", "corrects the BMC and withdraws the request:")
        .await;
    story.during(stage.wait_step(&victim, "Blocked")).await?;
    story
        .see(&format!(
            "kubectl -n metal3 annotate machine {victim} cluster.x-k8s.io/remediate-machine-"
        ))
        .await?;
    story.during(stage.wait_back(&victim)).await?;
    story.during(plain::counted(stage)).await
}

async fn does_nothing(story: &mut Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    story.begin("Second lie: \"done\", and nothing happens");
    host.ignore_commands();
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!(
                "{victim} hangs with {pod} on it; its BMC answers every command and does nothing"
            ),
        )
        .await;
    story
        .during(stage.wait_blocked(&victim, "FenceUnconfirmed"))
        .await?;
    story.why(
        Rule::F1,
        "that a command was accepted is no proof. The power state is read until it says exactly \
         \"Off\", twice; here it says \"On\". The command is sent again; nothing is tainted.",
    );
    story
        .see(&format!(
            "kubectl get node {victim} -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key"
        ))
        .await?;
    story
        .check_never_tainted(&victim, "second lie: nothing was tainted")
        .await;
    ensure!(host.real_power() == PowerState::On, "it is on");
    story.check_power("second lie", &victim, &[], &[]);
    host.clear_faults();
    story
        .line("person", "restarts the BMC: it obeys again")
        .await;
    story.back().await?;
    let again = host.counters().received(ResetType::ForceOff);
    let outcome = if again >= 2 {
        Ok(())
    } else {
        Err(anyhow::anyhow!("received {again} times"))
    };
    story.check(
        "the power-off was asked for again until it was carried out",
        outcome,
    );
    Ok(())
}
