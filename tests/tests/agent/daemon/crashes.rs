//! `kill -9` during each kind of operation.

use std::time::Duration;

use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, begin_request::Action},
};
use rackhand_tests::{
    pki::Pki,
    rack::{PowerTimings, Rack, RackConfig, ResetType},
};
use serde_json::{Value, json};

use super::site::{PATIENCE, Site, target};

const SLOW: Duration = Duration::from_secs(3600);

/// Each kind of operation, the reset type that its BMC receives, and whether its host is on at
/// first.
fn operations() -> [(&'static str, Action, ResetType, bool); 6] {
    [
        (
            "off",
            Action::PowerOff(v1::PowerOff::default()),
            ResetType::ForceOff,
            true,
        ),
        ("on", Action::PowerOn(v1::PowerOn {}), ResetType::On, false),
        (
            "soft-off",
            Action::PowerSoftOff(v1::PowerSoftOff::default()),
            ResetType::GracefulShutdown,
            true,
        ),
        (
            "cycle",
            Action::PowerCycle(v1::PowerCycle::default()),
            ResetType::ForceOff,
            true,
        ),
        (
            "reset",
            Action::PowerReset(v1::PowerReset {}),
            ResetType::ForceRestart,
            true,
        ),
        (
            "nmi",
            Action::PowerNmi(v1::PowerNmi {}),
            ResetType::Nmi,
            true,
        ),
    ]
}

/// A host of the rack, as the inventory has it.
pub(super) fn entry(rack: &Rack, pki: &Pki, name: &str) -> Value {
    let url = rack.host(name).unwrap().system_url().unwrap();
    json!({
        "name": name,
        "bmc": {
            "address": url.replacen("https://", "redfish+https://", 1),
            "username": "admin",
            "password_file": "password",
            "trust": {"ca_file": pki.ca_file()},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_killed_in_flight_are_reported_and_not_repeated() {
    let names: Vec<&str> = operations().iter().map(|(name, ..)| *name).collect();
    let pki_dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(pki_dir.path()).unwrap();
    // No operation ends by itself before the kill.
    let mut config = RackConfig::new("r1", names.clone()).each(|host| {
        host.timings = PowerTimings {
            off_takes: SLOW,
            on_takes: SLOW,
            shutdown_takes: SLOW,
            boot_takes: SLOW,
            cycle_pause: SLOW,
        };
    });
    for (host, (.., is_on)) in config.hosts.iter_mut().zip(operations()) {
        host.starts_on = is_on;
    }
    let rack = Rack::start(config, Some(&pki), None).await.unwrap();
    let hosts = names.iter().map(|name| entry(&rack, &pki, name));
    let hosts: Vec<Value> = hosts.collect();
    let mut site = Site::new(&hosts.into());
    std::fs::write(site.dir.path().join("password"), "secret").unwrap();
    site.start().await;
    let mut client = site.local().await;
    for (name, action, ..) in operations() {
        let request = v1::BeginRequest {
            operation_id: format!("op-{name}"),
            target: target(name),
            action: Some(action),
            deadline: Some(duration_to_proto(Duration::from_secs(600))),
            ..v1::BeginRequest::default()
        };
        client.begin(request).await.unwrap();
    }
    let received = |name: &str, reset| rack.host(name).unwrap().counters().received(reset);
    let all_arrived = async {
        while operations()
            .iter()
            .any(|(name, _, reset, _)| received(name, *reset) == 0)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let arrived = tokio::time::timeout(PATIENCE, all_arrived).await;
    arrived.unwrap_or_else(|_| panic!("{}", site.agent().log_tail()));
    site.kill();
    drop(client);

    // The BMC of each interrupted operation is read again, and only read.
    let listed = operations_after_restart(&mut site, 4).await;
    let mut client = site.local().await;
    // And the power-on that finishes the cycle, which waits until its host is off (F17).
    assert_eq!(listed.len(), operations().len() + 1);
    for (name, _, reset, _) in operations() {
        let found = listed
            .iter()
            .find(|one| one.operation_id == format!("op-{name}"))
            .unwrap();
        let outcome = found.outcome.as_ref().unwrap();
        assert_eq!((found.host.as_str(), found.action.as_str()), (name, name));
        // An NMI is complete when the BMC has accepted it, which may have been reported.
        let is_told = outcome.code() == OutcomeCode::Interrupted
            || (name == "nmi" || name == "reset") && outcome.code() == OutcomeCode::Confirmed;
        assert!(is_told, "{name}: {outcome:?}");
        assert_eq!(found.commands.len(), 1, "{name}: {found:?}");
        assert_eq!(outcome.commands_sent, 1, "{name}: {outcome:?}");
        assert_eq!(received(name, reset), 1, "{name}: sent again");
        let counters = rack.host(name).unwrap().counters();
        assert_eq!(
            counters.commands.values().sum::<u64>(),
            1,
            "{name}: {counters:?}"
        );
    }
    let running = v1::ListOperationsRequest {
        running_only: true,
        ..v1::ListOperationsRequest::default()
    };
    let running = client.list_operations(running).await.unwrap().into_inner();
    let running: Vec<_> = running
        .operations
        .into_iter()
        .map(|one| one.operation_id)
        .collect();
    assert_eq!(running, ["op-cycle/on/1"]);
    assert_eq!(site.metric("rackhand_agent_commands_total").await, 0);
    site.stop();
}

/// Operations with no call in flight at their BMC, and an operation in its second half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_killed_while_waiting_send_nothing() {
    let names = ["first", "staged", "busy", "half"];
    let pki_dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(pki_dir.path()).unwrap();
    let quick = Duration::from_millis(100);
    let mut config = RackConfig::new("r1", names).each(|host| {
        host.timings = PowerTimings {
            off_takes: quick,
            on_takes: quick,
            shutdown_takes: SLOW,
            boot_takes: SLOW,
            cycle_pause: SLOW,
        };
    });
    for host in &mut config.hosts {
        host.starts_on = matches!(host.name.as_str(), "busy" | "half");
        if host.name == "half" {
            host.timings.on_takes = SLOW;
        }
    }
    let rack = Rack::start(config, Some(&pki), None).await.unwrap();
    let hosts = names.iter().map(|name| {
        let mut host = entry(&rack, &pki, name);
        if matches!(*name, "first" | "staged") {
            host["pdu"] = "p".into();
        }
        host
    });
    let mut site = Site::new(&hosts.collect());
    let text = std::fs::read_to_string(site.config()).unwrap();
    let pdu = "\n[pdus.p]\npower_on_interval = \"60s\"\n";
    std::fs::write(site.config(), text + pdu).unwrap();
    std::fs::write(site.dir.path().join("password"), "secret").unwrap();
    site.start().await;
    let mut client = site.local().await;
    let mut begin = async |id: &str, host: &str, action: Action| {
        let request = v1::BeginRequest {
            operation_id: id.to_owned(),
            target: target(host),
            action: Some(action),
            deadline: Some(duration_to_proto(Duration::from_secs(600))),
            ..v1::BeginRequest::default()
        };
        client.begin(request).await.unwrap();
    };
    begin("first", "first", Action::PowerOn(v1::PowerOn {})).await;
    let received = |name: &str, reset| rack.host(name).unwrap().counters().received(reset);
    let all = async {
        // The first operation takes the slot of the PDU.
        while received("first", ResetType::On) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begin("staged", "staged", Action::PowerOn(v1::PowerOn {})).await;
        let soft = Action::PowerSoftOff(v1::PowerSoftOff::default());
        begin("busy", "busy", soft).await;
        let cycle = v1::PowerCycle {
            hold_off: Some(duration_to_proto(quick)),
        };
        begin("half", "half", Action::PowerCycle(cycle)).await;
        while received("busy", ResetType::GracefulShutdown) == 0
            || received("half", ResetType::On) == 0
            || site.metric("rackhand_agent_power_on_waiting").await == 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // It waits behind another operation.
        begin("queued", "busy", Action::PowerReset(v1::PowerReset {})).await;
    };
    let came = tokio::time::timeout(PATIENCE, all).await;
    came.unwrap_or_else(|_| panic!("{}", site.agent().log_tail()));
    site.kill();

    let listed = operations_after_restart(&mut site, 2).await;
    for (id, sent) in [("staged", 0), ("queued", 0), ("busy", 1), ("half", 2)] {
        let found = listed.iter().find(|one| one.operation_id == id).unwrap();
        let outcome = found.outcome.as_ref().unwrap();
        assert_eq!(outcome.code(), OutcomeCode::Interrupted, "{found:?}");
        assert_eq!(outcome.commands_sent, sent, "{found:?}");
        assert_eq!(
            found.commands.len(),
            usize::try_from(sent).unwrap(),
            "{found:?}"
        );
    }
    for (name, commands) in [("staged", 0), ("busy", 1), ("half", 2)] {
        let counters = rack.host(name).unwrap().counters();
        let all: u64 = counters.commands.values().sum();
        assert_eq!(all, commands, "{name}: {counters:?}");
    }
    assert_eq!(site.metric("rackhand_agent_commands_total").await, 0);
    site.stop();
}

/// Starts the agent again, and lists its operations once it has read a BMC this often.
async fn operations_after_restart(site: &mut Site, reads: i64) -> Vec<v1::OperationInfo> {
    site.start().await;
    let read = "rackhand_agent_bmc_calls_total{call=\"read\",result=\"ok\"}";
    let read_again = async {
        while site.metric(read).await < reads {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, read_again).await.unwrap();
    let mut client = site.local().await;
    let listed = client.list_operations(v1::ListOperationsRequest::default());
    listed.await.unwrap().into_inner().operations
}
