//! Controllers that are killed, stopped or disconnected.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use nix::sys::signal::Signal;
use rackhand_proto::v1::{ClaimTermRequest, Term, power_client::PowerClient};
use rackhand_tests::{
    pki::CertSpec,
    rack::ResetType,
    stage::{LONG, Recorder, SYSTEM, Stage, TcpProxy, wait_until},
};
use rackhand_transport::{ClientTls, TlsFiles};

use super::world::{
    BRIEF, CALM, RACK, STEPS, Trouble, all_finished, at_step, commanded_once, finished, leads,
    start,
};

/// All hosts hang at once. At the first host that reaches its step, the controller is killed, or loses the
/// API server until it has lost its Lease and ended, while the other hosts are at other steps.
pub async fn trouble_at_every_step(
    stage: &Stage,
    recorder: &Recorder,
    line: &TcpProxy,
    trouble: Trouble,
) -> Result<()> {
    let mut number = 0;
    let hosts: Vec<String> = (1..=STEPS.len()).map(|i| format!("{RACK}-{i}")).collect();
    let mut left: Vec<(&str, &str)> = hosts.iter().map(String::as_str).zip(STEPS).collect();
    start(stage, "controller-0", BRIEF).await?;
    for host in &hosts {
        ensure!(stage.host(host)?.hang(), "{host} was up");
    }
    while !left.is_empty() {
        let seen = under(stage, &mut number, BRIEF, async |name| {
            leads(stage, name).await?;
            at_step(stage, recorder, &left).await
        })
        .await?;
        let begun = Instant::now();
        suffer(stage, line, &format!("controller-{number}"), trouble).await?;
        number += 1;
        let mut others = Vec::new();
        for (host, step) in left.clone() {
            let now = stage.remediation(host).await?.map(|seen| seen.step);
            let now = now.unwrap_or_default();
            if (host, step) == seen || now == step {
                println!("    {trouble:?} when {host} was seen at {step}; left at {now}");
                left.retain(|one| *one != (host, step));
            } else {
                others.push(now);
            }
        }
        println!(
            "      after {:.1?}; others were left at {others:?}",
            begun.elapsed()
        );
        line.mend();
        let lease = if left.is_empty() { CALM } else { BRIEF };
        start(stage, &format!("controller-{number}"), lease).await?;
    }
    under(stage, &mut number, CALM, async |_| {
        all_finished(stage, recorder, &hosts).await
    })
    .await?;
    for host in &hosts {
        commanded_once(stage, host)?;
    }
    ensure!(
        stage
            .stop_controller(&format!("controller-{number}"))?
            .success(),
        "exits successfully after SIGTERM"
    );
    Ok(())
}

/// Waits while a controller works. One that ends by itself, because it could not renew its Lease in time on a
/// busy machine, is followed by one of the next name: the Lease names its predecessor until then.
async fn under<T>(
    stage: &Stage,
    number: &mut usize,
    lease: &str,
    done: impl AsyncFn(&str) -> Result<T>,
) -> Result<T> {
    loop {
        let name = format!("controller-{number}");
        let ended = async {
            loop {
                if let Some(status) = stage.controller_ended(&name) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let status = tokio::select! {
            done = done(&name) => return done,
            status = ended => status,
        };
        println!("    {name} ended by itself ({status})");
        *number += 1;
        start(stage, &format!("controller-{number}"), lease).await?;
    }
}

/// Applies the fault to the controller, and waits until it has ended.
async fn suffer(stage: &Stage, line: &TcpProxy, name: &str, trouble: Trouble) -> Result<()> {
    match trouble {
        Trouble::Killed => return stage.kill_controller(name),
        Trouble::Cut => line.cut(),
        Trouble::Silenced => line.silence(),
    }
    let ended = wait_until("the controller without an API ends", LONG, || async {
        Ok(stage.controller_ended(name).ok_or("it runs".to_owned()))
    })
    .await?;
    ensure!(!ended.success(), "{name} ended with {ended}");
    let log = stage.log_of(name)?;
    ensure!(
        log.contains("leadership lost"),
        "{name} does not log the cause"
    );
    Ok(())
}

/// A client with a controller's certificate claims a much higher term, as if the Lease had been deleted and
/// created again.
pub async fn higher_term(stage: &Stage, recorder: &Recorder) -> Result<()> {
    leads(stage, "last").await?;
    let tls = stage.issue(&CertSpec::peer("another", "spiffe://rackhand/controller"))?;
    let tls = ClientTls::controller(TlsFiles::in_dir(&tls))?;
    let channel = rackhand_transport::connect(&stage.agent_endpoint(RACK)?, RACK, &tls).await?;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let uid = namespaces
        .get("kube-system")
        .await?
        .uid()
        .unwrap_or_default();
    let (_, before) = stage.leader().await?;
    let number = u64::try_from(before)? + 100;
    let claimed = PowerClient::new(channel)
        .claim_term(ClaimTermRequest {
            term: Some(Term {
                election: format!("{uid}/{SYSTEM}/rackhand-controller"),
                number,
                holder: "another".to_owned(),
            }),
            ..ClaimTermRequest::default()
        })
        .await?
        .into_inner();
    ensure!(claimed.accepted, "{claimed:?}");
    let (holder, _) = stage.leader().await?;
    ensure!(stage.host("r-1")?.hang(), "up");
    finished(stage, recorder, "r-1").await?;
    let (same, after) = stage.leader().await?;
    ensure!(
        u64::try_from(after)? > number,
        "term {after}, not above {number}"
    );
    let lost = stage.log_of("last")?.contains("leadership lost");
    ensure!(
        lost || same == holder,
        "the leader stays: {holder}, then {same}"
    );
    Ok(())
}

/// The leader is stopped right after its power-off has begun, another one takes over, and the first is
/// resumed meanwhile.
pub async fn stopped_leader(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let old = "last";
    leads(stage, old).await?;
    start(stage, "standby", CALM).await?;
    let (first, term) = stage.leader().await?;
    ensure!(first.starts_with(old), "{first} leads");
    // This pod leaves the power-on to the next leader.
    stage.bind_pod("r-1", true).await?;
    ensure!(stage.host("r-1")?.hang(), "up");
    at_step(stage, recorder, &[("r-1", "PoweringOff")]).await?;
    stage.signal_controller(old, Signal::SIGSTOP)?;
    let second = wait_until("another leads", LONG, || async {
        let (holder, now) = stage.leader().await?;
        Ok(if now > term {
            Ok(holder)
        } else {
            Err(format!("{holder} in term {now}"))
        })
    })
    .await?;
    ensure!(second.starts_with("standby"), "{second} leads");
    at_step(stage, recorder, &[("r-1", "Draining")]).await?;
    let resumed = jiff::Timestamp::now();
    stage.signal_controller(old, Signal::SIGCONT)?;
    // The former leader ends with an error, so that a new process takes part in the next election.
    let ended = wait_until("the deposed leader ends", LONG, || async {
        Ok(stage.controller_ended(old).ok_or("it runs".to_owned()))
    })
    .await?;
    ensure!(!ended.success(), "ended with {ended}");
    ensure!(
        stage.log_of(old)?.contains("leadership lost"),
        "reports the cause"
    );
    stage.let_pod_go("r-1").await?;
    finished(stage, recorder, "r-1").await?;
    let told = stage.events("r-1").await?;
    let later = |who: &str| {
        let by = told.iter().filter(|event| {
            event.reporting_instance.as_deref() == Some(who)
                && event
                    .event_time
                    .as_ref()
                    .is_some_and(|time| time.0 > resumed)
        });
        by.filter_map(|event| event.reason.clone())
            .collect::<Vec<_>>()
    };
    ensure!(
        later(&first).is_empty(),
        "the deposed leader sent Events: {:?}",
        later(&first)
    );
    ensure!(!later(&second).is_empty(), "the leader sends Events");
    let counters = stage.host("r-1")?.counters();
    ensure!(counters.received(ResetType::ForceOff) == 1, "{counters:?}");
    ensure!(counters.received(ResetType::On) == 1, "{counters:?}");
    let (holder, now) = stage.leader().await?;
    ensure!(holder == second, "{holder} leads in term {now}");
    Ok(())
}
