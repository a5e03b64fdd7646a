//! Evidence before a power-off: bounded in time, never in the way of an operation, and no way around the
//! rules for commands.

use std::time::{Duration, Instant};

use crate::kit::*;
use rackhand_bmc::{PowerCommand, PowerState};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{
        self, OutcomeCode, begin_request::Action, interrupt_result::Result as Interrupted,
        read_boot_state_result::Result as Boot, read_events_response::Result as Events,
        read_power_response::Result as Power, read_sensors_response::Result as Sensors,
    },
};

fn request(timeout: Duration) -> v1::CollectEvidenceRequest {
    v1::CollectEvidenceRequest {
        target: target("node-1"),
        timeout: Some(duration_to_proto(timeout)),
        log_entries: 20,
        log_only: false,
        interrupt: None,
    }
}

fn nmi(term: u64, sequence: u64) -> v1::BeginRequest {
    v1::BeginRequest {
        action: Some(Action::PowerNmi(v1::PowerNmi {})),
        deadline: Some(duration_to_proto(Duration::from_secs(5))),
        ..by_leader(off("rem-1/1@0/nmi/0.0", "node-1"), term, sequence)
    }
}

#[tokio::test]
async fn every_part_is_read_and_sensors_that_are_ok_are_left_out() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let response = client.collect_evidence(request(Duration::from_secs(5)));
    let read = response.await.unwrap().into_inner();
    let Some(Power::Reading(power)) = read.power.unwrap().result else {
        panic!("no power");
    };
    assert_eq!(power.state(), v1::PowerState::On);
    let Some(Events::Log(log)) = read.log.unwrap().result else {
        panic!("no log");
    };
    assert_eq!(log.total, Some(20), "the fake reports the limit");
    let Some(Boot::State(boot)) = read.boot.unwrap().result else {
        panic!("no boot state");
    };
    assert_eq!(boot.restart_cause, "watchdog");
    let Some(Sensors::Sensors(sensors)) = read.sensors.unwrap().result else {
        panic!("no sensors");
    };
    assert!(sensors.sensors.is_empty(), "its health is not reported");
    assert!(read.interrupt.is_none());
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn a_bmc_that_hangs_in_every_call_takes_no_more_than_the_timeout() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    site.bmcs.of(1).dead.send_replace(true);
    let begun = Instant::now();
    let limit = Duration::from_millis(900);
    let read = client.collect_evidence(request(limit)).await.unwrap();
    let took = begun.elapsed();
    assert!(took < limit + Duration::from_millis(500), "{took:?}");
    let read = read.into_inner();
    let power = read.power.unwrap().result;
    assert!(matches!(power, Some(Power::Failure(_))), "{power:?}");
    // After two parts without an answer no other is tried.
    assert!(read.log.is_some() && read.boot.is_none() && read.sensors.is_none());
    agent.shutdown().await;
}

#[tokio::test]
async fn a_log_that_hangs_costs_neither_the_other_parts_nor_the_power_off() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 1).await;
    site.bmcs.of(1).log_hangs.send_replace(true);
    let read = client.collect_evidence(request(Duration::from_secs(2)));
    let read = read.await.unwrap().into_inner();
    let log = read.log.unwrap().result;
    assert!(matches!(log, Some(Events::Failure(_))), "{log:?}");
    assert!(matches!(read.boot.unwrap().result, Some(Boot::State(_))));
    assert!(read.sensors.is_some());

    // While evidence is read, a power-off does not wait for it.
    let mut second = client.clone();
    let reading = tokio::spawn(async move {
        let read = second.collect_evidence(request(Duration::from_secs(30)));
        read.await.unwrap().into_inner()
    });
    site.bmcs.of(1).read_times(2).await;
    let begun = Instant::now();
    begin(&mut client, by_leader(off("fence", "node-1"), 1, 1))
        .await
        .unwrap();
    let ended = outcome(&mut client, "fence").await;
    assert_eq!(ended.code(), OutcomeCode::Confirmed);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    reading.abort();
    agent.shutdown().await;
}

#[tokio::test]
async fn f7_an_interrupt_needs_the_claimed_term_and_is_sent_once() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let collect = |interrupt| v1::CollectEvidenceRequest {
        interrupt: Some(interrupt),
        ..request(Duration::from_secs(5))
    };
    let result = |response: v1::CollectEvidenceResponse| response.interrupt.unwrap().result;
    let refused = client.collect_evidence(collect(nmi(1, 1))).await.unwrap();
    let refused = refused.into_inner();
    assert!(refused.log.is_some(), "a refusal prevents no reading");
    assert!(matches!(result(refused), Some(Interrupted::Refused(_))));
    claim(&mut client, 1).await;
    for sequence in [1, 2] {
        let sent = client.collect_evidence(collect(nmi(1, sequence)));
        let Some(Interrupted::Status(status)) = result(sent.await.unwrap().into_inner()) else {
            panic!("not begun");
        };
        assert_eq!(status.outcome.unwrap().code(), OutcomeCode::Confirmed);
    }
    let sent = site.bmcs.of(1).log.lock().unwrap().clone();
    assert_eq!(sent, [PowerCommand::Nmi]);

    let not_nmi = by_leader(off("fence", "node-1"), 1, 3);
    let refused = client.collect_evidence(collect(not_nmi)).await.unwrap();
    assert!(matches!(
        result(refused.into_inner()),
        Some(Interrupted::Refused(_))
    ));
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn f5_no_interrupt_is_sent_to_another_system_or_to_one_without_power() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 1).await;
    site.bmcs.of(1).identity.lock().unwrap().serial = Some("other".into());
    let mut interrupt = nmi(1, 1);
    interrupt.expect = Some(v1::SystemIdentity {
        serial: "SN7".into(),
        ..v1::SystemIdentity::default()
    });
    let collect = |interrupt| v1::CollectEvidenceRequest {
        interrupt: Some(interrupt),
        ..request(Duration::from_secs(5))
    };
    client.collect_evidence(collect(interrupt)).await.unwrap();
    site.bmcs.of(1).set(PowerState::Off);
    let mut interrupt = nmi(1, 2);
    interrupt.operation_id = "rem-1/2@0/nmi/0.0".into();
    client.collect_evidence(collect(interrupt)).await.unwrap();
    assert!(site.bmcs.of(1).log.lock().unwrap().is_empty());
    agent.shutdown().await;
}
