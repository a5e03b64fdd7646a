//! A host that is being flashed hangs: it is not cut before its firmware is written.

use anyhow::{Result, ensure};

use crate::story::Story;

pub(super) const ABOUT: &str = "\
Somebody updates the firmware of a host, and the host hangs meanwhile. Whoever switches it off now may have to send \
the board to its maker: half of its firmware is written. Its BMC says that an update runs, as a task. Rackhand asks \
before it holds or switches anything, and waits; the agent asks once more right before each power-off, whoever \
requested it.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("The host hangs while its firmware is written");
    host.flash(None);
    story
        .line("person", &format!("updates the firmware of {victim}"))
        .await;
    ensure!(host.hang(), "{victim} was not up");
    story
        .line("fault", &format!("{victim} hangs: its kubelet is dead"))
        .await;
    let held = stage.wait_remediation(&victim, "held by the update", |seen| {
        seen.reason == "FirmwareUpdateRunning" && seen.message.contains("40 %")
    });
    story.during(held).await?;
    story.note(
        "The message has the task of the BMC and how far it is. Nothing is held, switched or tainted. A task that \
         does not move for half an hour is called stalled, and a person decides.",
    );
    story.see("rackhand-controller status").await?;
    story.check_power("while its firmware is written", &victim, &[], &[]);
    story
        .check_never_tainted(
            &victim,
            "nothing was tainted while its firmware was written",
        )
        .await;

    host.end_flash();
    story.line("BMC", "has written the firmware").await;
    story.back().await?;

    let bricked = host.counters().bricked;
    story.check(
        "the host never lost its power while its firmware was written",
        match bricked {
            0 => Ok(()),
            times => Err(anyhow::anyhow!("{times} times")),
        },
    );
    story.check_power("in all", &victim, &["rackhand"], &["rackhand"]);
    story.check_tainted_once(&victim, true).await;
    story.check_nothing_left(&victim).await;
    story.check_others(&[&victim]);
    story.verdict()
}
