//! Updates of firmware: what callers read of them, and power commands that they stop.

use std::sync::atomic::Ordering;

use crate::kit::*;
use rackhand_bmc::{FirmwareUpdate, PowerState, UpdatePhase};
use rackhand_proto::v1::{
    self, OutcomeCode, OutcomeDetail, read_updates_response::Result as Updates,
};

fn update(phase: UpdatePhase) -> FirmwareUpdate {
    FirmwareUpdate {
        source: "job JID_1".into(),
        name: "BIOS".into(),
        phase,
        state: "Running".into(),
        percent: Some(40),
        message: "Job in progress.".into(),
    }
}

fn flash(site: &Site, phase: UpdatePhase) {
    *site.bmcs.of(1).update.lock().unwrap() = Some(update(phase));
}

async fn read(client: &mut Client) -> Updates {
    let request = v1::ReadUpdatesRequest {
        target: target("node-1"),
        timeout: None,
    };
    let answer = client.read_updates(request).await.unwrap();
    answer.into_inner().result.unwrap()
}

#[tokio::test]
async fn updates_are_read_and_an_unknown_state_is_told() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let Updates::Failure(failure) = read(&mut client).await else {
        panic!("there is nothing to read")
    };
    assert_eq!(failure.kind(), v1::FailureKind::Unsupported);
    flash(&site, UpdatePhase::Running);
    let Updates::Updates(found) = read(&mut client).await else {
        panic!("not read")
    };
    let shown = found.updates.first().unwrap();
    assert_eq!(
        (shown.phase(), shown.percent, shown.source.as_str()),
        (v1::UpdatePhase::Running, Some(40), "job JID_1")
    );
    assert_eq!(found.read, ["tasks"]);
}

#[tokio::test]
async fn power_off_into_an_update_is_refused_with_the_update_and_sends_nothing() {
    let site = Site::new(1);
    let agent = site.start().await;
    flash(&site, UpdatePhase::Running);
    let mut operator = site.local().await;
    begin(&mut operator, off("a", "node-1")).await.unwrap();
    let refused = outcome(&mut operator, "a").await;
    assert_eq!(refused.code(), OutcomeCode::Failed);
    assert_eq!(refused.detail(), OutcomeDetail::FirmwareUpdate);
    assert_eq!(refused.update.unwrap().name, "BIOS");
    assert_eq!(refused.commands_sent, 0);
    assert!(
        refused.message.contains("--during-firmware-update"),
        "{}",
        refused.message
    );
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    // A job that waits for the next start stands in nobody's way.
    flash(&site, UpdatePhase::AtNextStart);
    begin(&mut operator, off("b", "node-1")).await.unwrap();
    assert_eq!(
        outcome(&mut operator, "b").await.code(),
        OutcomeCode::Confirmed
    );
    drop(agent);
}

#[tokio::test]
async fn power_off_that_is_meant_goes_through_an_update() {
    let site = Site::new(1);
    let _agent = site.start().await;
    flash(&site, UpdatePhase::Running);
    let mut operator = site.local().await;
    let meant = v1::BeginRequest {
        during_firmware_update: true,
        ..off("a", "node-1")
    };
    begin(&mut operator, meant).await.unwrap();
    assert_eq!(
        outcome(&mut operator, "a").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::Off);
}

#[tokio::test]
async fn update_that_begins_after_the_first_command_ends_the_operation() {
    let site = Site::new(1);
    let _agent = site.start().await;
    flash(&site, UpdatePhase::Running);
    let bmc = site.bmcs.of(1);
    bmc.flashes_later.store(true, Ordering::SeqCst);
    // It takes the power-off, and the host stays on.
    *bmc.stubborn.lock().unwrap() = true;
    let mut operator = site.local().await;
    begin(&mut operator, off("a", "node-1")).await.unwrap();
    let ended = outcome(&mut operator, "a").await;
    assert_eq!(
        ended.detail(),
        OutcomeDetail::FirmwareUpdate,
        "{}",
        ended.message
    );
    assert_eq!((ended.commands_sent, bmc.commands().0), (1, 1));
    assert!(
        ended.message.contains("may still take effect"),
        "{}",
        ended.message
    );
}

#[tokio::test]
async fn result_says_that_it_was_not_known_whether_firmware_is_updated() {
    let site = Site::new(1);
    let _agent = site.start().await;
    *site.bmcs.of(1).updates_unread.lock().unwrap() = Some("tasks: not read in time");
    let mut operator = site.local().await;
    begin(&mut operator, off("a", "node-1")).await.unwrap();
    let ended = outcome(&mut operator, "a").await;
    assert_eq!(ended.code(), OutcomeCode::Confirmed);
    assert_eq!(ended.updates_unknown, "tasks: not read in time");
    assert!(
        ended.message.contains("tasks: not read in time"),
        "{}",
        ended.message
    );
}
