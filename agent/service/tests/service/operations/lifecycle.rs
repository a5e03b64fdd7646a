//! Operations from the request to the outcome, over gRPC and mTLS.

use std::{sync::atomic::Ordering, time::Duration};

use crate::kit::*;
use rackhand_bmc::{PowerState, SystemIdentity};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, await_response::Event},
};

#[tokio::test]
async fn off_and_on_report_every_step() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    assert!(begin(&mut client, off("a", "node-1")).await.unwrap());
    let (events, off) = follow(&mut client, "a").await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert_eq!(off.message, "host node-1: confirmed off");
    assert_eq!(off.commands_sent, 1);
    assert_eq!(off.readings.len(), 2);
    assert!(
        off.readings
            .iter()
            .all(|reading| reading.state() == v1::PowerState::Off)
    );
    let steps: Vec<&str> = events
        .iter()
        .map(|event| match event {
            Event::Accepted(_) => "accepted",
            Event::CommandSent(sent) if sent.answer.is_empty() => "sending",
            Event::CommandSent(_) => "answered",
            Event::Reading(reading) => reading.state().as_str_name(),
            Event::Failure(_) => "failure",
            Event::Waiting(_) => "waiting",
            Event::Outcome(_) => "outcome",
        })
        .collect();
    assert_eq!(
        steps,
        [
            "accepted",
            "POWER_STATE_ON",
            "sending",
            "answered",
            "POWER_STATE_OFF",
            "POWER_STATE_OFF",
            "outcome"
        ]
    );
    assert!(begin(&mut client, on("b", "worker-1")).await.unwrap());
    let on = outcome(&mut client, "b").await;
    assert_eq!((on.code(), on.readings.len()), (OutcomeCode::Confirmed, 1));
    assert_eq!(site.bmcs.of(1).commands(), (1, 1));
    agent.shutdown().await;
    assert_eq!(
        site.bmcs.of(1).closed.load(Ordering::SeqCst),
        1,
        "sessions are closed"
    );
}

#[tokio::test]
async fn begin_is_idempotent() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    assert!(claim(&mut client, 1).await.accepted);
    let request = by_leader(off("a", "node-1"), 1, 1);
    let again = futures::future::join_all((0..8).map(|_| {
        let (mut client, request) = (client.clone(), request.clone());
        async move { begin(&mut client, request).await.unwrap() }
    }))
    .await;
    assert_eq!(again.into_iter().filter(|started| *started).count(), 1);
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    let known = client.begin(request).await.unwrap().into_inner();
    assert!(!known.started);
    assert_eq!(
        known.status.unwrap().outcome.unwrap().code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(site.bmcs.of(1).commands(), (1, 0));
    let other = begin(&mut client, by_leader(on("a", "node-1"), 1, 2))
        .await
        .unwrap_err();
    assert_eq!(
        other.message(),
        "operation a is already a power off of host node-1; choose a new operation id"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn command_is_journalled_before_it_is_sent() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).mute.lock().unwrap() = true;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    agent.abort().await;
    let agent = site.start().await;
    let mut client = site.local().await;
    let outcome = outcome(&mut client, "a").await;
    assert!(
        outcome
            .message
            .contains("one command may have reached the BMC"),
        "{outcome:?}"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn dead_bmc_does_not_delay_other_hosts() {
    let site = Site::new(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.of(1).dead.send_replace(true);
    begin(&mut client, off("dead", "node-1")).await.unwrap();
    site.bmcs.of(1).read_times(1).await;
    begin(&mut client, off("alive", "node-2")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "alive").await.code(),
        OutcomeCode::Confirmed
    );
    let status = client
        .begin(off("dead", "node-1"))
        .await
        .unwrap()
        .into_inner()
        .status;
    assert!(
        !status.unwrap().finished,
        "the operation of the dead BMC has ended"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn f6_calls_to_one_bmc_run_one_at_a_time() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    for (id, request) in [("a", off("a", "node-1")), ("b", on("b", "node-1"))] {
        assert!(begin(&mut client, request).await.unwrap(), "{id}");
    }
    let reads = (0..20).map(|_| {
        let mut client = client.clone();
        let request = v1::ReadPowerRequest {
            target: target("node-1"),
            timeout: None,
            ..v1::ReadPowerRequest::default()
        };
        async move {
            client
                .read_power(request)
                .await
                .unwrap()
                .into_inner()
                .result
                .unwrap()
        }
    });
    for result in futures::future::join_all(reads).await {
        assert!(
            matches!(result, v1::read_power_response::Result::Reading(_)),
            "{result:?}"
        );
    }
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(
        outcome(&mut client, "b").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(site.bmcs.of(1).most_at_once.load(Ordering::SeqCst), 1);
    assert_eq!(
        *site.bmcs.of(1).power.lock().unwrap(),
        PowerState::On,
        "out of order"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn f6_reader_waits_while_an_operation_uses_the_bmc() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.of(1).dead.send_replace(true);
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).read_times(1).await;
    let request = v1::ReadPowerRequest {
        target: target("node-1"),
        timeout: Some(duration_to_proto(Duration::from_millis(100))),
        ..v1::ReadPowerRequest::default()
    };
    let read = client
        .read_power(request)
        .await
        .unwrap()
        .into_inner()
        .result;
    match read {
        Some(v1::read_power_response::Result::Failure(failure)) => {
            assert_eq!(failure.kind(), v1::FailureKind::Timeout);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(site.bmcs.of(1).most_at_once.load(Ordering::SeqCst), 1);
    assert_eq!(
        *site.bmcs.of(1).reads.borrow(),
        1,
        "the reader reached the BMC"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn f5_identity_mismatch_sends_no_command() {
    let site = Site::new(1);
    *site.bmcs.of(1).identity.lock().unwrap() = SystemIdentity {
        system_uuid: Some("99999999-2222-3333-4444-555555555555".into()),
        ..SystemIdentity::default()
    };
    let agent = site.start().await;
    let mut client = site.local().await;
    let request = v1::BeginRequest {
        expect: Some(v1::SystemIdentity {
            system_uuid: "71111111-2222-3333-4444-555555555555".into(),
            ..v1::SystemIdentity::default()
        }),
        ..off("a", "node-1")
    };
    begin(&mut client, request).await.unwrap();
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::IdentityMismatch);
    assert_eq!(outcome.failure.unwrap().kind(), v1::FailureKind::Identity);
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn deadline_ends_an_operation_with_the_last_reading() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    let request = v1::BeginRequest {
        deadline: Some(duration_to_proto(Duration::from_secs(1))),
        ..off("a", "node-1")
    };
    begin(&mut client, request).await.unwrap();
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Unconfirmed);
    assert_eq!(
        outcome.message,
        "host node-1: not confirmed off within 1s: the last reading was on"
    );
    assert_eq!(outcome.commands_sent, 1);
    assert_eq!(outcome.readings.last().unwrap().raw, "On");
    agent.shutdown().await;
}

#[tokio::test]
async fn changed_password_file_applies_to_the_next_call() {
    let site = Site::new(1);
    let password = site.dir.path().join("password");
    std::fs::write(&password, "old").unwrap();
    let agent = site.start().await;
    let mut client = site.local().await;
    let request = v1::ReadPowerRequest {
        target: target("node-1"),
        timeout: None,
        ..v1::ReadPowerRequest::default()
    };
    let read = client
        .read_power(request.clone())
        .await
        .unwrap()
        .into_inner()
        .result;
    match read {
        Some(v1::read_power_response::Result::Failure(failure)) => {
            assert_eq!(failure.kind(), v1::FailureKind::Authentication);
            assert!(
                failure
                    .message
                    .starts_with("host node-1: BMC redfish://10.0.0.1")
            );
        }
        other => panic!("{other:?}"),
    }
    std::fs::write(&password, "secret\n").unwrap();
    let read = client
        .read_power(request)
        .await
        .unwrap()
        .into_inner()
        .result;
    assert!(
        matches!(read, Some(v1::read_power_response::Result::Reading(_))),
        "{read:?}"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn watch_reports_the_first_reading_and_then_changes() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    let request = v1::WatchPowerRequest {
        target: target("node-1"),
        interval: None,
    };
    let mut watch = client.watch_power(request).await.unwrap().into_inner();
    let mut next = async || match watch.message().await.unwrap().unwrap().result.unwrap() {
        v1::watch_power_response::Result::Reading(reading) => reading.raw,
        v1::watch_power_response::Result::Failure(failure) => panic!("{failure:?}"),
    };
    assert_eq!(next().await, "On");
    site.bmcs.of(1).read_times(2).await;
    site.bmcs.of(1).set(PowerState::Off);
    assert_eq!(next().await, "Off");
    agent.shutdown().await;
}
