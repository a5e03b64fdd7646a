//! Power by the outlets of two PDUs: the same operations as by the BMC, with the same holds and terms.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crate::{access::authority::refusal, kit::*};
use rackhand_bmc::pdu::OutletState;
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{
        self, OutcomeCode, PowerDevice, begin_request::Action,
        read_pdu_response::Result as ReadPdu, read_power_response::Result as Read,
    },
};
use rackhand_transport::Refusal;
use tonic::Code;

/// `node-1` and `node-2` with outlets 1 and 2 of the PDUs `a` and `b`.
fn site() -> Site {
    let mut site = Site::new(2);
    let pdu = |name: &str, n: u32| {
        format!(
            "[pdus.{name}]\naddress = 'snmp://10.0.0.20{n}'\ntable = 'apc-rpdu2'\n\
             community = 'private'\n"
        )
    };
    site.extra = format!(
        "defaults.call_timeout = '300ms'\ndefaults.shutdown_grace = '0s'\n{}{}",
        pdu("a", 1),
        pdu("b", 2)
    );
    site.of_host =
        "outlets = [{ pdu = 'a', outlet = '{n}' }, { pdu = 'b', outlet = '{n}' }]\n".into();
    site
}

fn by_outlets(request: v1::BeginRequest) -> v1::BeginRequest {
    v1::BeginRequest {
        device: PowerDevice::Outlets.into(),
        ..request
    }
}

fn within(request: v1::BeginRequest, deadline: Duration) -> v1::BeginRequest {
    v1::BeginRequest {
        deadline: Some(duration_to_proto(deadline)),
        ..request
    }
}

async fn read(client: &mut Client, host: &str) -> Read {
    let request = v1::ReadPowerRequest {
        target: target(host),
        device: PowerDevice::Outlets.into(),
        ..v1::ReadPowerRequest::default()
    };
    let response = client.read_power(request).await.unwrap();
    response.into_inner().result.unwrap()
}

#[tokio::test]
async fn host_is_off_when_all_of_its_outlets_are_and_on_again_in_order() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.local().await;
    // The BMC is dead: the outlets replace it.
    site.bmcs.of(1).dead.send_replace(true);
    begin(&mut client, by_outlets(off("off", "node-1")))
        .await
        .unwrap();
    let off = outcome(&mut client, "off").await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert!(off.power_off_taken.is_some());
    assert_eq!(off.readings.len(), 2);
    let last = off.readings.last().unwrap();
    assert_eq!(last.protocol(), v1::Protocol::Outlets);
    assert!(
        last.raw.contains("a/1: off, 0.0 A; b/1: off"),
        "{}",
        last.raw
    );
    let identity = last.identity.clone().unwrap_or_default();
    assert!(identity.system_uuid.is_empty(), "{identity:?}");
    for pdu in [site.bmcs.pdu("a"), site.bmcs.pdu("b")] {
        assert_eq!(pdu.commands(), ["off 1"]);
        assert_eq!(pdu.state("2"), OutletState::On, "the outlet of node-2");
        assert_eq!(pdu.most_at_once.load(Ordering::SeqCst), 1);
    }
    let Read::Reading(reading) = read(&mut client, "node-1").await else {
        panic!("not read")
    };
    assert_eq!(reading.state(), v1::PowerState::Off);

    begin(&mut client, by_outlets(on("on", "node-1")))
        .await
        .unwrap();
    let on = outcome(&mut client, "on").await;
    assert_eq!(on.code(), OutcomeCode::Confirmed, "{on:?}");
    assert_eq!(site.bmcs.pdu("b").commands(), ["off 1", "on 1"]);
    assert_eq!(site.bmcs.of(1).commands(), (0, 0), "the BMC got nothing");
    let listed = client.list_operations(v1::ListOperationsRequest::default());
    let listed = listed.await.unwrap().into_inner().operations;
    assert!(
        listed
            .iter()
            .all(|one| one.device() == PowerDevice::Outlets)
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn f8_nothing_is_switched_while_one_pdu_does_not_answer() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.pdu("b").dead.send_replace(true);
    let request = within(by_outlets(off("off", "node-1")), Duration::from_secs(3));
    begin(&mut client, request).await.unwrap();
    let off = outcome(&mut client, "off").await;
    assert_ne!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert!(off.power_off_taken.is_none());
    let failure = off.failure.unwrap();
    assert!(failure.message.contains("PDU b"), "{failure:?}");
    assert!(
        off.message
            .contains("by its outlets: not confirmed off within 3s: not all outlets"),
        "{}",
        off.message
    );
    assert!(site.bmcs.pdu("a").commands().is_empty());
    assert_eq!(site.bmcs.pdu("a").state("1"), OutletState::On);
    let Read::Failure(failure) = read(&mut client, "node-1").await else {
        panic!("a reading without PDU b")
    };
    assert_eq!(failure.kind(), v1::FailureKind::Timeout);
    agent.shutdown().await;
}

#[tokio::test]
async fn f1_outlet_that_stays_on_or_carries_a_current_is_not_off() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.pdu("b").set("1", |outlet| outlet.stuck = true);
    site.bmcs
        .pdu("b")
        .set("2", |outlet| outlet.leak = Some(0.7));
    for (host, raw) in [("node-1", "b/1: on"), ("node-2", "b/2: off, 0.7 A")] {
        let request = within(by_outlets(off(host, host)), Duration::from_secs(2));
        begin(&mut client, request).await.unwrap();
        let off = outcome(&mut client, host).await;
        assert_eq!(off.code(), OutcomeCode::Unconfirmed, "{off:?}");
        let last = off.readings.last().unwrap();
        assert_ne!(last.state(), v1::PowerState::Off);
        assert!(last.raw.contains(raw), "{}", last.raw);
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn f7_terms_and_holds_apply_to_outlets_as_to_the_bmc() {
    let site = site();
    let mut agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 6).await;
    let first = by_leader(by_outlets(off("a", "node-1")), 6, 1);
    assert!(begin(&mut client, first.clone()).await.unwrap());
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(held_by(&mut client, "node-1").await, "rem-1");
    let other = v1::BeginRequest {
        device: PowerDevice::Bmc.into(),
        ..first.clone()
    };
    let other = begin(&mut client, other).await.unwrap_err();
    assert_eq!(other.code(), Code::InvalidArgument);
    assert!(other.message().contains("by its outlets"), "{other}");
    assert!(!begin(&mut client, first).await.unwrap(), "known");
    claim(&mut client, 7).await;

    for restart in [false, true] {
        if restart {
            agent.shutdown().await;
            agent = site.start().await;
            client = site.controller(&agent).await;
        }
        let stale = by_leader(by_outlets(on("b", "node-1")), 6, 9);
        let stale = begin(&mut client, stale).await.unwrap_err();
        assert_eq!(refusal(&stale), Refusal::StaleTerm);
        let mut person = site.local().await;
        for device in [PowerDevice::Outlets, PowerDevice::Bmc] {
            let request = v1::BeginRequest {
                device: device.into(),
                ..on("c", "node-1")
            };
            let held = begin(&mut person, request).await.unwrap_err();
            assert_eq!(refusal(&held), Refusal::Held, "{device:?}");
        }
        let listed = v1::ListOperationsRequest {
            operation_id: "a".into(),
            ..v1::ListOperationsRequest::default()
        };
        let listed = person.list_operations(listed).await.unwrap().into_inner();
        assert_eq!(listed.operations[0].device(), PowerDevice::Outlets);
    }
    assert_eq!(site.bmcs.pdu("a").commands(), ["off 1"]);
    let mut person = site.local().await;
    let forced = v1::BeginRequest {
        force: true,
        ..by_outlets(on("d", "node-1"))
    };
    begin(&mut person, forced).await.unwrap();
    assert_eq!(
        outcome(&mut person, "d").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(held_by(&mut person, "node-1").await, "");
    agent.shutdown().await;
}

#[tokio::test]
async fn operation_of_a_killed_agent_is_interrupted_and_its_outlets_are_read() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.pdu("a").set("1", |outlet| outlet.stuck = true);
    begin(&mut client, by_outlets(off("a", "node-1")))
        .await
        .unwrap();
    // A reading, the reading of the command, and the command.
    site.bmcs.pdu("a").called_times(4).await;
    agent.abort().await;
    drop(client);
    let commands = site.bmcs.pdu("a").commands();
    let calls = *site.bmcs.pdu("a").calls.borrow();

    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.pdu("a").called_times(calls + 1).await;
    let noted = async {
        loop {
            let outcome = outcome(&mut client, "a").await;
            assert_eq!(outcome.code(), OutcomeCode::Interrupted);
            if let Some(reading) = outcome.readings.first() {
                return reading.protocol();
            }
        }
    };
    let noted = tokio::time::timeout(Duration::from_secs(10), noted).await;
    assert_eq!(noted.unwrap(), v1::Protocol::Outlets);
    assert_eq!(
        site.bmcs.pdu("a").commands(),
        commands,
        "nothing is repeated"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn outlets_are_only_switched_and_only_where_they_are_known() {
    let mut site = site();
    let agent = site.start().await;
    let mut client = site.local().await;
    for action in [
        Action::PowerSoftOff(v1::PowerSoftOff::default()),
        Action::PowerReset(v1::PowerReset {}),
        Action::PowerNmi(v1::PowerNmi {}),
    ] {
        let request = v1::BeginRequest {
            action: Some(action),
            deadline: None,
            ..by_outlets(off("a", "node-1"))
        };
        let refused = begin(&mut client, request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("needs the BMC"), "{refused}");
    }
    let cycle = v1::BeginRequest {
        action: Some(Action::PowerCycle(v1::PowerCycle {
            hold_off: Some(duration_to_proto(Duration::from_millis(10))),
        })),
        ..by_outlets(off("cycle", "node-2"))
    };
    begin(&mut client, cycle).await.unwrap();
    let cycle = outcome(&mut client, "cycle").await;
    assert_eq!(cycle.code(), OutcomeCode::Confirmed, "{cycle:?}");
    assert_eq!(site.bmcs.pdu("a").commands(), ["off 2", "on 2"]);
    agent.shutdown().await;

    site.extra = String::new();
    site.of_host = String::new();
    let agent = site.start().await;
    let mut client = site.local().await;
    let refused = begin(&mut client, by_outlets(off("b", "node-1"))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("does not name the outlets"));
    agent.shutdown().await;
}

#[tokio::test]
async fn dead_pdu_delays_no_host_of_another_and_no_bmc() {
    let mut site = site();
    site.of_host = "outlets = [{ pdu = '{pdu}', outlet = '{n}' }]\n".into();
    let agent = site.start().await;
    site.bmcs.pdu("a").dead.send_replace(true);
    let mut client = site.local().await;
    let request = within(by_outlets(off("dead", "node-1")), Duration::from_secs(20));
    begin(&mut client, request).await.unwrap();
    site.bmcs.pdu("a").called_times(1).await;
    let begun = Instant::now();
    begin(&mut client, by_outlets(off("alive", "node-2")))
        .await
        .unwrap();
    let alive = outcome(&mut client, "alive").await;
    assert_eq!(alive.code(), OutcomeCode::Confirmed, "{alive:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    agent.abort().await;
}

#[tokio::test]
async fn operators_list_and_read_pdus() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.local().await;
    let listed = client.list_pdus(v1::ListPdusRequest {}).await.unwrap();
    let pdus = listed.into_inner().pdus;
    let names: Vec<(&str, &str, u32)> = pdus
        .iter()
        .map(|pdu| (pdu.name.as_str(), pdu.address.as_str(), pdu.outlets))
        .collect();
    assert_eq!(
        names,
        [
            ("a", "snmp://10.0.0.201:161", 2),
            ("b", "snmp://10.0.0.202:161", 2)
        ]
    );
    assert_eq!(pdus[0].hosts, ["node-1", "node-2"]);
    let ask = |pdu: &str| v1::ReadPduRequest {
        pdu: pdu.to_owned(),
        timeout: None,
    };
    let read = client.read_pdu(ask("a")).await.unwrap().into_inner().result;
    let Some(ReadPdu::Outlets(readings)) = read else {
        panic!("{read:?}")
    };
    let shown: Vec<(&str, &str, Option<f64>)> = readings
        .outlets
        .iter()
        .map(|one| (one.outlet.as_str(), one.host.as_str(), one.amperes))
        .collect();
    assert_eq!(
        shown,
        [
            ("1", "node-1", Some(1.5)),
            ("2", "node-2", Some(1.5)),
            ("3", "", Some(1.5)),
            ("4", "", Some(1.5))
        ]
    );
    site.bmcs.pdu("b").dead.send_replace(true);
    let read = client.read_pdu(ask("b")).await.unwrap().into_inner().result;
    let Some(ReadPdu::Failure(failure)) = read else {
        panic!("{read:?}")
    };
    assert!(failure.message.starts_with("PDU b: "), "{failure:?}");
    let unknown = client.read_pdu(ask("x")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let mut controller = site.controller(&agent).await;
    let refused = controller.list_pdus(v1::ListPdusRequest {}).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let checks = client.check_host(v1::CheckHostRequest {
        target: target("node-1"),
        timeout: None,
    });
    let checks = checks.await.unwrap().into_inner().checks;
    let of_pdus: Vec<(v1::Verdict, &str)> = checks
        .iter()
        .filter(|check| check.check == "outlets")
        .map(|check| (check.verdict(), check.bmc.as_str()))
        .collect();
    assert_eq!(
        of_pdus,
        [
            (v1::Verdict::Ok, "snmp://10.0.0.201:161"),
            (v1::Verdict::Failed, "snmp://10.0.0.202:161")
        ]
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn rejected_community_rests_until_it_is_changed() {
    let mut site = site();
    site.extra = site
        .extra
        .replace("community = 'private'", "community_file = 'community'");
    let file = site.dir.path().join("community");
    std::fs::write(&file, "wrong").unwrap();
    let agent = site.start().await;
    let mut client = site.local().await;
    let ask = || v1::ReadPduRequest {
        pdu: "a".to_owned(),
        timeout: None,
    };
    for _ in 0..3 {
        let read = client.read_pdu(ask()).await.unwrap().into_inner().result;
        let Some(ReadPdu::Failure(failure)) = read else {
            panic!("{read:?}")
        };
        assert_eq!(failure.kind(), v1::FailureKind::Authentication);
        assert!(failure.message.contains("tried again only now and then"));
    }
    assert_eq!(*site.bmcs.pdu("a").calls.borrow(), 1);
    std::fs::write(&file, "private").unwrap();
    let read = client.read_pdu(ask()).await.unwrap().into_inner().result;
    assert!(matches!(read, Some(ReadPdu::Outlets(_))), "{read:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn calls_of_many_hosts_to_one_pdu_run_one_at_a_time() {
    let mut site = site();
    site.of_host = "outlets = [{ pdu = 'a', outlet = '{n}' }]\n".into();
    site.extra = site.extra.split("[pdus.b]").next().unwrap().to_owned();
    let agent = site.start().await;
    let mut client = site.local().await;
    for n in 1..=2 {
        let (id, host) = (format!("op-{n}"), format!("node-{n}"));
        begin(&mut client, by_outlets(off(&id, &host)))
            .await
            .unwrap();
    }
    for n in 1..=2 {
        let off = outcome(&mut client, &format!("op-{n}")).await;
        assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    }
    let pdu = site.bmcs.pdu("a");
    assert_eq!(pdu.most_at_once.load(Ordering::SeqCst), 1);
    assert_eq!(pdu.commands().len(), 2);
    agent.shutdown().await;
}
