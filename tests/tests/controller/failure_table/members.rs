//! Rows of the failure table about members of a control plane.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::{LONG, wait_until},
};

use super::{power::off_times, world::World};

pub async fn one_member_at_a_time(w: &World) -> Result<()> {
    for host in ["five-1", "five-2"] {
        w.hang(host)?;
        w.stage.remediate(host).await?;
    }
    let reasons = wait_until("one waits for the other", LONG, || async {
        let (one, two) = (w.recorder.reasons("five-1"), w.recorder.reasons("five-2"));
        let waits = |reasons: &[String]| reasons.iter().any(|r| r == "OtherRemediation");
        Ok(if waits(&one) || waits(&two) {
            Ok((waits(&one), waits(&two)))
        } else {
            Err(format!("{one:?} {two:?}"))
        })
    })
    .await?;
    ensure!(reasons != (true, true), "both wait");
    for host in ["five-1", "five-2"] {
        w.succeeded(host).await?;
        w.stage.one_cycle(host)?;
    }
    let (one, two) = (off_times(w.host("five-1")?), off_times(w.host("five-2")?));
    let apart = one[0].1 <= two[0].0 || two[0].1 <= one[0].0;
    ensure!(apart, "off at the same time: {one:?} {two:?}");
    Ok(())
}

pub async fn quorum_first(w: &World) -> Result<()> {
    for host in ["three-1", "three-2"] {
        w.hang(host)?;
    }
    for host in ["three-1", "three-2"] {
        wait_until(&format!("{host} is Unknown"), LONG, || async {
            let ready = rackhand_tests::stage::ready(&w.stage.node(host).await?);
            Ok(if ready == "Unknown" {
                Ok(())
            } else {
                Err(ready)
            })
        })
        .await?;
    }
    for host in ["three-1", "three-2"] {
        w.stage.remediate(host).await?;
    }
    // One remediation waits for a healthy member, and the other for that remediation.
    let (first, other) = wait_until("both wait", LONG, || async {
        let (mut first, mut reasons) = (None, Vec::new());
        for (host, other) in [("three-1", "three-2"), ("three-2", "three-1")] {
            let seen = w.stage.remediation(host).await?.unwrap_or_default();
            if seen.reason == "ControlPlaneQuorum" && seen.message.contains("2 are needed") {
                first = Some((host, other));
            }
            reasons.push(seen.reason);
        }
        let told = reasons.iter().all(|reason| !reason.is_empty());
        Ok(first.filter(|_| told).ok_or_else(|| format!("{reasons:?}")))
    })
    .await?;
    w.stage.wait_warning(first, "ControlPlaneQuorum").await?;
    for host in [first, other] {
        w.stage.untouched(host)?;
    }
    w.stage.withdraw(other).await?;
    let host = w.host(other)?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    host.switch(ResetType::On, "a person");
    w.succeeded(first).await?;
    w.stage.one_cycle(first)?;
    w.stage.one_cycle(other)
}

/// A remediation that is blocked by its own cause does not block other members.
pub async fn member_paused(w: &World) -> Result<()> {
    let machines = w.stage.machines();
    let paused = "cluster.x-k8s.io/paused";
    w.stage
        .annotate(&machines, "trio-1", paused, Some(""))
        .await?;
    w.stage.remediate("trio-1").await?;
    w.stage.wait_blocked("trio-1", "Paused").await?;
    w.lose("trio-2", true).await?;
    w.stage.remediate("trio-2").await?;
    w.stage.wait_step("trio-2", "Draining").await?;
    // After its pause it is the older remediation, and waits for the one that has begun.
    w.stage.annotate(&machines, "trio-1", paused, None).await?;
    let seen = w.stage.wait_blocked("trio-1", "OtherRemediation").await?;
    ensure!(seen.message.contains("trio-2"), "{}", seen.message);
    w.stage.withdraw("trio-1").await?;
    // A remediation without Rackhand's finalizer is counted, too.
    let counted = "{outcome=\"withdrawn\",cause=\"OtherRemediation\"}";
    wait_until("it is counted", LONG, || async {
        let (_, text) = w.stage.admin("controller-0", "/metrics").await?;
        Ok(if text.contains(counted) {
            Ok(())
        } else {
            Err(text)
        })
    })
    .await?;
    w.stage.let_pod_go("trio-2").await?;
    w.succeeded("trio-2").await?;
    w.stage.one_cycle("trio-2")?;
    w.stage.untouched("trio-1")
}
