//! The agent dies in the middle of a power-off.

use std::time::Duration;

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerTimings, ResetType},
    stage::LONG,
};

use super::{rule::Rule, story::Story};

pub(super) const ABOUT: &str = "The rack agent is killed with -9 after it has told the BMC to cut the power and before the \
power is gone. Two mistakes are near: to take the host for off because it was told to go off, and, after the \
restart, to switch it off once more when it is on its way back.";

/// Long enough to be caught in the middle.
const OFF_TAKES: Duration = Duration::from_secs(4);

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    host.set_timings(PowerTimings {
        off_takes: OFF_TAKES,
        ..stage.config().timings
    });
    story.begin("The host hangs");
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!(
                "{victim} hangs: no kubelet, but power, and {} still runs",
                story.pod
            ),
        )
        .await;
    let commanded = host.wait_for(LONG, "commanded", |view| {
        view.counters.received(ResetType::ForceOff) > 0
    });
    story.during(commanded).await?;
    stage.kill_agent("rack-a")?;
    story
        .line(
            "fault",
            "kill -9 of the rack agent: the command is out, the power is not gone yet",
        )
        .await;
    let noticed = stage.wait_remediation(&victim, "the agent is missed", |seen| {
        seen.reason == "AgentUnreachable"
    });
    story.during(noticed).await?;
    story.why(
        Rule::F1,
        "the controller knows that it asked for the power-off, and nothing else. Without an agent \
         nobody can read the BMC, so the host is not confirmed off: no taint.",
    );
    story
        .see(&format!(
            "rackhand-controller explain remediation {victim} -n metal3"
        ))
        .await?;
    story
        .check_never_tainted(&victim, "nothing was tainted while there was no agent")
        .await;
    stage.start_agent("rack-a")?;
    stage.wait_agent("rack-a").await?;
    story.line(
        "agent",
        "is started again, as systemd does. Its journal says: a power-off had begun, its end is not known",
    ).await;
    story.why(
        Rule::F2,
        "what was begun stands in the agent's journal and in the request, under one name. The agent \
         reports it as interrupted, and the controller has the BMC read first: a host that is off \
         by then is not switched off again.",
    );
    story.back().await?;
    story
        .see(&format!(
            "kubectl -n metal3 get events --field-selector involvedObject.name={victim},reason=CommandSent \
             -o custom-columns=REASON:.reason,MESSAGE:.message"
        ))
        .await?;

    story.check_power("in all", &victim, &["rackhand"], &["rackhand"]);
    story.check_tainted_once(&victim, true).await;
    story.check_nothing_left(&victim).await;
    story.check_others(&[&victim]);
    story.verdict()
}
