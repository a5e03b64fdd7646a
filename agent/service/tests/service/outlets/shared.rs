//! Outlets that feed several hosts: no host loses its power unless it is off, or an operator names it.

use std::time::Duration;

use crate::{access::authority::refusal, kit::*};
use futures::StreamExt;
use rackhand_bmc::{PowerState, pdu::OutletState};
use rackhand_proto::v1::{self, OutcomeCode, PowerDevice, await_response::Event};
use rackhand_transport::Refusal;
use tonic::Code;

/// `node-1` and `node-2`, which outlet 1 of one PDU feeds.
fn site() -> Site {
    let mut site = Site::new(2);
    site.extra = "defaults.call_timeout = '500ms'\ndefaults.shutdown_grace = '0s'\n\
                  [pdus.a]\naddress = 'snmp://10.0.0.201'\ntable = 'apc-rpdu2'\n\
                  community = 'private'\n"
        .into();
    site.of_host = "outlets = [{ pdu = 'a', outlet = '1', shared = true }]\n".into();
    site
}

fn by_outlets(request: v1::BeginRequest) -> v1::BeginRequest {
    v1::BeginRequest {
        device: PowerDevice::Outlets.into(),
        ..request
    }
}

async fn ended(client: &mut Client, request: v1::BeginRequest) -> v1::Outcome {
    let id = request.operation_id.clone();
    begin(client, request).await.unwrap();
    outcome(client, &id).await
}

#[tokio::test]
async fn f8_shared_outlet_is_not_switched_off_while_a_sibling_is_on() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 6).await;
    let request = by_leader(by_outlets(off("a", "node-1")), 6, 1);
    let refused = ended(&mut client, request).await;
    assert_eq!(refused.code(), OutcomeCode::Failed, "{refused:?}");
    assert!(refused.power_off_taken.is_none());
    let message = &refused.message;
    assert!(message.contains("also feed host node-2 (on)"), "{message}");
    assert!(message.ends_with("--with-siblings node-2"), "{message}");
    assert!(site.bmcs.pdu("a").commands().is_empty());
    assert_eq!(held_by(&mut client, "node-1").await, "rem-1");
    assert_eq!(held_by(&mut client, "node-2").await, "", "nothing was cut");

    // Its owner switches it off by its BMC, and it may be on again only when the outlet is.
    let mut person = site.local().await;
    let sibling = ended(&mut person, off("sibling", "node-2")).await;
    assert_eq!(sibling.code(), OutcomeCode::Confirmed, "{sibling:?}");
    let request = by_leader(by_outlets(off("b", "node-1")), 6, 2);
    let off = ended(&mut client, request).await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert_eq!(site.bmcs.pdu("a").commands(), ["off 1"]);
    for device in [PowerDevice::Bmc, PowerDevice::Outlets] {
        let request = v1::BeginRequest {
            device: device.into(),
            ..on("c", "node-2")
        };
        let held = begin(&mut person, request).await.unwrap_err();
        assert_eq!(refusal(&held), Refusal::Held, "{device:?}");
        assert!(held.message().contains("pdu on node-1"), "{held}");
    }
    let listed = v1::ListOperationsRequest {
        operation_id: "b".into(),
        ..v1::ListOperationsRequest::default()
    };
    let listed = person.list_operations(listed).await.unwrap().into_inner();
    assert_eq!(listed.operations[0].detail, "the outlets also feed node-2");

    let request = by_leader(by_outlets(on("d", "node-1")), 6, 3);
    let on_again = ended(&mut client, request).await;
    assert_eq!(on_again.code(), OutcomeCode::Confirmed, "{on_again:?}");
    assert_eq!(held_by(&mut person, "node-2").await, "");
    let sibling = ended(&mut person, on("e", "node-2")).await;
    assert_eq!(sibling.code(), OutcomeCode::Confirmed, "{sibling:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn sibling_that_is_not_read_keeps_its_power_unless_an_operator_names_it() {
    let site = site();
    let agent = site.start().await;
    site.bmcs.of(2).dead.send_replace(true);
    let mut person = site.local().await;
    let refused = ended(&mut person, by_outlets(off("a", "node-1"))).await;
    assert_eq!(refused.code(), OutcomeCode::Failed, "{refused:?}");
    assert!(
        refused.message.contains("node-2 (not known to be off"),
        "{}",
        refused.message
    );
    assert_eq!(refused.failure.unwrap().kind(), v1::FailureKind::Refused);
    assert_eq!(site.bmcs.pdu("a").state("1"), OutletState::On);

    let named = v1::BeginRequest {
        with_siblings: vec!["node-1".into(), "worker-2".into()],
        ..by_outlets(off("b", "node-1"))
    };
    let off = ended(&mut person, named).await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert_eq!(site.bmcs.pdu("a").state("1"), OutletState::Off);
    let listed = v1::ListOperationsRequest {
        operation_id: "b".into(),
        ..v1::ListOperationsRequest::default()
    };
    let listed = person.list_operations(listed).await.unwrap().into_inner();
    assert_eq!(
        listed.operations[0].detail,
        "the outlets also feed node-2 (may lose power)"
    );
    agent.shutdown().await;
}

/// A power-off of `node-1` by its outlet, beside `node-2`, which is off. `change` is called before the second command.
async fn second_power_off(site: &Site, change: impl FnOnce()) -> v1::Outcome {
    let agent = site.start().await;
    let mut person = site.local().await;
    let sibling = ended(&mut person, off("sibling", "node-2")).await;
    assert_eq!(sibling.code(), OutcomeCode::Confirmed, "{sibling:?}");
    begin(&mut person, by_outlets(off("a", "node-1")))
        .await
        .unwrap();
    let request = v1::AwaitRequest {
        operation_id: "a".into(),
    };
    let mut events = person.r#await(request).await.unwrap().into_inner();
    let mut change = Some(change);
    let mut commands = 0;
    let outcome = loop {
        let event = events.next().await.unwrap().unwrap().event.unwrap();
        match event {
            Event::CommandSent(sent) if sent.answer.is_empty() => commands += 1,
            Event::Outcome(outcome) => break outcome,
            // Result of the first command: its failure, or the reading after it.
            Event::Failure(_) | Event::Reading(_) if commands == 1 => {
                if let Some(change) = change.take() {
                    change();
                }
            }
            _ => {}
        }
    };
    assert!(change.is_none());
    agent.shutdown().await;
    outcome
}

#[tokio::test]
async fn f8_power_off_that_failed_does_not_explain_a_silent_sibling() {
    let site = site();
    let pdu = site.bmcs.pdu("a");
    pdu.set("1", |outlet| outlet.refusals = 1);
    // Its button switches it on, and its BMC stops answering.
    let lost = || {
        site.bmcs.of(2).set(PowerState::On);
        site.bmcs.of(2).dead.send_replace(true);
    };
    let refused = second_power_off(&site, lost).await;
    assert_eq!(refused.code(), OutcomeCode::Failed, "{refused:?}");
    let message = &refused.message;
    assert!(message.contains("node-2 (not known to be off"), "{message}");
    assert!(
        message.ends_with("1 command had been sent before"),
        "{message}"
    );
    assert_eq!(pdu.commands(), ["off 1"]);
    assert_eq!(pdu.state("1"), OutletState::On, "the sibling has its power");
}

#[tokio::test]
async fn sibling_whose_bmc_has_lost_its_power_delays_no_repetition() {
    let mut site = site();
    site.extra = format!("defaults.resend_after = '1s'\n{}", site.extra);
    let pdu = site.bmcs.pdu("a");
    // The PDU accepts the command, and reports the change late.
    pdu.set("1", |outlet| outlet.stuck = true);
    let cut = || {
        site.bmcs.of(2).dead.send_replace(true);
        pdu.set("1", |outlet| outlet.stuck = false);
    };
    let off = second_power_off(&site, cut).await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert_eq!(pdu.commands(), ["off 1", "off 1"]);
}

#[tokio::test]
async fn siblings_are_named_only_by_operators_for_a_power_off_by_outlets() {
    let site = site();
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 6).await;
    let named = |request: v1::BeginRequest, name: &str| v1::BeginRequest {
        with_siblings: vec![name.into()],
        ..request
    };
    let request = by_leader(by_outlets(off("a", "node-1")), 6, 1);
    let refused = begin(&mut client, named(request, "node-2")).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let mut person = site.local().await;
    for request in [
        named(off("b", "node-1"), "node-2"),
        named(by_outlets(on("b", "node-1")), "node-2"),
        named(by_outlets(off("b", "node-1")), "node-3"),
    ] {
        let refused = begin(&mut person, request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("with_siblings"), "{refused}");
    }
    assert!(site.bmcs.pdu("a").commands().is_empty());
    agent.shutdown().await;
}

#[tokio::test]
async fn f6_outlet_is_not_switched_off_during_an_operation_on_a_sibling() {
    let site = site();
    let agent = site.start().await;
    let mut person = site.local().await;
    // The power-on waits for its BMC.
    site.bmcs.of(2).dead.send_replace(true);
    begin(&mut person, on("sibling", "node-2")).await.unwrap();
    let refused = ended(&mut person, by_outlets(off("a", "node-1"))).await;
    assert_eq!(refused.code(), OutcomeCode::Failed, "{refused:?}");
    assert!(
        refused.message.contains("operation sibling (on) runs"),
        "{}",
        refused.message
    );
    assert!(site.bmcs.pdu("a").commands().is_empty());
    tokio::time::timeout(Duration::from_secs(30), agent.shutdown())
        .await
        .unwrap();
}
