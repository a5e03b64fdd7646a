//! Racks that go dark, on a real API server: their remediations are held, one Event names the cause, and a
//! person's approval, the recovery of most hosts, or the time-out ends the hold.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::ResetType,
    stage::{
        HostLink, LONG, NAMESPACE, RackSpec, Recorder, Scenarios, Stage, StageConfig, is_ready,
        wait_until,
    },
};
use serde_json::{Value, json};

use super::world::World;

const CONTROLLER: &str = "controller-0";

/// How long the power policy of the second rack holds.
const HOLD: Duration = Duration::from_secs(30);

/// Hosts of a rack, whose BMCs report one switch.
const NET: [&str; 4] = ["net-1", "net-2", "net-3", "net-4"];

const SWITCH: &str = "tor-net.example";

const POLICIES: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: until-a-person
spec:
  selector:
    racks: [net]
  sharedCauses: { settlingSeconds: 3, recoverySeconds: 2, onTimeout: Stop }
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: for-a-time
spec:
  selector:
    racks: [pow]
  sharedCauses: { settlingSeconds: 3, holdSeconds: 30 }
";

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_fail_for_one_cause_are_held_and_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let rack = |name: &str, hosts| RackSpec::new(name, hosts, HostLink::Inventory);
    let racks = [("net", 4), ("pow", 4), ("rest", 6)];
    let racks = racks.map(|(name, hosts)| rack(name, hosts).in_pool("by-hand"));
    let config = StageConfig::steady(
        racks.to_vec(),
        &["--power-timeout=60s", "--bmc-check-interval=2s"],
    );
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let mut all = Scenarios::new();
    all.add("network_of_a_rack", network_of_a_rack(&world));
    all.add("power_of_a_rack", power_of_a_rack(&world));
    if let Err(error) = all.run().await {
        let objects = world.shown().await;
        panic!("{error:#}\n{objects}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    for host in NET {
        stage.host(host)?.with_settings(|_, settings| {
            settings.topology.switches = vec![SWITCH.to_owned()];
        });
    }
    apply_yaml(&stage.client, POLICIES).await?;
    stage.apply_rack_agents().await?;
    stage.start_controller(CONTROLLER).await?;
    wait_until("the switches are discovered", LONG, || async {
        let (_, metrics) = stage.admin(CONTROLLER, "/metrics").await?;
        let is_known = metrics.contains("rackhand_topology_discovered_hosts 4");
        Ok(if is_known { Ok(()) } else { Err(metrics) })
    })
    .await
}

/// The hosts of a rack hang at once while their BMCs report on. A person approves two of them; then so few
/// are left that the others are remediated each for itself.
async fn network_of_a_rack(w: &World) -> Result<()> {
    let hosts = NET;
    for host in hosts {
        ensure!(w.stage.host(host)?.hang(), "{host} was not up");
    }
    for host in hosts {
        wait_not_ready(w, host).await?;
    }
    for host in hosts {
        w.strategy(host, json!({})).await?;
    }
    for host in hosts {
        let arithmetic = held("4 of 4 hosts of rack net failed");
        w.wait(host, "held", arithmetic).await?;
        let switch = held("the same hosts share switch tor-net.example");
        w.wait(host, "the switch of the BMCs is named", switch)
            .await?;
        w.wait(
            host,
            "judged",
            held("report power on: the network is likelier"),
        )
        .await?;
        w.stage.untouched(host)?;
        let events = w.stage.events(host).await?;
        let of_hold = |e: &Event| e.reason.as_deref() == Some("HeldBySharedCause");
        ensure!(!events.iter().any(of_hold), "an Event for each host");
    }
    let told = wait_told(w, "until-a-person", "SharedCause", "rack net").await?;
    ensure!(told.contains("until a person approves"), "{told}");
    let args = ["net-1", "-n", NAMESPACE];
    let explained = w.stage.explain_remediation(&args).await?;
    ensure!(
        explained.contains("4 of 4 hosts of rack net"),
        "{explained}"
    );
    let series =
        r#"rackhand_shared_cause_failed_hosts{domain="Rack",name="net",likely="Network"} 4"#;
    wait_until("the cause is measured", LONG, || async {
        let (_, metrics) = w.stage.admin(CONTROLLER, "/metrics").await?;
        let is_measured = metrics.contains(series);
        Ok(if is_measured { Ok(()) } else { Err(metrics) })
    })
    .await?;
    for host in ["net-1", "net-2"] {
        w.stage.untouched(host)?;
        let approve = ["approve", host, "--namespace", NAMESPACE];
        w.stage.controller_command(&approve, "").await?;
        w.wait_step(host, "Succeeded").await?;
        w.stage.one_cycle(host)?;
    }
    for host in ["net-3", "net-4"] {
        w.wait_step(host, "Succeeded").await?;
        w.stage.one_cycle(host)?;
        let (on, off) = (
            w.stage.commanded("net-2", ResetType::On)?,
            w.stage.commanded(host, ResetType::ForceOff)?,
        );
        ensure!(off > on, "{host} was not held until most hosts were back");
    }
    wait_told(w, "until-a-person", "SharedCauseEnded", "rack net").await?;
    for host in hosts {
        let held = "held by PowerPolicy until-a-person until a person or recovery";
        let likely = "the network is likelier than 4 failed hosts";
        wait_recorded(w, host, &["4 of 4 hosts of rack net", likely, held]).await?;
    }
    Ok(())
}

/// A rack without power: its BMCs do not answer. The power comes back, and the hosts are remediated when
/// the time is over, because none of them boots by itself.
async fn power_of_a_rack(w: &World) -> Result<()> {
    let hosts = ["pow-1", "pow-2", "pow-3", "pow-4"];
    for host in hosts {
        let sim = w.stage.host(host)?;
        ensure!(sim.hang(), "{host} was not up");
        sim.bmc_dead().await?;
    }
    let begun = Instant::now();
    for host in hosts {
        wait_not_ready(w, host).await?;
    }
    for host in hosts {
        w.strategy(host, json!({})).await?;
    }
    for host in hosts {
        // The hold ends by itself, so what was recorded counts.
        let judged = held("do not answer: a loss of power is likelier");
        w.recorder
            .wait_version("PowerRemediation", host, "judged", judged)
            .await?;
    }
    wait_told(w, "for-a-time", "SharedCause", "rack pow").await?;
    for host in hosts {
        w.stage.host(host)?.bmc_alive().await?;
    }
    for host in hosts {
        w.wait_step(host, "Succeeded").await?;
        w.stage.one_cycle(host)?;
        let off = w.stage.commanded(host, ResetType::ForceOff)?;
        let held = off.duration_since(begun);
        ensure!(held >= HOLD, "{host} was held for {held:?}");
        let held = "held by PowerPolicy for-a-time until 2";
        wait_recorded(w, host, &["hosts of rack pow", held]).await?;
    }
    Ok(())
}

/// A health check would not request a remediation earlier.
async fn wait_not_ready(w: &World, host: &str) -> Result<()> {
    wait_until(&format!("{host}: not Ready"), LONG, || async {
        let node = w.stage.node(host).await?;
        Ok(if is_ready(&node) {
            Err("Ready".to_owned())
        } else {
            Ok(())
        })
    })
    .await
}

fn held(part: &str) -> impl Fn(&Value) -> bool + '_ {
    move |object| {
        let status = &object["status"];
        let message = status["message"].as_str().unwrap_or_default();
        status["reason"] == "HeldBySharedCause" && message.contains(part)
    }
}

/// Waits until the history of a host shows the shared cause of its remediation.
async fn wait_recorded(w: &World, host: &str, parts: &[&str]) -> Result<()> {
    wait_until(
        &format!("{host}: shared cause in its history"),
        LONG,
        || async {
            let shown = w.stage.controller_command(&["history", host], "").await;
            let shown = shown.unwrap_or_else(|error| format!("{error:#}"));
            let is_shown = parts.iter().all(|part| shown.contains(part));
            Ok(if is_shown { Ok(()) } else { Err(shown) })
        },
    )
    .await
}

/// Waits for the Event of a policy about a cause, of which there is one; returns its note.
async fn wait_told(w: &World, policy: &str, reason: &str, cause: &str) -> Result<String> {
    let events: Api<Event> = Api::namespaced(w.stage.client.clone(), "default");
    wait_until(&format!("{policy}: one Event {reason}"), LONG, || async {
        let list = events.list(&ListParams::default()).await?;
        let of_policy = list.iter().filter(|event| {
            let about = event.regarding.as_ref().and_then(|r| r.name.as_deref());
            about == Some(policy) && event.reason.as_deref() == Some(reason)
        });
        let notes: Vec<&str> = of_policy.filter_map(|e| e.note.as_deref()).collect();
        let about: Vec<&&str> = notes.iter().filter(|note| note.contains(cause)).collect();
        Ok(match about.as_slice() {
            [note] => Ok((**note).to_owned()),
            _ => Err(format!("{notes:?}")),
        })
    })
    .await
}
