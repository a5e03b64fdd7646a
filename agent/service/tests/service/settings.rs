//! Boot override, LED, sensors and event log: their order among the operations, and permissions.

use std::{sync::Arc, time::Duration};

use crate::kit::*;
use rackhand_bmc::{PowerState, SystemIdentity};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, begin_request::Action},
};
use rackhand_transport::{CallErrorKind, Refusal, classify};
use tonic::{Code, Status};

fn set_boot(host: &str, force: bool) -> v1::SetBootRequest {
    v1::SetBootRequest {
        target: target(host),
        timeout: Some(duration_to_proto(Duration::from_secs(20))),
        boot: Some(v1::BootOverride {
            device: v1::BootDevice::Pxe.into(),
            ..v1::BootOverride::default()
        }),
        force,
        call: None,
    }
}

fn lit(host: &str) -> v1::IdentifyRequest {
    v1::IdentifyRequest {
        target: target(host),
        lit: true,
        ..v1::IdentifyRequest::default()
    }
}

fn clear(host: &str) -> v1::ClearEventsRequest {
    v1::ClearEventsRequest {
        target: target(host),
        ..v1::ClearEventsRequest::default()
    }
}

fn sensors(host: &str) -> v1::ReadSensorsRequest {
    v1::ReadSensorsRequest {
        target: target(host),
        timeout: Some(duration_to_proto(Duration::from_secs(20))),
    }
}

/// A running operation that lasts until it is cancelled: the host does not shut down.
async fn busy(client: &mut Client, site: &Site, id: &str) {
    let bmc = site.bmcs.of(1);
    *bmc.deaf.lock().unwrap() = true;
    let soft = Action::PowerSoftOff(v1::PowerSoftOff {
        limit: Some(duration_to_proto(Duration::from_secs(600))),
        ..v1::PowerSoftOff::default()
    });
    let request = v1::BeginRequest {
        action: Some(soft),
        deadline: Some(duration_to_proto(Duration::from_secs(900))),
        ..off(id, "node-1")
    };
    begin(client, request).await.unwrap();
    bmc.commanded_times(1).await;
}

async fn cancel(client: &mut Client, id: &str) {
    let request = v1::CancelRequest {
        operation_id: id.into(),
        force: false,
        term: None,
    };
    client.cancel(request).await.unwrap();
}

fn is_held(status: &Status) -> bool {
    classify(status).kind == CallErrorKind::Refused(Refusal::Held)
}

#[tokio::test]
async fn hold_blocks_changes_but_not_reads_and_led() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut leader = site.controller(&agent).await;
    claim(&mut leader, 1).await;
    let held = by_leader(off("a", "node-1"), 1, 1);
    begin(&mut leader, held).await.unwrap();
    assert_eq!(
        outcome(&mut leader, "a").await.code(),
        OutcomeCode::Confirmed
    );
    let mut client = site.local().await;

    let refused = client.set_boot(set_boot("node-1", false)).await;
    assert!(is_held(&refused.unwrap_err()));
    let refused = client.clear_events(clear("node-1")).await;
    assert!(is_held(&refused.unwrap_err()));
    assert!(site.bmcs.of(1).changes().is_empty());

    client.identify(lit("node-1")).await.unwrap();
    client.read_sensors(sensors("node-1")).await.unwrap();
    let read = v1::ReadBootRequest {
        target: target("node-1"),
        timeout: None,
    };
    client.read_boot(read).await.unwrap();
    let forced = client.set_boot(set_boot("node-1", true)).await.unwrap();
    let forced = forced.into_inner().result.unwrap();
    assert!(
        matches!(forced, v1::set_boot_response::Result::Changed(_)),
        "{forced:?}"
    );
    assert_eq!(site.bmcs.of(1).changes(), ["LED On", "boot Pxe"]);
    agent.shutdown().await;
}

#[tokio::test]
async fn change_waits_for_the_running_operation() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    busy(&mut client, &site, "soft").await;
    let mut other = site.local().await;
    let set = tokio::spawn(async move { other.set_boot(set_boot("node-1", false)).await });
    // The operation continues to read, and the change does not run in between.
    let reads = *site.bmcs.of(1).reads.borrow();
    site.bmcs.of(1).read_times(reads + 3).await;
    assert!(site.bmcs.of(1).changes().is_empty());
    cancel(&mut client, "soft").await;
    set.await.unwrap().unwrap();
    assert_eq!(site.bmcs.of(1).changes(), ["boot Pxe"]);
    agent.shutdown().await;
}

#[tokio::test]
async fn hard_off_cancels_a_waiting_change() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    busy(&mut client, &site, "soft").await;
    let mut other = site.local().await;
    let set = tokio::spawn(async move { other.set_boot(set_boot("node-1", false)).await });
    let reads = *site.bmcs.of(1).reads.borrow();
    site.bmcs.of(1).read_times(reads + 3).await;
    begin(&mut client, off("hard", "node-1")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "hard").await.code(),
        OutcomeCode::Confirmed
    );
    let set = set.await.unwrap().unwrap().into_inner().result.unwrap();
    let v1::set_boot_response::Result::Failure(failure) = set else {
        panic!("{set:?}");
    };
    assert_eq!(failure.kind(), v1::FailureKind::Busy);
    assert!(failure.message.contains("hard power off"), "{failure:?}");
    assert!(site.bmcs.of(1).changes().is_empty());
    agent.shutdown().await;
}

#[tokio::test]
async fn long_sensor_read_yields_to_a_power_operation() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    bmc.slow.send_replace(true);
    let mut other = site.local().await;
    let reading = tokio::spawn(async move { other.read_sensors(sensors("node-1")).await });
    bmc.sensed
        .subscribe()
        .wait_for(|sensed| *sensed > 0)
        .await
        .unwrap();
    let mut client = site.local().await;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(*bmc.power.lock().unwrap(), PowerState::Off);
    // The sensor read starts over after each call of the operation.
    bmc.slow.send_replace(false);
    let read = reading.await.unwrap().unwrap().into_inner().result.unwrap();
    let v1::read_sensors_response::Result::Sensors(read) = read else {
        panic!("{read:?}");
    };
    assert_eq!(read.sensors[0].role(), v1::SensorRole::PowerDraw);
    assert_eq!(read.sensors[0].value, Some(312.0));
    assert!(*bmc.sensed.borrow() > 1);
    agent.shutdown().await;
}

#[tokio::test]
async fn identity_mismatch_prevents_changes() {
    let site = Site::new(1);
    let mut config = site.config();
    Arc::make_mut(&mut config.inventory.hosts[0]).system_uuid =
        Some("4c4c4544-0042-3510-8054-c2c04f4e4e32".into());
    let agent = rackhand_agent_service::Agent::start(config, Arc::new(site.bmcs.clone()))
        .await
        .unwrap();
    *site.bmcs.of(1).identity.lock().unwrap() = SystemIdentity {
        system_uuid: Some("00000000-0000-0000-0000-00000000abcd".into()),
        ..SystemIdentity::default()
    };
    let mut client = site.local().await;
    let refused = client.identify(lit("node-1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("00000000abcd"), "{refused:?}");
    assert!(site.bmcs.of(1).changes().is_empty());
    agent.shutdown().await;
}

#[tokio::test]
async fn agent_switches_off_an_led_without_a_timer() {
    let site = Site::new(1);
    let agent = site.start().await;
    let bmc = site.bmcs.of(1);
    *bmc.no_timer.lock().unwrap() = true;
    let mut client = site.local().await;
    let lit_for = |time: Duration| v1::IdentifyRequest {
        lit_for: Some(duration_to_proto(time)),
        ..lit("node-1")
    };
    client
        .identify(lit_for(Duration::from_millis(1)))
        .await
        .unwrap();
    let mut changed = bmc.changed.subscribe();
    changed.wait_for(|changed| *changed == 2).await.unwrap();
    assert_eq!(bmc.changes(), ["LED On", "LED Off"]);
    // A long timer ends with the agent.
    client
        .identify(lit_for(Duration::from_secs(3600)))
        .await
        .unwrap();
    agent.shutdown().await;
    assert_eq!(bmc.changes()[2..], ["LED On", "LED Off"]);
}

#[tokio::test]
async fn controller_may_light_a_led_for_a_time_and_change_no_setting() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut leader = site.controller(&agent).await;
    for refused in [
        leader
            .set_boot(set_boot("node-1", true))
            .await
            .err()
            .unwrap(),
        leader.clear_events(clear("node-1")).await.err().unwrap(),
    ] {
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
    // It may light a LED, but only for a time: it may be gone when the time is over.
    let forever = leader.identify(lit("node-1")).await.err().unwrap();
    assert_eq!(forever.code(), Code::InvalidArgument);
    leader.read_sensors(sensors("node-1")).await.unwrap();
    assert!(site.bmcs.of(1).changes().is_empty());
    let for_a_time = v1::IdentifyRequest {
        lit_for: Some(duration_to_proto(Duration::from_secs(240))),
        ..lit("node-1")
    };
    leader.identify(for_a_time).await.unwrap();
    assert_eq!(site.bmcs.of(1).changes(), ["LED For(240s)"]);
    agent.shutdown().await;
}

#[tokio::test]
async fn unconfirmed_outcomes_have_a_detail() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).deaf.lock().unwrap() = true;
    let soft = Action::PowerSoftOff(v1::PowerSoftOff {
        limit: Some(duration_to_proto(Duration::from_millis(50))),
        ..v1::PowerSoftOff::default()
    });
    let request = v1::BeginRequest {
        action: Some(soft),
        ..off("soft", "node-1")
    };
    begin(&mut client, request).await.unwrap();
    let ended = outcome(&mut client, "soft").await;
    assert_eq!(ended.code(), OutcomeCode::Unconfirmed);
    assert_eq!(ended.detail(), v1::OutcomeDetail::NotShutDown);

    *site.bmcs.of(1).refuses.lock().unwrap() = Some((rackhand_bmc::ErrorKind::Timeout, true));
    let reset = v1::BeginRequest {
        action: Some(Action::PowerReset(v1::PowerReset {})),
        ..off("reset", "node-1")
    };
    begin(&mut client, reset).await.unwrap();
    let ended = outcome(&mut client, "reset").await;
    assert_eq!(ended.code(), OutcomeCode::Unconfirmed);
    assert_eq!(ended.detail(), v1::OutcomeDetail::Unknown);
    agent.shutdown().await;
}
