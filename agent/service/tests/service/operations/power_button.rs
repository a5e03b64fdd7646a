//! The power button of a BMC whose power state lags, over several operations.

use std::time::Duration;

use crate::kit::*;
use rackhand_bmc::{PowerCommand, PowerState};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode},
};

/// A power-on that has little time.
fn short(id: &str) -> v1::BeginRequest {
    v1::BeginRequest {
        deadline: Some(duration_to_proto(Duration::from_millis(700))),
        ..on(id, "node-1")
    }
}

#[tokio::test]
async fn next_operation_does_not_press_the_button_again_while_the_state_may_lag() {
    let site = Site::new(1);
    let bmc = site.bmcs.of(1);
    *bmc.button.lock().unwrap() = true;
    // It still reports off after a press.
    *bmc.stubborn.lock().unwrap() = true;
    bmc.set(PowerState::Off);
    let presses = || bmc.log.lock().unwrap().clone();

    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, short("a")).await.unwrap();
    let first = outcome(&mut client, "a").await;
    assert_eq!(first.code(), OutcomeCode::Unconfirmed, "{first:?}");
    assert_eq!(first.commands_sent, 1);
    begin(&mut client, short("b")).await.unwrap();
    let second = outcome(&mut client, "b").await;
    assert_eq!(second.code(), OutcomeCode::Unconfirmed, "{second:?}");
    assert_eq!(presses(), [PowerCommand::OnByButton]);
    agent.shutdown().await;

    // Its journal remembers the press.
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, short("c")).await.unwrap();
    outcome(&mut client, "c").await;
    assert_eq!(presses(), [PowerCommand::OnByButton]);
    bmc.set(PowerState::On);
    begin(&mut client, short("d")).await.unwrap();
    let last = outcome(&mut client, "d").await;
    assert_eq!(last.code(), OutcomeCode::Confirmed, "{last:?}");
    assert_eq!(last.commands_sent, 0);
    agent.shutdown().await;
}

#[tokio::test]
async fn button_is_pressed_at_once_after_a_power_off() {
    let site = Site::new(1);
    let bmc = site.bmcs.of(1);
    *bmc.button.lock().unwrap() = true;
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    outcome(&mut client, "a").await;
    begin(&mut client, short("b")).await.unwrap();
    let on = outcome(&mut client, "b").await;
    assert_eq!(on.code(), OutcomeCode::Confirmed, "{on:?}");
    let log = bmc.log.lock().unwrap().clone();
    assert_eq!(log, [PowerCommand::Off, PowerCommand::OnByButton]);
    agent.shutdown().await;
}
