//! The agent is killed during a power-off.

use std::time::Duration;

use anyhow::Result;
use rackhand_tests::{
    rack::{PowerTimings, ResetType},
    stage::LONG,
};

use crate::story::{Rule, Story};

pub(super) const ABOUT: &str = "\
The rack agent is killed with SIGKILL after it has sent the power-off to the BMC and before the power is \
off. Two mistakes are possible: to treat the host as off because the command was sent, and to switch it \
off once more after the restart, while it is on its way back.";

/// Duration of a power-off, long enough to kill the agent during it.
const OFF_TAKES: Duration = Duration::from_secs(4);

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    host.set_timings(PowerTimings {
        off_takes: OFF_TAKES,
        ..stage.config().timings
    });
    story.begin("The host hangs");
    story.hang_victim(host).await?;
    let commanded = host.wait_for(LONG, "commanded", |view| {
        view.counters.received(ResetType::ForceOff) > 0
    });
    story.during(commanded).await?;
    stage.kill_agent("rack-a")?;
    story
        .line(
            "fault",
            "kill -9 of the rack agent: the command was sent, the power is still on",
        )
        .await;
    let noticed =
        stage.wait_remediation(&victim, "the disconnect of the agent is detected", |seen| {
            seen.reason == "AgentUnreachable"
        });
    story.during(noticed).await?;
    story.why(
        Rule::F1,
        "the controller knows only that it requested the power-off. Without an agent the BMC \
         cannot be read, so the host is not confirmed off: no taint.",
    );
    story.see(&stage.explain_command(&victim).await?).await?;
    story
        .check_never_tainted(&victim, "nothing was tainted while there was no agent")
        .await;
    stage.start_agent("rack-a")?;
    stage.wait_agent("rack-a").await?;
    story
        .line(
            "agent",
            "is started again, as by systemd; its journal contains an interrupted power-off",
        )
        .await;
    story.why(
        Rule::F2,
        "the operation is in the agent's journal and in the remediation, under one id. The agent \
         reports it as interrupted, and the controller has the BMC read before it tries again: a \
         host that is off by then is not cycled twice.",
    );
    story.back().await?;
    story
        .see(&format!(
            "kubectl -n metal3 get events --field-selector involvedObject.name={victim},reason=CommandSent \
             -o custom-columns=REASON:.reason,MESSAGE:.message"
        ))
        .await?;

    story.one_cycle_in_all().await
}
