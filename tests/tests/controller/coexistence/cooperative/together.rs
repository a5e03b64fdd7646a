//! baremetal-operator acts on hold keys: those of Rackhand, those of others, late, or after backoff.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    rack::PowerState,
    stage::{LONG, Record, wait_until},
};

use super::world::{AGENT, GRACE, HOLD, IRONIC, OFF, ON, SOMEBODY, World};

/// The hold is set before any power-off and removed after the drain. The agent sends its own power-off
/// although the host reports off already (F1).
pub async fn path(w: &World) -> Result<()> {
    w.stage.bind_pod("path-1", false).await?;
    w.host("path-1")?
        .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    w.hang("path-1")?;
    w.back_by("path-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await?;
    let holds = w.recorder.holds("path-1", HOLD);
    ensure!(
        holds.len() == 2,
        "the hold was set and removed once: {holds:?}"
    );
    let (off, on) = (
        w.stage.commanded("path-1", OFF)?,
        w.stage.commanded("path-1", ON)?,
    );
    let [(came, _), (went, _)] = [holds[0], holds[1]];
    // The recorder may receive a version later than baremetal-operator.
    let early = came.saturating_duration_since(off);
    ensure!(
        early < Duration::from_secs(1),
        "off {early:?} before the hold"
    );
    ensure!(off < went, "the hold went before the off");
    let early = went.saturating_duration_since(on);
    ensure!(
        early < Duration::from_secs(1),
        "on {early:?} before the hold went"
    );
    let gone = w.recorder.of("Pod", "on-path-1");
    let gone = gone.iter().find(|record| record.gone).context("drained")?;
    // Two watches arrive in any order, so the order of the writes counts.
    let versions = w.recorder.of("BareMetalHost", "path-1");
    let held = |record: &&Record| record.is_annotated(HOLD);
    let mut since = versions.iter().skip_while(|record| !held(record));
    let let_go = since.find(|record| !held(record)).context("let go")?;
    ensure!(
        gone.version() < let_go.version(),
        "the hold went before the pod"
    );
    let sent = w.well.sent("path-1")?;
    ensure!((sent.offs, sent.ons) == (1, 1), "{sent:?}");
    ensure!((sent.forced_offs, sent.forced_ons) == (0, 0), "{sent:?}");
    Ok(())
}

pub async fn synced(w: &World) -> Result<()> {
    w.draining("sync-1").await?;
    w.synced(&w.well, "sync-1", 4).await?;
    let (host, sent) = (w.host("sync-1")?, w.well.sent("sync-1")?);
    ensure!(host.real_power() == PowerState::Off, "it stays off");
    ensure!((sent.ons, sent.forced_ons) == (0, 0), "{sent:?}");
    ensure!(w.stage.tainted("sync-1").await?, "the Node stays tainted");
    w.stage.let_pod_go("sync-1").await?;
    w.back_by("sync-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await
}

pub async fn foreign(w: &World) -> Result<()> {
    w.draining("foreign-1").await?;
    w.annotate("foreign-1", SOMEBODY, Some("")).await?;
    w.stage.let_pod_go("foreign-1").await?;
    let seen = w.stage.wait_blocked("foreign-1", "HeldByOthers").await?;
    ensure!(seen.message.contains(SOMEBODY), "{}", seen.message);
    let host = w.host("foreign-1")?;
    // Longer than the agent would wait for the operator.
    tokio::time::sleep(GRACE + Duration::from_secs(3)).await;
    w.synced(&w.well, "foreign-1", 2).await?;
    ensure!(host.real_power() == PowerState::Off, "off until it goes");
    let bmh = w.stage.bare_metal_hosts().get("foreign-1").await?;
    let kept = bmh.metadata.annotations.unwrap_or_default();
    ensure!(kept.contains_key(SOMEBODY), "the foreign hold is kept");
    w.annotate("foreign-1", SOMEBODY, None).await?;
    w.back_by("foreign-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await
}

/// A person requests a reboot during a hold: baremetal-operator finds the host off and removes the annotation
/// as half done.
pub async fn plain(w: &World) -> Result<()> {
    w.draining("plain-1").await?;
    w.annotate("plain-1", "reboot.metal3.io", Some("")).await?;
    wait_until("the plain annotation is gone", LONG, || async {
        let bmh = w.stage.bare_metal_hosts().get("plain-1").await?;
        let left = bmh.metadata.annotations.unwrap_or_default();
        Ok(if left.contains_key("reboot.metal3.io") {
            Err("it still exists".to_owned())
        } else {
            Ok(())
        })
    })
    .await?;
    w.synced(&w.well, "plain-1", 2).await?;
    let host = w.host("plain-1")?;
    ensure!(
        host.real_power() == PowerState::Off,
        "the host is still held"
    );
    w.stage.let_pod_go("plain-1").await?;
    w.back_by("plain-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await
}

pub async fn backing_off(w: &World) -> Result<()> {
    w.ill.refusing("ill-1", true)?;
    w.draining("ill-1").await?;
    let sent = w.ill.sent("ill-1")?;
    ensure!(sent.offs == 0, "Ironic sent no power-off: {sent:?}");
    let seen = w.recorder.of("BareMetalHost", "ill-1");
    let errors = seen
        .iter()
        .any(|record| record.object["status"]["errorCount"].as_u64() > Some(0));
    ensure!(errors, "the operator counts its errors");
    w.ill.refusing("ill-1", false)?;
    w.operational("ill-1", "OK").await?;
    w.stage.let_pod_go("ill-1").await?;
    w.back_by("ill-1", &[(AGENT, OFF), (IRONIC, ON)]).await?;
    w.stays_on(&w.ill, "ill-1").await
}

/// Somebody has just mended what Ironic failed by, and baremetal-operator would look in an hour.
pub async fn woken(w: &World) -> Result<()> {
    let host = "weary-1";
    w.weary.refusing(host, true)?;
    w.draining(host).await?;
    w.operational(host, "error").await?;
    w.weary.refusing(host, false)?;
    w.stage.let_pod_go(host).await?;
    w.back_by(host, &[(AGENT, OFF), (IRONIC, ON)]).await?;
    let renewed = (w.recorder.of("BareMetalHost", host).iter()).any(|seen| {
        let annotations = &seen.object["metadata"]["annotations"];
        annotations.to_string().contains("renewed")
    });
    ensure!(renewed, "the value of the hold was changed");
    w.stays_on(&w.weary, host).await
}

/// baremetal-operator switches on late in its grace period: the renewed Lease then belongs to the right host.
pub async fn slow(w: &World) -> Result<()> {
    w.draining("slow-1").await?;
    w.slow.stop_reconciling();
    w.stage.let_pod_go("slow-1").await?;
    wait_until("the hold is removed", LONG, || async {
        let holds = w.recorder.holds("slow-1", HOLD);
        Ok(if holds.len() == 2 {
            Ok(())
        } else {
            Err(format!("{holds:?}"))
        })
    })
    .await?;
    // Late in the grace period, but early enough for the kubelet to renew the Lease within it.
    tokio::time::sleep(Duration::from_millis(6500)).await;
    w.slow.start_operator();
    w.back_by("slow-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await?;
    let steps = w.recorder.steps("slow-1");
    let aborted = steps.iter().any(|(_, step)| step == "Aborting");
    ensure!(!aborted, "{steps:?} {:?}", w.recorder.reasons("slow-1"));
    Ok(())
}
