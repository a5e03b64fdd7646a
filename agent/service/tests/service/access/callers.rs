//! F17: operations depend on the lease of the process that requested them.

use std::time::Duration;

use crate::kit::*;
use rackhand_bmc::PowerState;
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, OutcomeDetail, begin_request::Action},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

const PATIENCE: Duration = Duration::from_secs(20);

/// A process that holds a lease until it is dropped.
struct Process {
    renewals: mpsc::Sender<v1::AttendRequest>,
    answers: Streaming<v1::AttendResponse>,
}

impl Process {
    async fn attend(client: &mut Client, name: &str) -> Self {
        let (renewals, received) = mpsc::channel(4);
        let mut process = Self {
            renewals,
            answers: {
                let renewal = v1::AttendRequest {
                    caller: name.into(),
                };
                let (first, rest) = (
                    futures::stream::iter([renewal]),
                    ReceiverStream::new(received),
                );
                let stream = futures::StreamExt::chain(first, rest);
                client.attend(stream).await.unwrap().into_inner()
            },
        };
        process.answered().await;
        process
    }

    async fn answered(&mut self) {
        let answer = timeout(PATIENCE, self.answers.message()).await.unwrap();
        let lease = answer.unwrap().unwrap().lease.unwrap();
        assert_eq!(lease.seconds, 15);
    }

    async fn renew(&mut self, name: &str) {
        let renewal = v1::AttendRequest {
            caller: name.into(),
        };
        self.renewals.send(renewal).await.unwrap();
        self.answered().await;
    }
}

fn by(process: &str, request: v1::BeginRequest) -> v1::BeginRequest {
    v1::BeginRequest {
        caller: process.into(),
        ..request
    }
}

fn cycle(id: &str, host: &str) -> v1::BeginRequest {
    v1::BeginRequest {
        action: Some(Action::PowerCycle(v1::PowerCycle {
            hold_off: Some(duration_to_proto(Duration::from_millis(100))),
        })),
        ..off(id, host)
    }
}

async fn operation(client: &mut Client, id: &str) -> v1::OperationInfo {
    let asked = v1::ListOperationsRequest {
        operation_id: id.into(),
        ..v1::ListOperationsRequest::default()
    };
    let listed = client.list_operations(asked).await.unwrap().into_inner();
    listed.operations.into_iter().next().unwrap()
}

#[tokio::test]
async fn f17_power_off_ends_with_its_caller() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    bmc.dead.send_replace(true);
    // Over the local socket, and from afar.
    for (id, mut client) in [
        ("a", site.local().await),
        ("b", site.operator(&agent).await),
    ] {
        let reads = *bmc.reads.borrow();
        let process = Process::attend(&mut client, id).await;
        assert!(begin(&mut client, by(id, off(id, "node-1"))).await.unwrap());
        bmc.read_times(reads + 1).await;
        let info = operation(&mut client, id).await;
        assert!(info.attended && info.deadline.is_some(), "{info:?}");
        // The whole connection ends, as with a process that is killed.
        drop((process, client));
        let mut other = site.local().await;
        let ended = timeout(PATIENCE, outcome(&mut other, id)).await.unwrap();
        assert_eq!(
            (ended.code(), ended.detail(), ended.commands_sent),
            (OutcomeCode::Cancelled, OutcomeDetail::CallerGone, 0),
            "{ended:?}"
        );
    }
    // The host was repaired meanwhile, and is left alone.
    bmc.dead.send_replace(false);
    let mut client = site.local().await;
    assert!(begin(&mut client, on("c", "node-1")).await.unwrap());
    assert_eq!(
        outcome(&mut client, "c").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(bmc.commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_cycle_of_a_caller_that_is_gone_ends_with_the_host_on() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.operator(&agent).await;
    let process = Process::attend(&mut client, "ssh").await;
    begin(&mut client, by("ssh", cycle("a", "node-1")))
        .await
        .unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    // As when an SSH connection is cut in the middle.
    drop((process, client));
    let mut client = site.local().await;
    let ended = timeout(PATIENCE, outcome(&mut client, "a")).await.unwrap();
    let detail = (ended.code(), ended.detail(), ended.commands_sent);
    let expected = (OutcomeCode::Cancelled, OutcomeDetail::CallerGone, 2);
    assert_eq!(detail, expected, "{ended:?}");
    assert!(
        ended.message.contains("the host is confirmed on"),
        "{ended:?}"
    );
    assert_eq!(site.bmcs.of(1).commands(), (1, 1));
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::On);
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_late_request_of_a_caller_that_is_gone_begins_nothing() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    let request = by("p", off("a", "node-1"));
    let never = begin(&mut client, request.clone()).await.unwrap_err();
    assert_eq!(never.code(), Code::Unavailable, "{never:?}");
    let process = Process::attend(&mut client, "p").await;
    drop(process);
    let refused = async {
        loop {
            // Until the agent has noticed the end of the stream, which the connection outlives here.
            match begin(&mut client, by("p", on("b", "node-1"))).await {
                Err(status) => return status,
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let refused = timeout(PATIENCE, refused).await.unwrap();
    assert!(
        refused.message().contains("nothing was begun"),
        "{refused:?}"
    );
    let late = begin(&mut client, request).await.unwrap_err();
    assert_eq!(late.code(), Code::Unavailable, "{late:?}");
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_lease_is_renewed_and_taken_over_by_a_new_stream() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    bmc.dead.send_replace(true);
    let mut client = site.local().await;
    let mut first = Process::attend(&mut client, "p").await;
    first.renew("p").await;
    begin(&mut client, by("p", off("a", "node-1")))
        .await
        .unwrap();
    bmc.read_times(1).await;
    // The same process over a new connection, before the agent has noticed the end of the first one.
    let mut again = site.local().await;
    let mut second = Process::attend(&mut again, "p").await;
    drop(first);
    second.renew("p").await;
    bmc.dead.send_replace(false);
    let ended = timeout(PATIENCE, outcome(&mut again, "a")).await.unwrap();
    assert_eq!(ended.code(), OutcomeCode::Confirmed, "{ended:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_operation_without_a_caller_lives_until_its_deadline() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    bmc.dead.send_replace(true);
    {
        let mut client = site.local().await;
        begin(&mut client, off("a", "node-1")).await.unwrap();
        bmc.read_times(1).await;
    }
    let mut client = site.local().await;
    let info = operation(&mut client, "a").await;
    assert!(!info.attended, "{info:?}");
    let [begun, deadline] = [info.begun, info.deadline].map(Option::unwrap);
    let lives = deadline.seconds - begun.seconds;
    assert!((19..=21).contains(&lives), "{info:?}");
    bmc.dead.send_replace(false);
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_second_level_is_not_blocked_by_a_caller_that_is_gone() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    bmc.dead.send_replace(true);
    let mut first = site.local().await;
    let process = Process::attend(&mut first, "level-1").await;
    let hour = v1::BeginRequest {
        deadline: Some(duration_to_proto(Duration::from_secs(3600))),
        ..off("level-1", "node-1")
    };
    begin(&mut first, by("level-1", hour)).await.unwrap();
    bmc.read_times(1).await;
    drop((process, first));
    bmc.dead.send_replace(false);
    let mut second = site.local().await;
    let _process = Process::attend(&mut second, "level-2").await;
    begin(&mut second, by("level-2", off("level-2", "node-1")))
        .await
        .unwrap();
    let ended = timeout(PATIENCE, outcome(&mut second, "level-2"))
        .await
        .unwrap();
    assert_eq!(ended.code(), OutcomeCode::Confirmed, "{ended:?}");
    assert_eq!(bmc.commands(), (1, 0), "one power-off, of the second level");
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_controller_holds_no_lease() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 1).await;
    let renewal = v1::AttendRequest { caller: "p".into() };
    let refused = client.attend(futures::stream::iter([renewal])).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let request = by("p", by_leader(off("a", "node-1"), 1, 1));
    let refused = begin(&mut client, request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_interrupted_cycle_is_finished_after_a_restart() {
    let site = Site::new(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    let long = |id: &str, host: &str| v1::BeginRequest {
        action: Some(Action::PowerCycle(v1::PowerCycle {
            hold_off: Some(duration_to_proto(Duration::from_secs(15))),
        })),
        ..off(id, host)
    };
    begin(&mut client, long("a", "node-1")).await.unwrap();
    // The other host is off as well, and was not cycled.
    begin(&mut client, off("b", "node-2")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "b").await.code(),
        OutcomeCode::Confirmed
    );
    site.bmcs.of(1).commanded_times(1).await;
    agent.abort().await;
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::Off);
    let agent = site.start().await;
    let mut client = site.local().await;
    let cut = outcome(&mut client, "a").await;
    assert_eq!(cut.code(), OutcomeCode::Interrupted, "{cut:?}");
    site.bmcs.of(1).commanded_times(2).await;
    let on = timeout(PATIENCE, outcome(&mut client, "a/on/1"))
        .await
        .unwrap();
    assert_eq!(on.code(), OutcomeCode::Confirmed, "{on:?}");
    let info = operation(&mut client, "a/on/1").await;
    assert_eq!(info.action, "on");
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::On);
    assert_eq!(*site.bmcs.of(2).power.lock().unwrap(), PowerState::Off);
    agent.shutdown().await;
}

#[tokio::test]
async fn f17_interrupted_cycle_does_not_switch_on_a_held_host() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).mute.lock().unwrap() = true;
    begin(&mut client, cycle("a", "node-1")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    let mut leader = site.controller(&agent).await;
    claim(&mut leader, 1).await;
    begin(&mut leader, by_leader(off("rem", "node-1"), 1, 1))
        .await
        .unwrap();
    agent.abort().await;
    *site.bmcs.of(1).mute.lock().unwrap() = false;
    site.bmcs.of(1).set(PowerState::Off);
    let reads = *site.bmcs.of(1).reads.borrow();
    let agent = site.start().await;
    site.bmcs.of(1).read_times(reads + 1).await;
    let mut client = site.local().await;
    let running = v1::ListOperationsRequest::default();
    let listed = client.list_operations(running).await.unwrap().into_inner();
    assert!(
        listed.operations.iter().all(|op| op.action != "on"),
        "{listed:?}"
    );
    assert_eq!(site.bmcs.of(1).commands().1, 0);
    agent.shutdown().await;
}

#[tokio::test]
async fn change_is_made_once_under_its_id() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    let call = |caller: &str| {
        Some(v1::ChangeCall {
            operation_id: "reset-1".into(),
            caller: caller.into(),
        })
    };
    let reset = |call| v1::ResetBmcRequest {
        target: target("node-1"),
        call,
        ..v1::ResetBmcRequest::default()
    };
    let refused = client.reset_bmc(reset(call("p"))).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    let _process = Process::attend(&mut client, "p").await;
    let asked = (0..4).map(|_| {
        let (mut client, request) = (client.clone(), reset(call("p")));
        async move { client.reset_bmc(request).await.unwrap().into_inner() }
    });
    let answers = futures::future::join_all(asked).await;
    assert!(
        answers.windows(2).all(|two| two[0] == two[1]),
        "{answers:?}"
    );
    let made = || site.bmcs.of(1).changes.lock().unwrap().len();
    assert_eq!(made(), 1);
    let clear = v1::ClearEventsRequest {
        target: target("node-1"),
        call: call("p"),
        ..v1::ClearEventsRequest::default()
    };
    // Another change under this id is not taken for the first one.
    let other = client.clear_events(clear).await;
    assert!(other.is_err() && made() == 1, "{other:?}");
    agent.shutdown().await;
    // The journal knows it after a restart.
    let agent = site.start().await;
    let mut client = site.local().await;
    let again = client
        .reset_bmc(reset(call("")))
        .await
        .unwrap()
        .into_inner();
    assert!(
        matches!(
            again.result,
            Some(v1::reset_bmc_response::Result::Changed(_))
        ),
        "{again:?}"
    );
    assert_eq!(made(), 1);
    agent.shutdown().await;
}
