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

/// Two of three members lose their kubelets and get remediations. Returns the remediation that waits for a healthy
/// member, and the other one, each with its UID.
async fn without_quorum<'a>(w: &World, hosts: [&'a str; 2]) -> Result<[(&'a str, String); 2]> {
    for host in hosts {
        w.hang(host)?;
    }
    for host in hosts {
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
    let mut uids = Vec::new();
    for host in hosts {
        uids.push(w.stage.remediate(host).await?);
    }
    // One remediation waits for a healthy member, and the other for that remediation.
    let first = wait_until("both wait", LONG, || async {
        let (mut first, mut reasons) = (None, Vec::new());
        for (place, host) in hosts.into_iter().enumerate() {
            let seen = w.stage.remediation(host).await?.unwrap_or_default();
            if seen.reason == "ControlPlaneQuorum" && seen.message.contains("2 are needed") {
                first = Some(place);
            }
            reasons.push(seen.reason);
        }
        let told = reasons.iter().all(|reason| !reason.is_empty());
        Ok(first.filter(|_| told).ok_or_else(|| format!("{reasons:?}")))
    })
    .await?;
    w.stage
        .wait_warning(hosts[first], "ControlPlaneQuorum")
        .await?;
    for host in hosts {
        w.stage.untouched(host)?;
    }
    let of = |place: usize| (hosts[place], uids[place].clone());
    Ok([of(first), of(1 - first)])
}

pub async fn quorum_first(w: &World) -> Result<()> {
    let [(first, _), (other, _)] = without_quorum(w, ["three-1", "three-2"]).await?;
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

/// Members that run etcd and nothing else, by the label that Rancher gives to Machines. A person overrules the
/// quorum for one of them; the other one follows when the majority is there again.
pub async fn only_etcd(w: &World) -> Result<()> {
    let [(first, uid), (other, foreign)] = without_quorum(w, ["etcd-1", "etcd-2"]).await?;
    let message = w
        .stage
        .remediation(first)
        .await?
        .unwrap_or_default()
        .message;
    let names_the_way_out = message.contains("rackhand.dev/override-quorum");
    ensure!(names_the_way_out, "{message}");
    let remediations = w.stage.remediations();
    let key = "rackhand.dev/override-quorum";
    // The word for another remediation is none.
    w.stage
        .annotate(&remediations, first, key, Some(&foreign))
        .await?;
    w.stage.wait_blocked(first, "ControlPlaneQuorum").await?;
    w.stage
        .annotate(&remediations, first, key, Some(&uid))
        .await?;
    w.stage.wait_warning(first, "QuorumOverruled").await?;
    w.succeeded(first).await?;
    w.succeeded(other).await?;
    for host in [first, other] {
        w.stage.one_cycle(host)?;
    }
    let (one, two) = (off_times(w.host(first)?), off_times(w.host(other)?));
    ensure!(
        one[0].1 <= two[0].0,
        "off at the same time: {one:?} {two:?}"
    );
    w.stage.untouched("etcd-3")
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
