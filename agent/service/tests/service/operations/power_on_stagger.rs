//! Power-on of many hosts: staggered on each PDU. Power-off never waits.

use std::time::{Duration, Instant};

use crate::kit::*;
use futures::future::join_all;
use rackhand_agent_service::Agent;
use rackhand_bmc::PowerState;
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, await_response::Event},
};

const HOSTS: usize = 4;

fn site(interval: &str) -> Site {
    let mut site = Site::new(HOSTS);
    site.extra = format!(
        "defaults.call_timeout = '2s'\ndefaults.shutdown_grace = '0s'\n\
         pdus.p1.power_on_interval = '{interval}'"
    );
    site.of_host = "pdu = 'p1'\n".into();
    site
}

fn all_off(site: &Site) {
    (1..=HOSTS).for_each(|n| site.bmcs.of(n).set(PowerState::Off));
}

/// Time at which each BMC receives its power-on, from now.
async fn commanded(site: &Site) -> Vec<Duration> {
    let begun = Instant::now();
    let mut times = join_all((1..=HOSTS).map(|n| async move {
        site.bmcs.of(n).commanded_times(1).await;
        begun.elapsed()
    }))
    .await;
    times.sort();
    times
}

async fn stop(agent: Agent) {
    agent.shutdown().await;
}

#[tokio::test]
async fn hosts_of_one_pdu_are_switched_on_at_the_interval() {
    let site = site("700ms");
    let agent = site.start().await;
    let mut client = site.local().await;
    all_off(&site);
    for n in 1..=HOSTS {
        // Power-ons of remediations are staggered with the others, and the wait does not count
        // against their deadline.
        let deadline = Some(duration_to_proto(Duration::from_millis(1500)));
        let request = v1::BeginRequest {
            deadline,
            ..on(&format!("op-{n}"), &format!("node-{n}"))
        };
        begin(&mut client, request).await.unwrap();
    }
    let times = commanded(&site).await;
    for pair in times.windows(2) {
        // A reading precedes the command.
        let apart = pair[1] - pair[0];
        assert!(apart > Duration::from_millis(500), "{times:?}");
    }
    let mut told = Vec::new();
    for n in 1..=HOSTS {
        let (events, outcome) = follow(&mut client, &format!("op-{n}")).await;
        assert_eq!(outcome.code(), OutcomeCode::Confirmed, "{outcome:?}");
        told.extend(events.into_iter().filter_map(|event| match event {
            Event::Waiting(waiting) => Some((waiting.reason, waiting.until)),
            _ => None,
        }));
    }
    assert!(told.len() >= HOSTS - 1, "{told:?}");
    for (reason, until) in told {
        assert!(
            reason.starts_with("waits for the turn of its PDU p1, "),
            "{reason}"
        );
        assert!(until.is_some());
    }
    stop(agent).await;
}

#[tokio::test]
async fn power_off_ignores_the_pdu_interval_and_replaces_a_waiting_on() {
    let site = site("60s");
    let agent = site.start().await;
    let mut client = site.local().await;
    all_off(&site);
    begin(&mut client, on("first", "node-1")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "first").await.code(),
        OutcomeCode::Confirmed
    );
    begin(&mut client, on("waits", "node-2")).await.unwrap();
    site.bmcs.of(2).read_times(1).await;
    let begun = Instant::now();
    begin(&mut client, off("off", "node-2")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "off").await.code(),
        OutcomeCode::Confirmed
    );
    let waited = outcome(&mut client, "waits").await;
    assert_eq!(waited.code(), OutcomeCode::Cancelled, "{waited:?}");
    assert!(
        waited.message.contains("replaced by operation off"),
        "{waited:?}"
    );
    begin(&mut client, off("other", "node-1")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "other").await.code(),
        OutcomeCode::Confirmed
    );
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        site.bmcs.of(2).commands(),
        (1, 0),
        "commanded off although it read off (F1), and never on"
    );
    stop(agent).await;
}

#[tokio::test]
async fn changed_interval_applies_at_once_and_skips_running_hosts() {
    let site = site("60s");
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, on("is-on", "node-3")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "is-on").await.code(),
        OutcomeCode::Confirmed
    );
    all_off(&site);
    for n in 1..=2 {
        begin(&mut client, on(&format!("op-{n}"), &format!("node-{n}")))
            .await
            .unwrap();
        site.bmcs.of(n).read_times(1).await;
    }
    outcome(&mut client, "op-1").await;
    let path = site.dir.path().join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("'60s'", "'10ms'")).unwrap();
    agent.reload().await.unwrap();
    let second = outcome(&mut client, "op-2").await;
    assert_eq!(second.code(), OutcomeCode::Confirmed, "{second:?}");
    stop(agent).await;
}
