//! The leader is killed during a drain.

use anyhow::{Context as _, Result};
use rackhand_tests::stage::{LONG, wait_until};

use crate::story::{Rule, Story};

pub(super) const ABOUT: &str = "\
Two controllers run: one leads, the other is on standby. The leader is killed with SIGKILL while a host \
is off, tainted and being drained. The standby must learn from the cluster alone what was done, and \
finish it, with one power cycle in all.";

const LEASE: &str = "kubectl -n rackhand-system get lease rackhand-controller -o custom-columns=\
                     LEADER:.spec.holderIdentity,TERM:.spec.leaseTransitions";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let (holder, term) = stage.leader().await?;
    let names = ["controller-0", "controller-1"];
    let leader = names.into_iter().find(|name| holder.starts_with(name));
    let leader = leader.with_context(|| format!("{holder} leads"))?;
    story.begin("The host hangs");
    story.hang_victim(host).await?;
    story.during(stage.wait_step(&victim, "Draining")).await?;
    story.see(LEASE).await?;
    stage.kill_controller(leader)?;
    story
        .line("fault", &format!("kill -9 of {leader}, which leads"))
        .await;
    story.why(
        Rule::F2,
        "every step was written to the remediation before it was carried out. Nothing that is \
         needed was only in the memory of the process.",
    );
    story
        .see(&format!(
            "kubectl -n metal3 get m3r {victim} -o jsonpath='{{.metadata.annotations.rackhand\\.dev/state}}' | cut -c-160"
        ))
        .await?;
    story.note(
        "The standby waits until the Lease expires, 15 s after its last renewal, because the old \
         leader might only be slow. The host stays off and tainted meanwhile.",
    );
    let taken = wait_until("the standby leads", LONG, || async {
        let (now, later) = stage.leader().await?;
        Ok(if later > term && now != holder {
            Ok(now)
        } else {
            Err(format!("{now} in term {later}"))
        })
    });
    let successor = story.during(taken).await?;
    story.see(LEASE).await?;
    story.why(
        Rule::F7,
        "the new leader first claims its term at every agent. If the old leader were still \
         running, its commands would be refused from now on.",
    );
    stage.start_controller(leader).await?;
    story
        .line(
            "fault",
            &format!("{leader} is started again, as by its Deployment; now it is the standby"),
        )
        .await;
    story.back().await?;

    let events = stage.events(&victim).await?;
    let told = |who: &str| {
        let by = |event: &&k8s_openapi::api::events::v1::Event| {
            event.reporting_instance.as_deref() == Some(who)
        };
        events.iter().any(|event| by(&event))
    };
    let outcome = if told(&holder) && told(&successor) {
        Ok(())
    } else {
        Err(anyhow::anyhow!("not both have told of their work"))
    };
    story.check(
        "the first leader began it and the other one finished it",
        outcome,
    );
    story.one_cycle_in_all().await
}
