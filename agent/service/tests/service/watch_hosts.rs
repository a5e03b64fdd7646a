//! Hosts that a caller watches: what their streams report, and what watching costs the BMCs.

use std::{sync::atomic::Ordering, time::Duration};

use crate::kit::*;
use rackhand_bmc::{
    EventMeaning, FaultKind, LogEntry, PowerState, Severity, StopKind, SystemIdentity,
};
use rackhand_proto::v1::{self, OffProof, OutcomeCode};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

/// Longest wait for a message: the second reading of a request comes after 2 s.
const WAIT: Duration = Duration::from_secs(15);

/// A stream of a test.
pub(crate) struct Watcher {
    requests: mpsc::Sender<v1::WatchHostsRequest>,
    answers: tonic::Streaming<v1::WatchHostsResponse>,
    requested: u64,
}

impl Watcher {
    pub(crate) async fn new(client: &mut Client) -> Self {
        let (requests, sent) = mpsc::channel(8);
        let answers = client.watch_hosts(ReceiverStream::new(sent)).await.unwrap();
        Self {
            requests,
            answers: answers.into_inner(),
            requested: 0,
        }
    }

    /// Watches `node-1` as `id`.
    pub(crate) async fn of(client: &mut Client, id: &str) -> Self {
        let watcher = Self::new(client).await;
        watcher.add(id, target("node-1").unwrap()).await;
        watcher
    }

    async fn send(&self, request: v1::WatchHostsRequest) {
        self.requests.send(request).await.unwrap();
    }

    pub(crate) async fn add(&self, id: &str, target: v1::Target) {
        let add = vec![v1::WatchedTarget {
            id: id.into(),
            target: Some(target),
            ..v1::WatchedTarget::default()
        }];
        self.send(v1::WatchHostsRequest {
            add,
            ..v1::WatchHostsRequest::default()
        })
        .await;
    }

    async fn message(&mut self) -> Result<v1::WatchHostsResponse, tonic::Status> {
        let message = timeout(WAIT, self.answers.message()).await.unwrap();
        message.map(|message| message.expect("the stream has ended"))
    }

    /// The next state of the host that `is_it` accepts.
    pub(crate) async fn until(
        &mut self,
        is_it: impl Fn(&v1::WatchedHost) -> bool,
    ) -> v1::WatchedHost {
        loop {
            let hosts = self.message().await.unwrap().hosts;
            if let Some(host) = hosts.into_iter().find(&is_it) {
                return host;
            }
        }
    }

    /// Has the host read at once, and returns its state after both readings.
    pub(crate) async fn read(&mut self, id: &str, stops: bool, health: bool) -> v1::WatchedHost {
        self.requested += 1;
        let number = self.requested;
        let read = vec![v1::ReadRequest {
            id: id.into(),
            number,
            stops,
            health,
        }];
        self.send(v1::WatchHostsRequest {
            read,
            ..v1::WatchHostsRequest::default()
        })
        .await;
        self.until(|host| host.id == id && host.answered == number)
            .await
    }
}

fn power(host: &v1::WatchedHost) -> v1::WatchedPower {
    host.power.clone().unwrap_or_else(|| panic!("{host:?}"))
}

fn entry(id: &str, meaning: EventMeaning) -> LogEntry {
    LogEntry {
        id: id.into(),
        at: None,
        severity: Severity::Critical,
        message: format!("{meaning:?}"),
        sensor: None,
        meaning,
    }
}

#[tokio::test]
async fn lost_power_is_on_and_then_off_twice_in_one_observation() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    let on = power(&watcher.read("a", false, false).await);
    assert_eq!(on.state(), v1::PowerState::On);
    assert!(on.readings >= 2, "{on:?}");
    site.bmcs.of(1).set(PowerState::Off);
    let host = watcher.read("a", false, false).await;
    let off = power(&host);
    assert_eq!(
        (off.state(), off.previous()),
        (v1::PowerState::Off, v1::PowerState::On)
    );
    assert_eq!(off.observation, on.observation);
    assert!(off.readings >= 2 && off.last_on_age.is_some(), "{off:?}");
    assert_eq!(host.last_switch, None);
    assert!(
        !host.operation_running && host.held_by.is_empty(),
        "{host:?}"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn failed_reading_begins_another_observation() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    let on = power(&watcher.read("a", false, false).await);
    *site.bmcs.of(1).unreadable.lock().unwrap() = true;
    read_power(&site).await;
    *site.bmcs.of(1).unreadable.lock().unwrap() = false;
    site.bmcs.of(1).set(PowerState::Off);
    let off = power(&watcher.read("a", false, false).await);
    assert!(off.observation > on.observation, "{off:?}");
    assert_eq!(
        (off.previous(), off.last_on_age),
        (v1::PowerState::Unspecified, None)
    );
    agent.shutdown().await;
}

/// Reads the power of the host for somebody else.
#[tokio::test]
async fn f5_off_of_a_board_with_the_same_uuid_is_no_loss_of_power() {
    let site = Site::new(1);
    let bmc = site.bmcs.of(1);
    let is = |serial: &str| {
        *bmc.identity.lock().unwrap() = SystemIdentity {
            system_uuid: Some("4c4c4544-0042-3510-8054-c2c04f4e4e32".to_owned()),
            serial: Some(serial.to_owned()),
            ..SystemIdentity::default()
        };
    };
    is("SN-1");
    let agent = site.start().await;
    let mut client = site.local().await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    let on = power(&watcher.read("a", false, false).await);
    assert_eq!(on.state(), v1::PowerState::On);
    is("SN-2");
    bmc.set(PowerState::Off);
    let off = power(&watcher.read("a", false, false).await);
    assert_eq!(off.state(), v1::PowerState::Off);
    assert_eq!(
        (off.previous(), off.last_on_age),
        (v1::PowerState::Unspecified, None),
        "{off:?}"
    );
    agent.shutdown().await;
}

async fn read_power(site: &Site) {
    let request = v1::ReadPowerRequest {
        target: target("node-1"),
        ..v1::ReadPowerRequest::default()
    };
    site.local().await.read_power(request).await.unwrap();
}

#[tokio::test]
async fn failed_readings_are_reported_and_the_bmc_is_read_less_often() {
    let site = Site::new(1);
    let agent = site.start().await;
    *site.bmcs.of(1).unreadable.lock().unwrap() = true;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    watcher.requested += 1;
    let read = vec![v1::ReadRequest {
        id: "a".into(),
        number: 1,
        ..v1::ReadRequest::default()
    }];
    let request = v1::WatchHostsRequest {
        read,
        ..v1::WatchHostsRequest::default()
    };
    watcher.send(request).await;
    let host = watcher.until(|host| host.failure.is_some()).await;
    assert_eq!(host.failure.unwrap().kind(), v1::FailureKind::Unreachable);
    assert_eq!((host.power, host.refused), (None, false));
    assert!(host.backoff.is_some());
    agent.shutdown().await;
}

#[tokio::test]
async fn power_off_of_an_operator_is_reported_with_its_switch_and_hold() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    watcher.read("a", false, false).await;
    let mut operator = site.local().await;
    let mut request = off("op-1", "node-1");
    if let Some(v1::begin_request::Action::PowerOff(off)) = &mut request.action {
        off.hold = true;
    }
    begin(&mut operator, request).await.unwrap();
    outcome(&mut operator, "op-1").await;
    let host = watcher.read("a", false, false).await;
    assert_eq!(power(&host).state(), v1::PowerState::Off);
    assert_eq!(host.last_switch.unwrap().command, "power off");
    assert!(host.held_by.contains("local:"), "{}", host.held_by);
    assert_eq!(
        site.bmcs.of(1).most_at_once.load(Ordering::SeqCst),
        1,
        "two calls at once"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn f1_watching_a_host_proves_that_it_lost_its_power() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    *bmc.uptime.lock().unwrap() = None;
    *bmc.refuses_as_off.lock().unwrap() = true;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    watcher.read("a", false, false).await;
    bmc.set(PowerState::Off);
    watcher.read("a", false, false).await;
    let mut operator = site.local().await;
    begin(&mut operator, off("op-1", "node-1")).await.unwrap();
    let off = outcome(&mut operator, "op-1").await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert_eq!(off.off_proof(), OffProof::Watched);
    agent.shutdown().await;
}

#[tokio::test]
async fn event_log_is_read_on_request_while_the_host_is_on() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    *bmc.events.lock().unwrap() = vec![
        entry("1", EventMeaning::Stop(StopKind::Watchdog)),
        entry("2", EventMeaning::Start),
        entry("3", EventMeaning::Stop(StopKind::OperatingSystem)),
        entry("4", EventMeaning::Fault(FaultKind::UncorrectableMemory)),
    ];
    *bmc.health.lock().unwrap() = Some(Severity::Critical);
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    let host = watcher.read("a", false, false).await;
    assert_eq!(
        (host.stops, host.health),
        (None, None),
        "nobody requested them"
    );
    let host = watcher.read("a", true, true).await;
    let stops = host.stops.unwrap();
    assert_eq!(stops.kind(), v1::StopKind::OperatingSystem);
    assert_eq!(
        (stops.entry.unwrap().id, stops.start.unwrap().id),
        ("3".into(), "2".into())
    );
    let health = host.health.unwrap();
    assert_eq!(health.rollup(), v1::Severity::Critical);
    let kinds: Vec<_> = health.faults.iter().map(v1::HardwareFault::kind).collect();
    assert_eq!(
        kinds,
        [
            v1::FaultKind::CriticalHealth,
            v1::FaultKind::UncorrectableMemory
        ]
    );
    assert_eq!(health.failure, None);
    agent.shutdown().await;
}

#[tokio::test]
async fn caller_that_requests_a_reading_each_second_is_answered() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    let mut answered = 0;
    for number in 1..=10 {
        let read = vec![v1::ReadRequest {
            id: "a".into(),
            number,
            ..v1::ReadRequest::default()
        }];
        let request = v1::WatchHostsRequest {
            read,
            ..v1::WatchHostsRequest::default()
        };
        watcher.send(request).await;
        let answer = watcher.until(|host| host.answered > 0);
        if let Ok(host) = tokio::time::timeout(Duration::from_secs(1), answer).await {
            answered = host.answered;
            break;
        }
    }
    assert!(answered > 0, "ten requests, and no answer");
    agent.shutdown().await;
}

#[tokio::test]
async fn bmc_of_another_system_is_a_failure() {
    let site = Site::new(1);
    let agent = site.start().await;
    site.bmcs.of(1).identity.lock().unwrap().serial = Some("OTHER".into());
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::new(&mut client).await;
    let add = vec![v1::WatchedTarget {
        id: "a".into(),
        target: target("node-1"),
        expect: Some(v1::SystemIdentity {
            serial: "MINE".into(),
            ..v1::SystemIdentity::default()
        }),
        ..v1::WatchedTarget::default()
    }];
    let request = v1::WatchHostsRequest {
        add,
        ..v1::WatchHostsRequest::default()
    };
    watcher.send(request).await;
    let host = watcher.read("a", false, false).await;
    assert_eq!(host.power, None);
    assert_eq!(host.failure.unwrap().kind(), v1::FailureKind::Identity);
    agent.shutdown().await;
}

#[tokio::test]
async fn hosts_that_are_unknown_here_are_refused_and_the_others_are_watched() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "known").await;
    let sent = v1::Target {
        host: "bmh".into(),
        endpoint: Some(v1::BmcEndpoint {
            address: "redfish://10.0.0.7/redfish/v1/Systems/1".into(),
            ..v1::BmcEndpoint::default()
        }),
    };
    for (id, target) in [("unknown", target("node-9").unwrap()), ("sent", sent)] {
        watcher.add(id, target).await;
        let host = watcher.until(|host| host.id == id && host.refused).await;
        assert_eq!(host.failure.unwrap().kind(), v1::FailureKind::Configuration);
    }
    let host = watcher.read("known", false, false).await;
    assert!(host.power.is_some() && !host.refused);
    agent.shutdown().await;
}

#[tokio::test]
async fn heartbeat_has_every_host_in_bounded_parts() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::new(&mut client).await;
    let first = watcher.message().await.unwrap();
    assert!(first.heartbeat == 1 && first.heartbeat_complete && !first.instance.is_empty());
    let add = (0..501).map(|n| v1::WatchedTarget {
        id: n.to_string(),
        target: target("node-1"),
        ..v1::WatchedTarget::default()
    });
    let request = v1::WatchHostsRequest {
        add: add.clone().take(500).collect(),
        ..v1::WatchHostsRequest::default()
    };
    watcher.send(request).await;
    let mut seen = 0;
    while seen < 500 {
        let hosts = watcher.message().await.unwrap().hosts;
        assert!(hosts.len() <= 250, "{}", hosts.len());
        seen += hosts.len();
    }
    let request = v1::WatchHostsRequest {
        add: add.collect(),
        ..v1::WatchHostsRequest::default()
    };
    watcher.send(request).await;
    let status = loop {
        if let Err(status) = watcher.message().await {
            break status;
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    agent.shutdown().await;
}

#[tokio::test]
async fn nothing_is_read_that_nobody_watches() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    let mut other = Watcher::of(&mut client, "b").await;
    watcher.read("a", false, false).await;
    let both = *site.bmcs.of(1).reads.borrow();
    assert!(
        (2..=3).contains(&both),
        "{both}: one reader serves both streams"
    );
    drop(watcher);
    other.read("b", false, false).await;
    let remove = v1::WatchHostsRequest {
        remove: vec!["b".into()],
        ..v1::WatchHostsRequest::default()
    };
    other.send(remove).await;
    // The agent has taken it when it answers a later request.
    other.add("c", target("node-9").unwrap()).await;
    other.until(|host| host.id == "c" && host.refused).await;
    let before = *site.bmcs.of(1).reads.borrow();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(*site.bmcs.of(1).reads.borrow(), before);
    agent.shutdown().await;
}
