//! Soft off, cycle, reset and diagnostic interrupt, and the replacement of operations.

use std::time::Duration;

use crate::kit::*;
use rackhand_bmc::{ErrorKind, PowerCommand, PowerState};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, await_response::Event, begin_request::Action},
};
use rackhand_transport::{CallErrorKind, Refusal, classify};

fn ms(millis: u64) -> Option<prost_types::Duration> {
    Some(duration_to_proto(Duration::from_millis(millis)))
}

fn asks(id: &str, host: &str, action: Action) -> v1::BeginRequest {
    v1::BeginRequest {
        action: Some(action),
        ..off(id, host)
    }
}

/// A soft off with short confirmation intervals and a long limit.
fn soft(id: &str, host: &str) -> v1::BeginRequest {
    asks(id, host, Action::PowerSoftOff(soft_off(10_000, false)))
}

fn soft_off(limit: u64, then_force: bool) -> v1::PowerSoftOff {
    v1::PowerSoftOff {
        limit: ms(limit),
        then_force,
        confirm_interval: ms(20),
        ..v1::PowerSoftOff::default()
    }
}

fn reset(id: &str) -> v1::BeginRequest {
    asks(id, "node-1", Action::PowerReset(v1::PowerReset {}))
}

fn nmi(id: &str) -> v1::BeginRequest {
    asks(id, "node-1", Action::PowerNmi(v1::PowerNmi {}))
}

fn cycle(id: &str) -> v1::BeginRequest {
    let hold_off = ms(10);
    asks(
        id,
        "node-1",
        Action::PowerCycle(v1::PowerCycle { hold_off }),
    )
}

#[tokio::test]
async fn soft_off_is_sent_once_and_confirmed() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, soft("a", "node-1")).await.unwrap();
    let (events, outcome) = follow(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed, "{outcome:?}");
    assert_eq!(outcome.message, "host node-1: confirmed off");
    assert_eq!((outcome.commands_sent, outcome.readings.len()), (1, 2));
    let sent = |event: &Event| matches!(event, Event::CommandSent(c) if c.command == "soft-off");
    assert!(events.iter().any(sent), "{events:?}");
    let log = site.bmcs.of(1).log.lock().unwrap().clone();
    assert_eq!(log, [PowerCommand::SoftOff]);
    agent.shutdown().await;
}

#[tokio::test]
async fn soft_off_timeout_forces_only_if_requested() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).deaf.lock().unwrap() = true;
    let unforced = asks("a", "node-1", Action::PowerSoftOff(soft_off(300, false)));
    begin(&mut client, unforced).await.unwrap();
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Unconfirmed);
    assert_eq!(
        outcome.message,
        "host node-1: the host did not shut down within 300ms, it was not forced: the last \
         reading was on; next: power off"
    );
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    let forced = asks("b", "node-1", Action::PowerSoftOff(soft_off(300, true)));
    begin(&mut client, forced).await.unwrap();
    let outcome = crate::kit::outcome(&mut client, "b").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed);
    assert_eq!(
        outcome.message,
        "host node-1: confirmed off, by force: the host did not shut down"
    );
    let log = site.bmcs.of(1).log.lock().unwrap().clone();
    use PowerCommand::{Off, SoftOff};
    assert_eq!(log, [SoftOff, SoftOff, Off], "one soft off per operation");
    agent.shutdown().await;
}

#[tokio::test]
async fn hard_off_replaces_a_soft_off_at_once() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).deaf.lock().unwrap() = true;
    begin(&mut client, soft("soft", "node-1")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    begin(&mut client, soft("softer", "node-1")).await.unwrap();
    begin(&mut client, on("on", "node-1")).await.unwrap();
    begin(&mut client, off("hard", "node-1")).await.unwrap();
    // An earlier `on` would switch on a host that was switched off since.
    for id in ["soft", "softer", "on"] {
        let outcome = outcome(&mut client, id).await;
        assert_eq!(outcome.code(), OutcomeCode::Cancelled);
        assert_eq!(
            outcome.message,
            "host node-1: replaced by operation hard, a hard power off"
        );
    }
    let hard = outcome(&mut client, "hard").await;
    assert_eq!(hard.message, "host node-1: confirmed off");
    let log = site.bmcs.of(1).log.lock().unwrap().clone();
    use PowerCommand::{Off, SoftOff};
    assert_eq!(log, [SoftOff, Off]);
    assert_eq!(*site.bmcs.of(1).power.lock().unwrap(), PowerState::Off);
    agent.shutdown().await;
}

#[tokio::test]
async fn hard_offs_run_one_at_a_time() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    let first = v1::BeginRequest {
        deadline: ms(1000),
        ..off("first", "node-1")
    };
    begin(&mut client, first).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    begin(&mut client, off("second", "node-1")).await.unwrap();
    let first = outcome(&mut client, "first").await;
    assert_eq!(first.code(), OutcomeCode::Unconfirmed, "{first:?}");
    *site.bmcs.of(1).stubborn.lock().unwrap() = false;
    let second = outcome(&mut client, "second").await;
    assert_eq!(second.code(), OutcomeCode::Confirmed);
    agent.shutdown().await;
}

#[tokio::test]
async fn forcing_soft_off_is_not_replaced() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).deaf.lock().unwrap() = true;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    let forced = asks("soft", "node-1", Action::PowerSoftOff(soft_off(200, true)));
    begin(&mut client, forced).await.unwrap();
    site.bmcs.of(1).commanded_times(2).await;
    begin(&mut client, off("hard", "node-1")).await.unwrap();
    site.bmcs.of(1).set(PowerState::Off);
    let soft = outcome(&mut client, "soft").await;
    assert_eq!(soft.code(), OutcomeCode::Confirmed, "{soft:?}");
    let hard = outcome(&mut client, "hard").await;
    assert_eq!(
        hard.message, "host node-1: confirmed off",
        "the hard off sends its own command"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn cycle_is_confirmed_after_off_and_on() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, cycle("a")).await.unwrap();
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed);
    assert_eq!(
        outcome.message,
        "host node-1: was off, and is confirmed on again"
    );
    assert_eq!((outcome.commands_sent, outcome.readings.len()), (2, 1));
    assert_eq!(site.bmcs.of(1).commands(), (1, 1));
    agent.shutdown().await;
}

#[tokio::test]
async fn reset_and_nmi_are_sent_once_for_any_response() {
    for (command, request) in [
        (PowerCommand::Reset, reset as fn(&str) -> _),
        (PowerCommand::Nmi, nmi as fn(&str) -> _),
    ] {
        let site = Site::new(1);
        let agent = site.start().await;
        let mut client = site.local().await;
        let name = command.words();
        let unknown = format!("host node-1: no answer to the {name}, so it is unknown");
        for (id, refuses, code, message) in [
            (
                "taken",
                None,
                OutcomeCode::Confirmed,
                format!("host node-1: the BMC accepted the {name}; the last reading was on"),
            ),
            (
                "lost",
                Some((ErrorKind::Timeout, true)),
                OutcomeCode::Unconfirmed,
                unknown,
            ),
            (
                "refused",
                Some((ErrorKind::Refused, false)),
                OutcomeCode::Failed,
                "host node-1: the BMC refuses the command (BMC redfish://10.0.0.1".to_owned(),
            ),
            (
                "busy",
                Some((ErrorKind::Busy, false)),
                OutcomeCode::Failed,
                "host node-1: the BMC failed (BMC redfish://10.0.0.1".to_owned(),
            ),
        ] {
            *site.bmcs.of(1).refuses.lock().unwrap() = refuses;
            site.bmcs.of(1).log.lock().unwrap().clear();
            begin(&mut client, request(id)).await.unwrap();
            let outcome = outcome(&mut client, id).await;
            assert_eq!(outcome.code(), code, "{outcome:?}");
            assert!(outcome.message.starts_with(&message), "{outcome:?}");
            assert_eq!(*site.bmcs.of(1).log.lock().unwrap(), [command]);
        }
        site.bmcs.of(1).set(PowerState::Off);
        begin(&mut client, request("off")).await.unwrap();
        let outcome = outcome(&mut client, "off").await;
        assert_eq!(outcome.code(), OutcomeCode::Failed);
        assert_eq!(outcome.commands_sent, 0, "{outcome:?}");
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn reset_is_not_sent_again_after_an_agent_crash() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).mute.lock().unwrap() = true;
    begin(&mut client, reset("a")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    agent.abort().await;
    *site.bmcs.of(1).mute.lock().unwrap() = false;
    let agent = site.start().await;
    let mut client = site.local().await;
    assert!(!begin(&mut client, reset("a")).await.unwrap());
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Interrupted);
    assert!(outcome.message.contains("one command may have reached"));
    agent.shutdown().await;
    assert_eq!(*site.bmcs.of(1).log.lock().unwrap(), [PowerCommand::Reset]);
}

#[tokio::test]
async fn held_host_accepts_only_off() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    claim(&mut controller, 1).await;
    begin(&mut controller, by_leader(off("fence", "node-1"), 1, 1))
        .await
        .unwrap();
    outcome(&mut controller, "fence").await;
    let mut operator = site.operator(&agent).await;
    for request in [
        on("on", "node-1"),
        cycle("cycle"),
        reset("reset"),
        nmi("nmi"),
    ] {
        let id = request.operation_id.clone();
        let held = begin(&mut operator, request).await.unwrap_err();
        let kind = classify(&held).kind;
        assert_eq!(kind, CallErrorKind::Refused(Refusal::Held), "{id}");
        assert!(held.message().contains("--force"), "{held}");
    }
    begin(&mut operator, soft("soft", "node-1")).await.unwrap();
    let asked = outcome(&mut operator, "soft").await;
    assert_eq!(asked.detail(), v1::OutcomeDetail::NotTaken, "{asked:?}");
    begin(&mut operator, off("off", "node-1")).await.unwrap();
    let off = outcome(&mut operator, "off").await;
    assert_eq!(off.code(), OutcomeCode::Confirmed);
    let taken = off.power_off_taken.expect("the command that was taken");
    assert_eq!(taken.answer, "204");
    assert_eq!(held_by(&mut operator, "node-1").await, "rem-1");
    let forced = v1::BeginRequest {
        force: true,
        ..cycle("forced")
    };
    begin(&mut operator, forced).await.unwrap();
    let forced = outcome(&mut operator, "forced").await;
    assert_eq!(
        forced.message,
        "host node-1: was already off, was sent another power-off, and is confirmed on"
    );
    assert_eq!(held_by(&mut operator, "node-1").await, "", "the host is on");
    agent.shutdown().await;
}

#[tokio::test]
async fn deadline_shorter_than_the_operation_is_rejected() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    for (request, least) in [
        (
            asks("a", "node-1", Action::PowerSoftOff(soft_off(20_000, false))),
            "20.02s",
        ),
        (
            asks(
                "b",
                "node-1",
                Action::PowerCycle(v1::PowerCycle {
                    hold_off: ms(18_000),
                }),
            ),
            "20s",
        ),
    ] {
        let refused = begin(&mut client, request).await.unwrap_err();
        assert_eq!(
            refused.message(),
            format!("deadline: 20s is too short: the operation takes at least {least}")
        );
    }
    let hold_off = ms(61_000);
    let long = asks(
        "d",
        "node-1",
        Action::PowerCycle(v1::PowerCycle { hold_off }),
    );
    let refused = begin(&mut client, long).await.unwrap_err();
    assert_eq!(
        refused.message(),
        "hold_off: longer than 60s; switch off, and on again later"
    );
    let long = v1::BeginRequest {
        deadline: None,
        ..asks(
            "c",
            "node-1",
            Action::PowerSoftOff(soft_off(1_200_000, false)),
        )
    };
    assert!(begin(&mut client, long).await.unwrap());
    let outcome = outcome(&mut client, "c").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed);
    agent.shutdown().await;
}

#[tokio::test]
async fn repeated_failure_is_one_event() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    *site.bmcs.of(1).unreadable.lock().unwrap() = true;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).read_times(3).await;
    *site.bmcs.of(1).unreadable.lock().unwrap() = false;
    let (events, outcome) = follow(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed);
    let failures = events.iter().filter(|e| matches!(e, Event::Failure(_)));
    assert_eq!(failures.count(), 1, "{events:?}");
    agent.shutdown().await;
}
