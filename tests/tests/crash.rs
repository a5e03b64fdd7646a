//! Crashes and cuts: wherever controller or agent die, or lose the API server or each other, a
//! remediation is finished by whoever comes next, with one power cycle and no pod twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use nix::sys::signal::Signal;
use rackhand_proto::{
    ClientTls, TlsFiles,
    v1::{ClaimTermRequest, Term, power_client::PowerClient},
};
use rackhand_tests::{
    pki::CertSpec,
    process::Process,
    rack::ResetType,
    stage::{
        HostLink, LONG, Line, RackSpec, SYSTEM, Stage, StageConfig, Witness, binaries, wait_until,
    },
};

/// Where something happens, each on a host of its own.
const STEPS: [&str; 8] = [
    "Holding",
    "PoweringOff",
    "ConfirmingOff",
    "Tainting",
    "Draining",
    "PoweringOn",
    "Booting",
    "Restoring",
];
/// What happens to the controller there, and the racks of those hosts.
const TROUBLES: [(Trouble, &str); 3] = [
    (Trouble::Killed, "k"),
    (Trouble::Cut, "c"),
    (Trouble::Silenced, "s"),
];
/// Where the agent is killed, each with a rack of its own.
const AGENT_STEPS: [&str; 3] = ["PoweringOff", "Draining", "PoweringOn"];
/// The Lease of controllers that are killed: their successors need not wait long.
const BRIEF: &str = "--lease-duration=3s";
/// The Lease of those that must not lose it on a busy machine.
const CALM: &str = "--lease-duration=8s";
/// How long a host may take to a step while controllers come and go.
const PATIENCE: Duration = LONG.saturating_mul(4);
/// Hosts that stay healthy, so that pods have somewhere to go.
const SPARE: usize = 2;

/// What happens to a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// `kill -9`.
    Killed,
    /// Its connections to the API server are reset, and no new one holds.
    Cut,
    /// Its connections to the API server are there, and nothing comes through.
    Silenced,
}

/// The racks whose line to the controller is cut, or silent, at one step each.
fn cut_racks() -> Vec<(String, &'static str, Trouble)> {
    let troubles = [Trouble::Cut, Trouble::Silenced].into_iter().cycle();
    STEPS
        .into_iter()
        .zip(troubles)
        .enumerate()
        .map(|(number, (step, trouble))| (format!("n{number}"), step, trouble))
        .collect()
}

fn racks() -> Vec<RackSpec> {
    let mut racks = vec![
        RackSpec::new("spare", SPARE, HostLink::Inventory),
        RackSpec::new("two", 2, HostLink::Inventory),
    ];
    for (_, rack) in TROUBLES {
        racks.push(RackSpec::new(rack, STEPS.len(), HostLink::Detached));
    }
    for (rack, ..) in cut_racks() {
        racks.push(RackSpec::new(&rack, 1, HostLink::Inventory));
    }
    for number in 1..=AGENT_STEPS.len() {
        racks.push(RackSpec::new(&format!("a{number}"), 1, HostLink::Inventory));
    }
    racks
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_part_dies_the_remediation_is_finished_with_one_cycle() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StageConfig::fast(racks());
    config.controller_args.clear();
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let witness = Witness::start(&stage.client);
    if let Err(error) = all(&stage, &witness).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

/// Its journal is made at the first start; a kill in the middle of that must not cost more than that
/// start.
#[test]
fn an_agent_killed_at_its_first_start_starts_again() {
    let agent = binaries().unwrap().join("rackhand-agent");
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let dir = dir.path().join(round.to_string());
        let journal = dir.join("state").join("journal.redb");
        std::fs::create_dir_all(&dir).unwrap();
        let config = serde_json::json!({
            "rack": "a",
            "socket": dir.join("agent.sock"),
            "state": dir.join("state"),
            "allowed_bmc_networks": ["127.0.0.0/8"],
        });
        std::fs::write(dir.join("agent.yaml"), config.to_string()).unwrap();
        let config = dir.join("agent.yaml").display().to_string();
        let command = [
            agent.display().to_string(),
            "serve".into(),
            "--config".into(),
            config,
        ];
        let begun = Instant::now();
        let mut first = Process::start("agent", &command, &[], &dir).unwrap();
        while !std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0) {
            assert!(begun.elapsed() < LONG, "no journal: {}", first.log_tail());
        }
        first.kill().unwrap();
        std::fs::remove_file(dir.join("agent.sock")).ok();
        let mut second = Process::start("agent", &command, &[], &dir).unwrap();
        while !dir.join("agent.sock").exists() {
            let ended = second.ended();
            assert!(
                ended.is_none() && begun.elapsed() < LONG,
                "round {round}: {ended:?}: {}",
                second.log_tail()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

async fn all(stage: &Stage, witness: &Witness) -> Result<()> {
    stage.apply_rack_agents().await?;
    let mut lines = Vec::new();
    for (rack, ..) in cut_racks() {
        let line = Line::to(&stage.agent_endpoint(&rack)?).await?;
        stage.apply_rack_agent(&rack, line.address()).await?;
        lines.push(line);
    }
    let line = stage.lead_over_a_line().await?;
    start(stage, "controller-0", BRIEF).await?;
    let hosts: usize = stage
        .config()
        .racks
        .iter()
        .map(|rack| rack.hosts.len())
        .sum();
    let pods = u32::try_from(hosts)?;
    stage.apply_workload(pods).await?;
    workload_runs(stage, hosts).await?;
    stage.apply_health_check().await?;

    let begun = Instant::now();
    let told = |what: &str| println!("    {what} ... ok ({:.1?})", begun.elapsed());
    controller_in_trouble_at_every_step(stage, witness, &line).await?;
    told("f7_a_controller_killed_at_any_step_is_replaced");
    told("f7_a_controller_without_the_api_ends_itself_at_any_step_and_is_replaced");
    // Only now: who has ended cannot report that it misses an agent.
    let agents_in_trouble = async {
        tokio::try_join!(
            agent_killed(stage, witness),
            agent_cut_off(stage, witness, &lines)
        )
    };
    tokio::select! {
        done = agents_in_trouble => drop(done?),
        ended = stage.supervise("last") => return ended,
    }
    told("f7_an_agent_killed_in_the_middle_goes_on_after_its_restart");
    told("f7_an_agent_out_of_reach_at_any_step_is_found_again");
    tokio::select! {
        done = higher_term(stage, witness) => done?,
        ended = stage.supervise("last") => return ended,
    }
    told("f7_a_higher_term_at_an_agent_is_outbid");
    stopped_leader(stage, witness).await?;
    told("f7_a_leader_that_was_stopped_commands_nothing_when_it_goes_on");
    workload_runs(stage, hosts).await?;
    told("every_pod_runs_again_and_none_ran_twice");
    Ok(())
}

async fn start(stage: &Stage, name: &str, lease: &str) -> Result<()> {
    stage
        .start_controller_as(name, vec![lease.to_owned()])
        .await
}

async fn workload_runs(stage: &Stage, replicas: usize) -> Result<()> {
    wait_until("the workload runs", LONG, || async {
        let pods = stage.pods().await?;
        let runs = |pod: &&Pod| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running")
        };
        let running = pods.iter().filter(runs).count();
        Ok(if running >= replicas {
            Ok(())
        } else {
            Err(format!("{running} of {replicas} run"))
        })
    })
    .await?;
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

/// One cycle, one command that took effect each way, tainted only while off, nothing left.
async fn finished(stage: &Stage, witness: &Witness, host: &str) -> Result<()> {
    wait_until(&format!("{host} has lost its taint"), PATIENCE, || async {
        let seen = stage.remediation(host).await?;
        let seen = seen.map(|s| (s.step, s.reason, s.message));
        let taints = witness.taints(host);
        Ok(if taints.len() == 2 {
            Ok(())
        } else {
            Err(format!("{taints:?} {seen:?}"))
        })
    })
    .await?;
    stage.wait_back(host).await?;
    stage.one_cycle(host)?;
    stage.tainted_only_while_off(witness, host).await?;
    let taints = witness.taints(host);
    ensure!(taints.len() == 2, "{host}: one taint: {taints:?}");
    let requests: Vec<_> = witness
        .of("Metal3Remediation", host)
        .iter()
        .map(|record| record.uid().to_owned())
        .collect();
    ensure!(
        requests.windows(2).all(|pair| pair[0] == pair[1]),
        "{host}: one request: {requests:?}"
    );
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

async fn all_finished(stage: &Stage, witness: &Witness, hosts: &[String]) -> Result<()> {
    try_join_all(hosts.iter().map(|host| finished(stage, witness, host)))
        .await
        .map(drop)
}

/// Waits for the first sight of a step of one of these hosts' remediations. A step may be over at
/// once, so the witness, which misses none, is asked and not the API.
async fn at_step<'a>(
    stage: &Stage,
    witness: &Witness,
    wanted: &[(&'a str, &'a str)],
) -> Result<(&'a str, &'a str)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for (host, step) in wanted {
            let steps = witness.steps(host);
            if steps.iter().any(|(_, seen)| seen == step) {
                return Ok((host, step));
            }
        }
        if Instant::now() > deadline {
            let (host, _) = wanted[0];
            let seen = stage.remediation(host).await?;
            anyhow::bail!("never seen: {wanted:?}; {host}: {seen:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// All hosts hang at once; whichever comes first to its step, there the controller dies or loses the
/// API server until it has lost its Lease and ended, and the others are somewhere else on their way.
async fn controller_in_trouble_at_every_step(
    stage: &Stage,
    witness: &Witness,
    line: &Line,
) -> Result<()> {
    let mut number = 0;
    let mut hosts = Vec::new();
    for (trouble, rack) in TROUBLES {
        let mine: Vec<String> = (1..=STEPS.len()).map(|i| format!("{rack}-{i}")).collect();
        let mut left: Vec<(&str, &str)> = mine.iter().map(String::as_str).zip(STEPS).collect();
        for (host, _) in &left {
            ensure!(stage.host(host)?.hang(), "{host} was up");
        }
        while !left.is_empty() {
            let name = format!("controller-{number}");
            let reached = async {
                leads(stage, &name).await?;
                at_step(stage, witness, &left).await
            };
            let seen = tokio::select! {
                seen = reached => seen?,
                ended = stage.supervise(&name) => return ended,
            };
            let begun = Instant::now();
            suffer(stage, line, &name, trouble).await?;
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
            start(stage, &format!("controller-{number}"), BRIEF).await?;
        }
        hosts.extend(mine);
    }
    let name = format!("controller-{number}");
    tokio::select! {
        done = all_finished(stage, witness, &hosts) => done?,
        ended = stage.supervise(&name) => return ended,
    }
    for host in &hosts {
        commanded_once(stage, host)?;
    }
    ensure!(
        stage.stop_controller(&name)?.success(),
        "ends well when asked to"
    );
    start(stage, "last", CALM).await
}

/// Waits for a controller to lead: who has not led does not lose the Lease, and goes on asking for it.
async fn leads(stage: &Stage, name: &str) -> Result<()> {
    wait_until(&format!("{name} leads"), LONG, || async {
        let (holder, _) = stage.leader().await?;
        Ok(if holder.starts_with(name) {
            Ok(())
        } else {
            Err(format!("{holder:?} leads"))
        })
    })
    .await
}

/// What happens to the controller; it has ended afterwards.
async fn suffer(stage: &Stage, line: &Line, name: &str, trouble: Trouble) -> Result<()> {
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
    ensure!(log.contains("leadership lost"), "{name} does not say why");
    Ok(())
}

/// Whatever was begun was not begun again: one command each way.
fn commanded_once(stage: &Stage, host: &str) -> Result<()> {
    let counters = stage.host(host)?.counters();
    let (off, on) = (
        counters.received(ResetType::ForceOff),
        counters.received(ResetType::On),
    );
    ensure!((off, on) == (1, 1), "{host}: {counters:?}");
    Ok(())
}

/// The line between the controller and an agent is cut, or silent, at a step of the agent's only
/// host, until the controller has noticed.
async fn agent_cut_off(stage: &Stage, witness: &Witness, lines: &[Line]) -> Result<()> {
    let one = |rack: String, step: &'static str, trouble: Trouble, line| async move {
        let line: &Line = line;
        let host = format!("{rack}-1");
        ensure!(stage.host(&host)?.hang(), "{host} was up");
        at_step(stage, witness, &[(&host, step)]).await?;
        match trouble {
            Trouble::Silenced => line.silence(),
            _ => line.cut(),
        }
        wait_until(&format!("{rack} is missed"), LONG, || async {
            let connected = connected(stage, &rack).await?;
            Ok(if connected == "False" {
                Ok(())
            } else {
                Err(format!("Connected={connected}"))
            })
        })
        .await?;
        line.mend();
        finished(stage, witness, &host).await?;
        commanded_once(stage, &host)
    };
    let all = cut_racks().into_iter().zip(lines);
    try_join_all(all.map(|((rack, step, trouble), line)| one(rack, step, trouble, line)))
        .await
        .map(drop)
}

/// The status of condition Connected of a RackAgent.
async fn connected(stage: &Stage, rack: &str) -> Result<String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "rackhand.dev",
        "v1alpha1",
        "RackAgent",
    ));
    let agents: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
    let agent = agents.get(rack).await?;
    let status = agent.data["status"]["conditions"][0]["status"].as_str();
    Ok(status.unwrap_or_default().to_owned())
}

async fn agent_killed(stage: &Stage, witness: &Witness) -> Result<()> {
    let one = |number: usize, step: &'static str| async move {
        let (rack, host) = (format!("a{number}"), format!("a{number}-1"));
        // Off and on take long enough to be caught in the middle.
        stage
            .host(&host)?
            .set_timings(rackhand_tests::rack::PowerTimings {
                off_takes: Duration::from_secs(2),
                on_takes: Duration::from_secs(2),
                ..stage.config().timings
            });
        ensure!(stage.host(&host)?.hang(), "{host} was up");
        at_step(stage, witness, &[(&host, step)]).await?;
        let command = match step {
            "PoweringOff" => Some(ResetType::ForceOff),
            "PoweringOn" => Some(ResetType::On),
            _ => None,
        };
        if let Some(command) = command {
            let sent = |view: &rackhand_tests::rack::HostView| view.counters.received(command) > 0;
            stage.host(&host)?.wait_for(LONG, "commanded", sent).await?;
        }
        stage.kill_agent(&rack)?;
        stage.start_agent(&rack)?;
        finished(stage, witness, &host).await
    };
    let all = AGENT_STEPS.iter().enumerate();
    try_join_all(all.map(|(i, step)| one(i + 1, step)))
        .await
        .map(drop)
}

/// A client with a controller's certificate claims a term far above: as if the Lease had been lost
/// and made anew.
async fn higher_term(stage: &Stage, witness: &Witness) -> Result<()> {
    let tls = stage.issue(&CertSpec::peer("another", "spiffe://rackhand/controller"))?;
    let tls = ClientTls::controller(TlsFiles::in_dir(&tls))?;
    let channel = rackhand_proto::connect(&stage.agent_endpoint("two")?, "two", &tls).await?;
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
        })
        .await?
        .into_inner();
    ensure!(claimed.accepted, "{claimed:?}");
    let (holder, _) = stage.leader().await?;
    ensure!(stage.host("two-1")?.hang(), "up");
    finished(stage, witness, "two-1").await?;
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

/// The leader is stopped right after its power-off has begun, another takes over, and the first goes
/// on in the middle of the other's work.
async fn stopped_leader(stage: &Stage, witness: &Witness) -> Result<()> {
    let old = "last";
    start(stage, "standby", CALM).await?;
    let (first, term) = stage.leader().await?;
    ensure!(first.starts_with(old), "{first} leads");
    ensure!(stage.host("two-2")?.hang(), "up");
    at_step(stage, witness, &[("two-2", "PoweringOff")]).await?;
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
    at_step(stage, witness, &[("two-2", "Draining")]).await?;
    let resumed = jiff::Timestamp::now();
    stage.signal_controller(old, Signal::SIGCONT)?;
    // It notices, and ends with an error: a fresh process takes part in the next election.
    let ended = wait_until("the deposed leader ends", LONG, || async {
        Ok(stage.controller_ended(old).ok_or("it runs".to_owned()))
    })
    .await?;
    ensure!(!ended.success(), "ended with {ended}");
    ensure!(stage.log_of(old)?.contains("leadership lost"), "says why");
    finished(stage, witness, "two-2").await?;
    let told = stage.events("two-2").await?;
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
        "the deposed leader told {:?}",
        later(&first)
    );
    ensure!(!later(&second).is_empty(), "the leader tells of its work");
    let counters = stage.host("two-2")?.counters();
    ensure!(counters.received(ResetType::ForceOff) == 1, "{counters:?}");
    ensure!(counters.received(ResetType::On) == 1, "{counters:?}");
    let (holder, now) = stage.leader().await?;
    ensure!(holder == second, "{holder} leads in term {now}");
    Ok(())
}
