//! Updates of firmware: what callers read of them, and power commands that they stop.

use std::{sync::atomic::Ordering, time::Duration};

use crate::kit::*;
use rackhand_bmc::{FirmwareUpdate, PowerState, UpdatePhase};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{
        self, OutcomeCode, OutcomeDetail, begin_request::Action, interrupt_result,
        read_updates_response::Result as Updates, reset_bmc_response::Result as Reset,
    },
};
use tonic::Code;

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

/// Every action that takes the power of a host, or interrupts it, and the device that it needs.
fn interrupting() -> Vec<(&'static str, v1::PowerDevice, Action)> {
    let off = || {
        Action::PowerOff(v1::PowerOff {
            confirm_interval: Some(duration_to_proto(Duration::from_millis(20))),
            ..v1::PowerOff::default()
        })
    };
    let cycle = || {
        Action::PowerCycle(v1::PowerCycle {
            hold_off: Some(duration_to_proto(Duration::from_secs(1))),
        })
    };
    let soft = Action::PowerSoftOff(v1::PowerSoftOff::default());
    let [bmc, outlets] = [v1::PowerDevice::Bmc, v1::PowerDevice::Outlets];
    vec![
        ("off", bmc, off()),
        ("soft-off", bmc, soft),
        ("cycle", bmc, cycle()),
        ("reset", bmc, Action::PowerReset(v1::PowerReset {})),
        ("nmi", bmc, Action::PowerNmi(v1::PowerNmi {})),
        ("outlets-off", outlets, off()),
        ("outlets-cycle", outlets, cycle()),
    ]
}

#[tokio::test]
async fn every_request_that_interrupts_a_host_or_its_bmc_asks_for_updates() {
    let mut site = Site::new(1);
    site.extra = "defaults.call_timeout = '300ms'\n[pdus.a]\naddress = 'snmp://10.0.0.201'\ntable =                   'apc-rpdu2'\ncommunity = 'private'\n"
        .into();
    site.of_host = "outlets = [{ pdu = 'a', outlet = '{n}' }]\n".into();
    let _agent = site.start().await;
    let mut operator = site.local().await;
    flash(&site, UpdatePhase::Running);
    for (id, device, action) in interrupting() {
        let request = v1::BeginRequest {
            device: device.into(),
            action: Some(action),
            deadline: Some(duration_to_proto(Duration::from_secs(300))),
            ..off(id, "node-1")
        };
        begin(&mut operator, request).await.unwrap();
        let refused = outcome(&mut operator, id).await;
        assert_eq!(
            refused.detail(),
            OutcomeDetail::FirmwareUpdate,
            "{id}: {refused:?}"
        );
        assert_eq!(refused.commands_sent, 0, "{id}");
    }
    let mut report = v1::CollectEvidenceRequest {
        target: target("node-1"),
        log_only: true,
        interrupt: Some(v1::BeginRequest {
            action: Some(Action::PowerNmi(v1::PowerNmi {})),
            ..off("interrupt", "node-1")
        }),
        ..v1::CollectEvidenceRequest::default()
    };
    report.timeout = Some(duration_to_proto(Duration::from_secs(10)));
    let collected = operator
        .collect_evidence(report)
        .await
        .unwrap()
        .into_inner();
    let interrupt = collected.interrupt.unwrap().result.unwrap();
    assert!(
        matches!(interrupt, interrupt_result::Result::Status(_)),
        "{interrupt:?}"
    );
    let refused = outcome(&mut operator, "interrupt").await;
    assert_eq!(
        refused.detail(),
        OutcomeDetail::FirmwareUpdate,
        "{refused:?}"
    );

    let reset = |during_firmware_update| v1::ResetBmcRequest {
        target: target("node-1"),
        during_firmware_update,
        ..v1::ResetBmcRequest::default()
    };
    let refused = operator.reset_bmc(reset(false)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    for said in ["BIOS", "--during-firmware-update"] {
        assert!(refused.message().contains(said), "{refused:?}");
    }
    let bmc = site.bmcs.of(1);
    assert_eq!(bmc.commands(), (0, 0));
    assert_eq!(bmc.changes(), Vec::<String>::new());
    assert_eq!(site.bmcs.pdu("a").commands(), Vec::<String>::new());

    // A person who means it.
    let done = operator.reset_bmc(reset(true)).await.unwrap().into_inner();
    assert!(matches!(done.result, Some(Reset::Changed(_))), "{done:?}");
    assert_eq!(bmc.changes(), ["BMC reset"]);
}

#[tokio::test]
async fn reset_of_a_bmc_says_that_its_updates_were_not_known() {
    let site = Site::new(1);
    let _agent = site.start().await;
    *site.bmcs.of(1).updates_unread.lock().unwrap() = Some("tasks: not read in time");
    let mut operator = site.local().await;
    let reset = v1::ResetBmcRequest {
        target: target("node-1"),
        ..v1::ResetBmcRequest::default()
    };
    let done = operator.reset_bmc(reset).await.unwrap().into_inner();
    let Some(Reset::Changed(changed)) = done.result else {
        panic!("{done:?}")
    };
    assert!(
        changed.answer.contains("tasks: not read in time"),
        "{changed:?}"
    );
}

#[tokio::test]
async fn slow_bmc_has_more_time_for_its_updates_before_it_is_reset() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut operator = site.local().await;
    let mut limits = Vec::new();
    for (delay, seconds) in [(0, 60), (500, 60), (500, 15)] {
        *site.bmcs.of(1).delay.lock().unwrap() = Duration::from_millis(delay);
        let request = v1::ResetBmcRequest {
            target: target("node-1"),
            timeout: Some(duration_to_proto(Duration::from_secs(seconds))),
            ..v1::ResetBmcRequest::default()
        };
        operator.reset_bmc(request).await.unwrap();
        let given = site.bmcs.of(1).updates_limits.lock().unwrap().pop();
        limits.push(given.unwrap());
    }
    let s = Duration::from_secs;
    assert!(limits[0] >= s(6) && limits[0] < s(12), "{limits:?}");
    assert!(limits[1] >= s(12) && limits[1] <= s(20), "{limits:?}");
    assert!(limits[2] > s(3) && limits[2] <= s(5), "{limits:?}");
    drop(agent);
}

#[tokio::test]
async fn update_that_begins_while_a_slow_bmc_shows_its_manager_is_not_ended_by_a_reset() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    flash(&site, UpdatePhase::Running);
    *bmc.manager_delay.lock().unwrap() = Duration::from_millis(2300);
    bmc.flashes_later.store(true, Ordering::SeqCst);
    bmc.flashes_meanwhile.store(true, Ordering::SeqCst);
    let mut operator = site.local().await;
    let reset = || v1::ResetBmcRequest {
        target: target("node-1"),
        timeout: Some(duration_to_proto(Duration::from_secs(60))),
        ..v1::ResetBmcRequest::default()
    };
    let done = operator.reset_bmc(reset()).await.unwrap().into_inner();
    let Some(Reset::Failure(failure)) = done.result else {
        panic!("{done:?}")
    };
    for said in ["BIOS", "nothing was changed", "--during-firmware-update"] {
        assert!(failure.message.contains(said), "{failure:?}");
    }
    assert_eq!(bmc.changes(), Vec::<String>::new());

    // A BMC that always takes so long is reset all the same, and nobody is told that no update ran.
    bmc.flashes_meanwhile.store(false, Ordering::SeqCst);
    bmc.flashes_later.store(true, Ordering::SeqCst);
    bmc.updates_limits.lock().unwrap().clear();
    let done = operator.reset_bmc(reset()).await.unwrap().into_inner();
    let Some(Reset::Changed(changed)) = done.result else {
        panic!("{done:?}")
    };
    assert!(changed.answer.contains("not known"), "{changed:?}");
    assert_eq!(bmc.changes(), ["BMC reset"]);
    assert_eq!(bmc.updates_limits.lock().unwrap().len(), 3);
    drop(agent);
}
