//! Coexistence with baremetal-operator and Ironic, which manage the power of the same hosts.

use anyhow::{Result, ensure};
use rackhand_tests::{
    bmo::{Metal3, Settings, ironic::Power},
    stage::{LONG, wait_until},
};

use crate::{
    story::{Rule, Story, runs_elsewhere},
    timeline::HOLD,
};

pub(super) const ABOUT: &str = "\
Where Metal3 manages hosts, baremetal-operator and Ironic control their power as well: within two \
minutes they switch on a host that is off and should be on. So Rackhand first sets a hold key on the \
BareMetalHost, and removes it when the host may come back. (Both are stand-ins here, with their \
published behaviour and periods of 1 and 2 s instead of 60 and 120 s.)

First they work, and switch the host off and on because of the hold key. Then baremetal-operator does \
nothing and Ironic is down, and Rackhand's agent switches the host; when they come back, they must not undo that.";

const IRONIC: &str = "ironic";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, first) = (story.stage, story.victim.clone());
    let hosts: Vec<&str> = stage
        .racks()
        .iter()
        .flat_map(|rack| rack.hosts().keys().map(String::as_str))
        .collect();
    let metal3 = stage.start_metal3(&hosts, Settings::default()).await?;

    with_it(&mut story, &metal3).await?;
    let second = runs_elsewhere(stage, &story.pod, &first).await?;
    story.victim.clone_from(&second);
    without_it(&mut story, &metal3).await?;

    story.check_power("with the operator", &first, &[IRONIC], &[IRONIC]);
    story.check_power("without it", &second, &["rackhand"], &[IRONIC]);
    for host in [&first, &second] {
        let sent = metal3.sent(host)?;
        let text = format!("Ironic forced {host} neither on nor off");
        let outcome = if sent.forced_ons + sent.forced_offs == 0 {
            Ok(())
        } else {
            Err(anyhow::anyhow!("{sent:?}"))
        };
        story.check(&text, outcome);
        let holds = story.recorder.holds(host, HOLD).len();
        let outcome = if holds == 2 {
            Ok(())
        } else {
            Err(anyhow::anyhow!("{holds} changes"))
        };
        story.check(
            &format!("our hold key on {host} was set once and removed once"),
            outcome,
        );
        story.check_tainted_once(host, true).await;
        story.check_nothing_left(host).await;
    }
    story.check_others(&[&first, &second]);
    story.verdict()
}

async fn with_it(story: &mut Story<'_>, metal3: &Metal3) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("First: baremetal-operator and Ironic work");
    story.hang_victim(host).await?;
    story.during(stage.wait_step(&victim, "Draining")).await?;
    story.why(
        Rule::F2,
        "the key was set before any power-off. baremetal-operator saw it and had Ironic switch \
         the host off; Rackhand's agent confirmed that with readings of its own from the BMC.",
    );
    story
        .see(&format!(
            "kubectl -n metal3 get bmh {victim} -o jsonpath='{{.metadata.annotations}}{{\"\\n\"}}'"
        ))
        .await?;
    story.why(
        Rule::F1,
        "status.poweredOn proves nothing: Ironic counts PoweringOff as off, so it may be false while \
         the host still has power. Rackhand does not use it.",
    );
    let syncs = metal3.sent(&victim)?.syncs;
    let synced = wait_until("Ironic has synced again", LONG, || async {
        let now = metal3.sent(&victim)?.syncs;
        Ok(if now > syncs {
            Ok(())
        } else {
            Err(now.to_string())
        })
    });
    story.during(synced).await?;
    story
        .line(
            "Metal3",
            "Ironic compares the host with its database: both are off, and it changes nothing",
        )
        .await;
    story.back().await
}

async fn without_it(story: &mut Story<'_>, metal3: &Metal3) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("Then: baremetal-operator does nothing, and Ironic is down");
    metal3.stop_reconciling();
    metal3.stop_ironic();
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!(
                "baremetal-operator answers its webhook only, Ironic is down, and {victim}, which runs {} now, hangs",
                story.pod
            ),
        )
        .await;
    story.during(stage.wait_step(&victim, "Draining")).await?;
    story.why(
        Rule::F2,
        "the key was set as before. After 10 s without a power-off (--cooperative-grace) the \
         agent switched the host off itself.",
    );
    // Ironic's database has the host on, so Ironic must learn of the hold before its next power sync.
    metal3.start_operator();
    let asked = wait_until(
        "baremetal-operator requests the power change",
        LONG,
        || async {
            let busy = metal3.node(&victim)?.is_busy();
            Ok(if busy {
                Ok(())
            } else {
                Err("not yet".to_owned())
            })
        },
    );
    story.during(asked).await?;
    metal3.start_ironic();
    story.line(
        "Metal3",
        "both are back; in Ironic's database the host is on, and the hold key requires it to be off",
    ).await;
    let knows = wait_until("Ironic's database is updated", LONG, || async {
        let power = metal3.node(&victim)?.power;
        Ok(if power == Some(Power::Off) {
            Ok(())
        } else {
            Err(format!("{power:?}"))
        })
    });
    story.during(knows).await?;
    story
        .line(
            "Metal3",
            "Ironic finds the host off as required, records that, and sends nothing",
        )
        .await;
    story.back().await
}
