//! Operations that are interrupted by a restart, a shutdown, a cancellation or a lost caller.

use std::time::Duration;

use crate::kit::*;
use rackhand_bmc::PowerState;
use rackhand_proto::v1::{self, OutcomeCode, await_response::Event};

#[tokio::test]
async fn lost_caller_does_not_stop_an_operation() {
    let site = Site::new(1);
    let agent = site.start().await;
    site.bmcs.of(1).dead.send_replace(true);
    {
        let mut client = site.operator(&agent).await;
        begin(&mut client, off("a", "node-1")).await.unwrap();
        let request = v1::AwaitRequest {
            operation_id: "a".into(),
        };
        let mut events = client.r#await(request).await.unwrap().into_inner();
        let first = events.message().await.unwrap().unwrap();
        assert_eq!(first.event, Some(Event::Accepted(v1::Accepted {})));
        site.bmcs.of(1).read_times(1).await;
    }
    site.bmcs.of(1).dead.send_replace(false);
    let mut client = site.operator(&agent).await;
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn operations_of_a_killed_agent_are_interrupted_not_repeated() {
    let site = Site::new(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    // One operation has sent its command, the other could not even read.
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    site.bmcs.of(2).dead.send_replace(true);
    begin(&mut client, off("a", "node-1")).await.unwrap();
    begin(&mut client, off("b", "node-2")).await.unwrap();
    site.bmcs.of(1).read_times(2).await;
    site.bmcs.of(2).read_times(1).await;
    agent.abort().await;
    drop(client);
    site.bmcs.of(2).dead.send_replace(false);

    let agent = site.start().await;
    let mut client = site.local().await;
    let (events, a) = follow(&mut client, "a").await;
    assert_eq!(a.code(), OutcomeCode::Interrupted);
    assert_eq!(a.commands_sent, 1);
    assert!(
        a.message.contains("one command may have reached the BMC"),
        "{}",
        a.message
    );
    assert_eq!(events.len(), 3, "accepted, sent, outcome");
    let b = outcome(&mut client, "b").await;
    assert!(
        b.message.contains("no command had been sent"),
        "{}",
        b.message
    );
    assert!(
        !begin(&mut client, off("a", "node-1")).await.unwrap(),
        "known, not started again"
    );
    assert_eq!(site.bmcs.of(1).commands(), (1, 0));
    assert_eq!(site.bmcs.of(2).commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn cancel_and_stop_do_not_cut_a_command_in_flight() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    let cancel = v1::CancelRequest {
        operation_id: "a".into(),
        force: false,
        term: None,
    };
    client.cancel(cancel).await.unwrap();
    agent.shutdown().await;
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::Off);
}

#[tokio::test]
async fn host_of_an_interrupted_operation_is_read_but_not_commanded() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).read_times(2).await;
    agent.abort().await;
    let before = *site.bmcs.of(1).reads.borrow();
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.of(1).read_times(before + 1).await;
    let noted = async {
        loop {
            let outcome = outcome(&mut client, "a").await;
            if let Some(reading) = outcome.readings.first() {
                return reading.state();
            }
        }
    };
    let noted = tokio::time::timeout(Duration::from_secs(10), noted).await;
    assert_eq!(noted.unwrap(), v1::PowerState::On);
    assert_eq!(site.bmcs.of(1).commands(), (1, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_running_operations_as_interrupted() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.of(1).dead.send_replace(true);
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).read_times(1).await;
    let mut waiting = client.clone();
    let waiting = tokio::spawn(async move { outcome(&mut waiting, "a").await });
    agent.shutdown().await;
    assert_eq!(waiting.await.unwrap().code(), OutcomeCode::Interrupted);
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
}

#[tokio::test]
async fn cancel_prevents_the_next_command() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.of(1).dead.send_replace(true);
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).read_times(1).await;
    let request = v1::CancelRequest {
        operation_id: "a".into(),
        force: false,
        term: None,
    };
    client.cancel(request).await.unwrap();
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Cancelled);
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    agent.shutdown().await;
}
