//! Requests in a session: repetition, and accepted responses.

use std::time::Duration;

use super::world::{LIMIT, World, control, status};
use crate::{ErrorKind, ipmi::wire::Suite};

fn warm() -> World {
    let mut world = World::admin();
    world.ask(control(1)).expect("on");
    world.sent.clear();
    world.bmc.commands.clear();
    world.bmc.controls.clear();
    world
}

#[test]
fn non_idempotent_control_is_sent_once() {
    for byte in [3, 4, 5] {
        let mut world = warm();
        world.is_mute = true;
        let began = world.now;
        let failure = world.ask(control(byte)).expect_err("silence");
        assert_eq!(failure.kind, ErrorKind::Timeout);
        assert!(failure.maybe_sent);
        assert!(failure.message.contains("read the state"), "{failure:?}");
        assert!(failure.message.contains("Chassis Control"), "{failure:?}");
        assert_eq!(world.now - began, LIMIT);
        assert_eq!(world.bmc.controls, [byte]);
        // The command, and Close Session.
        assert_eq!(world.sent.len(), 2);
        world.rest(Duration::from_secs(1));
        assert_eq!(world.bmc.sessions(), (0, 0));
    }
}

#[test]
fn timeout_after_a_rejected_suite_is_reported_as_timeout() {
    let mut world = World::admin();
    world.bmc.suites = vec![Suite::Cipher3];
    world.is_mute = true;
    world.begin(control(3));
    let failure = world.go_on(None).expect("outcome").expect_err("silence");
    assert_eq!(failure.kind, ErrorKind::Timeout, "{failure:?}");
    // Not even the privilege was raised.
    assert!(!failure.maybe_sent);
}

#[test]
fn non_idempotent_control_is_not_repeated_after_busy() {
    for code in [0xc0, 0xc3, 0xd2, 0xd5] {
        let mut world = warm();
        world.bmc.codes = vec![code];
        let answer = world.ask(control(3)).expect("answer");
        assert_eq!(answer.completion, code);
        assert_eq!(world.sent.len(), 1);
    }
}

#[test]
fn idempotent_request_is_repeated_after_busy() {
    for (exchange, codes) in [
        (status(), &[0xc0, 0xc3, 0xc4, 0xd2][..]),
        (control(0), &[0xc0, 0xc3, 0xc4]),
    ] {
        let mut world = warm();
        world.bmc.codes = codes.to_vec();
        let answer = world.ask(exchange.clone()).expect("answer");
        assert_eq!(answer.completion, 0);
        assert_eq!(world.sent.len(), codes.len() + 1);
        let mut world = warm();
        world.bmc.codes = vec![0xc0; 100];
        let began = world.now;
        let answer = world.ask(exchange).expect("answer");
        assert_eq!(answer.completion, 0xc0);
        assert!(world.now - began <= LIMIT);
        assert!(world.sent.len() < 12);
    }
}

#[test]
fn power_command_is_repeated_for_five_seconds_at_most() {
    const REPEATS: Duration = Duration::from_secs(5);
    let mut world = warm();
    world.bmc.codes = vec![0xc0; 100];
    let began = world.now;
    let answer = world.ask(control(0)).expect("answer");
    assert_eq!(answer.completion, 0xc0);
    assert!(world.now - began <= REPEATS, "{:?}", world.now - began);

    // The answer is waited for although the command is not sent again.
    let mut world = warm();
    world.is_mute = true;
    let began = world.now;
    world.begin(control(0));
    while world.now - began < LIMIT {
        let sent = world.bmc.controls.len();
        let late = world.now - began > REPEATS;
        world.machine_step();
        let is_sent = world.bmc.controls.len() > sent;
        assert!(!late || !is_sent, "sent after {:?}", world.now - began);
    }
    assert!(world.bmc.controls.len() > 1, "it was repeated before");
}

#[test]
fn lost_response_is_requested_again_in_a_new_session() {
    let mut world = warm();
    world.faults.drop = 100;
    world.begin(control(0));
    world.machine_step();
    world.faults.drop = 0;
    assert!(world.go_on(None).expect("outcome").is_ok());
    assert_eq!(world.bmc.controls, [0]);
    // The session sequence number of each attempt.
    let number = |packet: &Vec<u8>| packet[10];
    assert_ne!(number(&world.sent[0]), number(&world.sent[1]));
    // A packet still in flight finds no session.
    world.rest(Duration::from_secs(1));
    assert_eq!(world.bmc.sessions(), (0, 0));
    assert!(!world.machine.has_session());
}

#[test]
fn lost_session_is_reestablished_within_the_call() {
    for exchange in [status(), control(0)] {
        let mut world = warm();
        world.rest(Duration::from_secs(20));
        world.bmc.restart();
        let began = world.now;
        world.ask(exchange).expect("answer");
        assert!(world.now - began < Duration::from_secs(1));
    }
}

#[test]
fn idle_session_is_checked_before_a_non_idempotent_control() {
    let mut world = warm();
    world.rest(Duration::from_secs(20));
    world.bmc.restart();
    let began = world.now;
    world.ask(control(3)).expect("reset");
    assert!(world.now - began < Duration::from_secs(1));
    assert_eq!(world.bmc.controls, [3]);
}

#[test]
fn slow_response_is_accepted_on_the_existing_session() {
    let mut world = warm();
    world.slow = Duration::from_millis(1500);
    let began = world.now;
    world.ask(status()).expect("status");
    // The first attempt got its response, although a new handshake had started.
    assert_eq!(world.now - began, Duration::from_millis(1510));
    world.slow = Duration::ZERO;
    world.rest(Duration::from_secs(5));
    assert!(world.machine.has_session());
    assert_eq!(world.bmc.sessions().0, 1);
}

#[test]
fn response_after_2500_ms_is_accepted() {
    let mut world = World::admin();
    world.slow = Duration::from_millis(2500);
    world.ask(status()).expect("status");
    world.ask(control(3)).expect("reset");
    assert_eq!(world.bmc.controls, [3]);
}

#[test]
fn late_response_to_an_earlier_call_is_dropped() {
    let mut world = warm();
    world.slow = Duration::from_millis(200);
    // The BMC reads "on"; the response arrives after the call was dropped.
    world.begin(status());
    let dropped = world.now + Duration::from_millis(100);
    assert!(world.go_on(Some(dropped)).is_none());
    world.switch(false);
    world.slow = Duration::from_millis(150);
    let answer = world.ask(status()).expect("status");
    assert_eq!(answer.data.first(), Some(&0));
    assert!(world.machine.has_session());
}

#[test]
fn replayed_response_is_dropped_when_its_number_recurs() {
    let mut world = warm();
    world.ask(status()).expect("on");
    let old = world.answers.last().expect("an answer").clone();
    // A request sequence number has 6 bits.
    for _ in 0..63 {
        world.ask(status()).expect("status");
    }
    world.switch(false);
    world.begin(status());
    world.machine_step();
    world.machine.receive(&old, world.now, &mut world.seed);
    let answer = world.go_on(None).expect("outcome").expect("status");
    assert_eq!(answer.data.first(), Some(&0));
}

#[test]
fn dropped_call_ends_its_session() {
    let mut world = warm();
    world.faults.drop = 100;
    world.begin(control(0));
    let dropped = world.now + Duration::from_millis(100);
    assert!(world.go_on(Some(dropped)).is_none());
    assert!(!world.machine.has_session());
}

#[test]
fn dropped_handshake_closes_its_session() {
    let mut world = World::admin();
    world.begin(status());
    // Message 3 is in flight.
    let dropped = world.now + Duration::from_millis(22);
    assert!(world.go_on(Some(dropped)).is_none());
    assert_eq!(world.sent.len(), 5);
    world.rest(Duration::from_secs(1));
    assert_eq!(world.bmc.sessions(), (0, 0));
    world.ask(status()).expect("status");
}

#[test]
fn call_after_close_opens_a_new_session() {
    let mut world = warm();
    world.close();
    assert_eq!(world.sent.len(), 1);
    assert_eq!(world.bmc.sessions(), (0, 0));
    world.ask(status()).expect("status");
    assert_eq!(world.sent.len(), 5);
    // Close does not wait for a dead BMC.
    world.is_dead = true;
    let began = world.now;
    world.close();
    assert!(world.now - began <= Duration::from_secs(1));
    assert!(!world.machine.has_session());
}

#[test]
fn dead_bmc_fails_a_call_on_an_open_session_within_its_limit() {
    for exchange in [status(), control(0), control(3)] {
        let mut world = warm();
        world.is_dead = true;
        let began = world.now;
        let failure = world.ask(exchange).expect_err("dead");
        assert_eq!(failure.kind, ErrorKind::Timeout);
        assert!(world.now - began <= LIMIT);
        assert!(!world.machine.has_session());
        assert!(world.sent.len() < 15);
    }
}

#[test]
fn closed_port_fails_a_call_on_an_open_session_at_once() {
    let mut world = warm();
    world.icmp = 10;
    let began = world.now;
    let failure = world.ask(status()).expect_err("refused");
    assert_eq!(failure.kind, ErrorKind::Unreachable);
    assert!(world.now - began < Duration::from_millis(200));
    let mut world = warm();
    world.icmp = 10;
    let failure = world.ask(control(3)).expect_err("refused");
    assert_eq!(
        (failure.kind, failure.maybe_sent),
        (ErrorKind::Unreachable, true)
    );
    assert!(world.now - began < Duration::from_secs(10));
}
