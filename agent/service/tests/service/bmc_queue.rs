//! Order of operations and calls at one BMC: a hard off goes first, and other hosts are not
//! delayed.

use std::time::Duration;

use crate::kit::*;
use rackhand_bmc::PowerState;
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, begin_request::Action},
};

fn seconds(seconds: u64) -> Option<prost_types::Duration> {
    Some(duration_to_proto(Duration::from_secs(seconds)))
}

fn cycle(id: &str, host: &str) -> v1::BeginRequest {
    v1::BeginRequest {
        action: Some(Action::PowerCycle(v1::PowerCycle {
            hold_off: seconds(15),
        })),
        deadline: seconds(60),
        ..off(id, host)
    }
}

/// With calls of more than a second, a reading is too old for a command behind one other call.
#[tokio::test]
async fn readers_of_a_slow_bmc_do_not_block_a_power_off() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).delay.lock().unwrap() = Duration::from_millis(1100);
    let readers = (0..3).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            loop {
                let request = v1::ReadPowerRequest {
                    target: target("node-1"),
                    timeout: seconds(30),
                    ..v1::ReadPowerRequest::default()
                };
                client.read_power(request).await.unwrap();
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    site.bmcs.of(1).read_times(2).await;
    begin(&mut client, off("off", "node-1")).await.unwrap();
    let outcome = outcome(&mut client, "off").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed, "{outcome:?}");
    assert_eq!(site.bmcs.of(1).commands(), (1, 0));
    assert_eq!(
        site.bmcs
            .of(1)
            .most_at_once
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    agent.shutdown().await;
}

#[tokio::test]
async fn f3_hard_off_cancels_a_queued_on_and_cycle() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut operator = site.local().await;
    claim(&mut client, 1).await;
    // A long operation is running.
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    begin(&mut operator, off("first", "node-1")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    begin(&mut operator, on("on", "node-1")).await.unwrap();
    begin(&mut operator, cycle("cycle", "node-1"))
        .await
        .unwrap();
    let fence = by_leader(off("fence", "node-1"), 1, 1);
    begin(&mut client, fence).await.unwrap();
    for id in ["on", "cycle"] {
        let outcome = outcome(&mut operator, id).await;
        assert_eq!(outcome.code(), OutcomeCode::Cancelled);
        assert_eq!(
            outcome.message,
            "host node-1: replaced by operation fence, a hard power off"
        );
        assert_eq!(outcome.commands_sent, 0);
    }
    site.bmcs.of(1).set(PowerState::Off);
    let fence = outcome(&mut client, "fence").await;
    assert_eq!(fence.code(), OutcomeCode::Confirmed);
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::Off);
    assert_eq!(site.bmcs.of(1).commands().1, 0, "never switched on");
    assert_eq!(held_by(&mut client, "node-1").await, "rem-1");
    agent.shutdown().await;
}

#[tokio::test]
async fn f3_hard_off_cancels_a_running_cycle() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut operator = site.local().await;
    claim(&mut client, 1).await;
    begin(&mut operator, cycle("cycle", "node-1"))
        .await
        .unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    let fence = by_leader(off("fence", "node-1"), 1, 1);
    begin(&mut client, fence).await.unwrap();
    let cycle = outcome(&mut operator, "cycle").await;
    assert_eq!(cycle.code(), OutcomeCode::Cancelled, "{cycle:?}");
    let fence = outcome(&mut client, "fence").await;
    assert_eq!(fence.code(), OutcomeCode::Confirmed, "{fence:?}");
    assert_eq!(site.bmcs.of(1).commands().1, 0, "never switched on");
    agent.shutdown().await;
}

#[tokio::test]
async fn f6_long_operation_of_a_blade_does_not_delay_other_blades() {
    let site = Site {
        is_chassis: true,
        ..Site::new(2)
    };
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    let long = v1::BeginRequest {
        deadline: seconds(600),
        ..off("long", "node-1")
    };
    begin(&mut client, long).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    begin(&mut client, off("off", "node-2")).await.unwrap();
    let neighbour = outcome(&mut client, "off").await;
    assert_eq!(neighbour.code(), OutcomeCode::Confirmed, "{neighbour:?}");
    begin(&mut client, on("on", "node-2")).await.unwrap();
    let neighbour = outcome(&mut client, "on").await;
    assert_eq!(neighbour.code(), OutcomeCode::Confirmed, "{neighbour:?}");
    // A hard off of one blade cancels no operation of another.
    site.bmcs.of(1).set(PowerState::Off);
    let long = outcome(&mut client, "long").await;
    assert_eq!(long.code(), OutcomeCode::Confirmed, "{long:?}");
    agent.shutdown().await;
}
