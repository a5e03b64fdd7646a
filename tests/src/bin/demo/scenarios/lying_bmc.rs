//! The readings of a BMC are compared with the heartbeats of the Node.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::LONG,
};

use crate::{
    plain,
    story::{Rule, Story},
};

pub(super) const ABOUT: &str = "\
Two faults of a BMC. First it reports \"off\" for a host that runs, like a broken BMC, or like the BMC of \
another machine whose address was entered by mistake. Then it accepts every command and does nothing. In \
both cases the database pod still runs and must not be started elsewhere.

One fault cannot be detected remotely: a BMC that reports \"off\" for its own host while that host runs \
and its kubelet is dead. In that case the BMC is the only source.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    says_off(&mut story).await?;
    does_nothing(&mut story).await?;
    story.one_cycle_in_all().await
}

async fn says_off(story: &mut Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("First fault: the BMC reports \"off\", and the host runs");
    host.ignore_commands();
    host.report_off();
    story.line(
        "fault",
        &format!(
            "the BMC of {victim} ignores commands and reports \"Off\"; {victim} itself is healthy"
        ),
    ).await;
    story
        .line("person", "requests a remediation of the Machine:")
        .await;
    story
        .see(&format!(
            "kubectl -n metal3 annotate machine {victim} cluster.x-k8s.io/remediate-machine="
        ))
        .await?;
    story
        .during(stage.wait_blocked(&victim, "LeaseRenewed"))
        .await?;
    let undone = host.wait_for(LONG, "receives the power-on", |view| {
        view.counters.received(ResetType::On) > 0
    });
    story.during(undone).await?;
    story.why(
        Rule::F5,
        &format!(
            "the BMC reported \"Off\" as often as required, but the kubelet of {victim} has renewed \
             its Lease since, which a host that is off cannot do. Either the BMC is broken, or it \
             is the BMC of another host. No taint is set, and a power-on is sent, in case another \
             host was switched off."
        ),
    );
    story
        .see(&format!(
            "kubectl -n kube-node-lease get lease {victim} -o custom-columns=NODE:.metadata.name,RENEWED:.spec.renewTime; date -u +%T"
        ))
        .await?;
    story
        .check_never_tainted(&victim, "first fault: nothing was tainted")
        .await;
    story.check_power("first fault", &victim, &[], &[]);
    host.clear_faults();
    story
        .line("person", "repairs the BMC and withdraws the remediation:")
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
    story.begin("Second fault: the BMC accepts commands and does nothing");
    host.ignore_commands();
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!(
                "{victim} hangs with {pod} on it; its BMC accepts every command and does nothing"
            ),
        )
        .await;
    story
        .during(stage.wait_blocked(&victim, "FenceUnconfirmed"))
        .await?;
    story.why(
        Rule::F1,
        "an accepted command proves nothing. The power state is read until it is exactly \
         \"Off\", twice; here it is \"On\". The command is sent again; nothing is tainted.",
    );
    story
        .see(&format!(
            "kubectl get node {victim} -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key"
        ))
        .await?;
    story
        .check_never_tainted(&victim, "second fault: nothing was tainted")
        .await;
    ensure!(host.real_power() == PowerState::On, "it is on");
    story.check_power("second fault", &victim, &[], &[]);
    host.clear_faults();
    story
        .line("person", "restarts the BMC, which works again")
        .await;
    story.back().await?;
    let again = host.counters().received(ResetType::ForceOff);
    let outcome = if again >= 2 {
        Ok(())
    } else {
        Err(anyhow::anyhow!("received {again} times"))
    };
    story.check(
        "the power-off was sent again until it was carried out",
        outcome,
    );
    Ok(())
}
