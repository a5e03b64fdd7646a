//! Opening a session: number of packets, suite, privilege, and rejected logins.

use std::time::Duration;

use super::world::{World, control, settings, status};
use crate::{
    ErrorKind,
    ipmi::{
        SuiteChoice,
        session::Level,
        wire::{Frame, OpenRequest, OpenResponse, Opened, PayloadType, Suite, plain},
    },
};

fn kinds(world: &World) -> Vec<u8> {
    let kind = |packet: &Vec<u8>| packet[5] & 0x3f;
    world.sent.iter().map(kind).collect()
}

/// The proposed suites and privileges.
fn proposals(world: &World) -> Vec<(Suite, u8)> {
    let open = |packet: &Vec<u8>| match Frame::decode(packet) {
        Ok(Frame::V20 {
            payload_type: PayloadType::OpenRequest,
            payload,
            ..
        }) => {
            let open = OpenRequest::decode(payload).expect("an open request");
            let suite = Suite::of_algorithms(open.algorithms).expect("a suite");
            Some((suite, open.privilege))
        }
        _ => None,
    };
    world.sent.iter().filter_map(open).collect()
}

const OPEN: [u8; 3] = [0x10, 0x12, 0x14];

#[test]
fn first_status_takes_four_packets_and_the_next_one() {
    let mut world = World::admin();
    let answer = world.ask(status()).expect("status");
    assert_eq!((answer.completion, answer.data.len()), (0, 3));
    assert_eq!(answer.guid, super::bmc::GUID);
    assert_eq!(kinds(&world), [OPEN.to_vec(), vec![0]].concat());
    assert_eq!(world.bmc.commands, [(0, 1)]);
    world.ask(status()).expect("status");
    assert_eq!(world.sent.len(), 5);
}

#[test]
fn first_command_takes_five_packets_and_the_next_one() {
    let mut world = World::admin();
    world.ask(control(1)).expect("on");
    assert_eq!(kinds(&world), [OPEN.to_vec(), vec![0, 0]].concat());
    assert_eq!(world.bmc.commands, [(6, 0x3b), (0, 2)]);
    world.ask(control(0)).expect("off");
    world.ask(status()).expect("status");
    world.ask(control(3)).expect("reset");
    assert_eq!(world.sent.len(), 8);
    assert_eq!(world.bmc.controls, [1, 0, 3]);
}

#[test]
fn privilege_is_raised_only_for_the_first_command_that_needs_it() {
    let mut world = World::admin();
    world.ask(status()).expect("status");
    world.ask(control(0)).expect("off");
    world.ask(control(0)).expect("off");
    assert_eq!(world.bmc.commands, [(0, 1), (6, 0x3b), (0, 2), (0, 2)]);
    assert_eq!(proposals(&world), [(Suite::Cipher17, 3)]);
}

#[test]
fn suite_3_is_used_and_remembered_where_17_is_rejected() {
    for refusal in [Some(0x04), Some(0x05), Some(0x10), Some(0x11), None] {
        let mut world = World::admin();
        world.bmc.suites = vec![Suite::Cipher3];
        world.bmc.suite_status = refusal;
        world.ask(status()).expect("status");
        let (s3, s17) = ((Suite::Cipher3, 3), (Suite::Cipher17, 3));
        assert_eq!(proposals(&world), [s17, s3], "{refusal:?}");
        world.close();
        world.ask(status()).expect("status");
        assert_eq!(proposals(&world), [s17, s3, s3], "{refusal:?}");
    }
}

#[test]
fn suite_weaker_than_the_configured_one_is_not_used() {
    for refusal in [Some(0x11), None] {
        let mut settings = settings("admin", "secret");
        settings.suite = SuiteChoice::Only(Suite::Cipher17);
        let mut world = World::new(settings);
        world.bmc.suites = vec![Suite::Cipher3];
        world.bmc.suite_status = refusal;
        let failure = world.ask(status()).expect_err("no suite");
        assert_eq!(failure.kind, ErrorKind::Unsupported);
        assert!(failure.message.contains("suite 17 or 3"), "{failure:?}");
        assert_eq!(proposals(&world), [(Suite::Cipher17, 3)]);
    }
}

#[test]
fn wrong_password_and_wrong_user_have_distinct_errors() {
    let mut world = World::new(settings("admin", "geheim"));
    let failure = world.ask(status()).expect_err("password");
    assert_eq!(failure.kind, ErrorKind::Authentication);
    assert!(
        failure
            .message
            .contains("wrong password for user \"admin\"")
    );
    assert!(!failure.message.contains("geheim"));
    world.rest(Duration::from_secs(1));
    assert_eq!(world.bmc.sessions(), (0, 0));
    assert_eq!(kinds(&world), OPEN);

    let mut world = World::new(settings("nobody", "secret"));
    let failure = world.ask(status()).expect_err("user");
    assert_eq!(failure.kind, ErrorKind::Authentication);
    assert!(
        failure.message.contains("check the user name"),
        "{failure:?}"
    );
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn refused_user_without_a_tag_is_an_authentication_error_at_once() {
    for is_disabled in [false, true] {
        let user = if is_disabled { "admin" } else { "nobody" };
        let mut world = World::new(settings(user, "secret"));
        (world.bmc.is_untagged, world.bmc.is_disabled) = (true, is_disabled);
        let failure = world.ask(status()).expect_err("refused");
        assert_eq!(failure.kind, ErrorKind::Authentication, "{failure:?}");
        assert!(failure.message.contains("user"), "{failure:?}");
        assert_eq!(world.sent.len(), 2);
    }
}

#[test]
fn suite_3_is_used_where_17_is_refused_without_a_tag() {
    for slow in [0, 700, 1200, 2500] {
        for refusal in [0x04, 0x05, 0x10, 0x11] {
            let mut world = World::admin();
            world.bmc.is_untagged = true;
            world.bmc.suites = vec![Suite::Cipher3];
            world.bmc.suite_status = Some(refusal);
            // The refusals of repeated messages arrive after the handshake with suite 3 has begun.
            world.slow = Duration::from_millis(slow);
            world
                .ask(status())
                .unwrap_or_else(|failure| panic!("{slow} ms: {failure:?}"));
        }
    }
}

#[test]
fn success_without_a_tag_is_ignored() {
    let mut world = World::admin();
    world.begin(status());
    world.machine_step();
    let open = OpenResponse {
        tag: 0,
        console: 0,
        result: Ok(Opened {
            privilege: 4,
            managed: 7,
            algorithms: Suite::Cipher17.algorithms(),
        }),
    };
    let forged = plain(PayloadType::OpenResponse, &open.encode());
    world.machine.receive(&forged, world.now, &mut world.seed);
    assert!(world.go_on(None).expect("outcome").is_ok());
    assert_eq!(proposals(&world).len(), 1);
}

#[test]
fn wrong_kg_is_an_authentication_error() {
    let with = |ours: &'static [u8], theirs: &'static [u8]| {
        let mut settings = settings("admin", "secret");
        settings.kg.extend_from_slice(ours);
        let mut world = World::new(settings);
        world.bmc.kg = theirs;
        let result = world.ask(status());
        world.rest(Duration::from_secs(1));
        (result, world.bmc.sessions())
    };
    assert!(with(b"k", b"k").0.is_ok());
    for (ours, theirs) in [(&b""[..], &b"k"[..]), (b"x", b"k"), (b"k", b"")] {
        let (result, sessions) = with(ours, theirs);
        let failure = result.expect_err("key");
        assert_eq!(failure.kind, ErrorKind::Authentication);
        assert!(failure.message.contains("K_g"), "{failure:?}");
        assert_eq!(sessions, (0, 0));
    }
}

#[test]
fn user_level_account_reads_and_gets_a_privilege_error_on_off() {
    let mut world = World::new(settings("reader", "readpw"));
    world.ask(status()).expect("status");
    let (s3, s17) = (Suite::Cipher3, Suite::Cipher17);
    assert_eq!(proposals(&world), [(s17, 3), (s3, 3), (s17, 2)]);
    let failure = world.ask(control(0)).expect_err("may not");
    assert_eq!(failure.kind, ErrorKind::Privilege);
    assert!(!failure.maybe_sent);
    let message = failure.message;
    assert!(message.contains("user \"reader\" at OPERATOR"), "{message}");
    assert!(message.contains("raise the user's limit"), "{message}");
    assert!(world.bmc.controls.is_empty());
    // The open session is kept, and afterwards only terms that worked are proposed.
    let before = world.sent.len();
    world.ask(status()).expect("status");
    assert_eq!(world.sent.len(), before + 1);
    world.close();
    world.ask(status()).expect("status");
    assert_eq!(proposals(&world).last(), Some(&(s17, 2)));
    assert_eq!(world.sent.len(), before + 1 + 1 + 4);
}

#[test]
fn operator_level_account_can_switch_power() {
    let mut world = World::new(settings("oper", "operpw"));
    world.ask(control(1)).expect("on");
    assert_eq!(world.bmc.controls, [1]);
    assert_eq!(world.sent.len(), 5);
}

#[test]
fn privilege_in_the_address_is_the_maximum() {
    let mut settings = settings("admin", "secret");
    settings.most = Some(Level::User);
    let mut world = World::new(settings);
    world.ask(status()).expect("status");
    assert_eq!(proposals(&world), [(Suite::Cipher17, 2)]);
    let failure = world.ask(control(0)).expect_err("off");
    assert_eq!(failure.kind, ErrorKind::Privilege);
    assert!(failure.message.contains("privilegelevel"), "{failure:?}");
    assert_eq!(world.sent.len(), 4);
}

#[test]
fn administrator_level_is_used_and_remembered_where_required() {
    let mut world = World::admin();
    world.bmc.control_level = 4;
    assert_eq!(world.ask(control(1)).map(|answer| answer.completion), Ok(0));
    assert_eq!(world.bmc.controls, [1]);
    let before = world.sent.len();
    world.ask(control(0)).expect("off");
    assert_eq!(world.sent.len(), before + 1);
    world.close();
    assert_eq!(world.bmc.sessions().0, 0);

    // A read never needs the higher privilege and is not repeated.
    let mut world = World::admin();
    world.ask(control(1)).expect("on");
    world.bmc.codes = vec![0xd4; 100];
    let before = world.sent.len();
    assert_eq!(
        world.ask(status()).map(|answer| answer.completion),
        Ok(0xd4)
    );
    assert_eq!(world.sent.len(), before + 1);
    // Neither is a power command, where the privilege was not the cause.
    assert_eq!(
        world.ask(control(0)).map(|answer| answer.completion),
        Ok(0xd4)
    );
    assert!(world.sent.len() < before + 10);

    // An account without the privilege gets the BMC's own completion code.
    let mut world = World::new(super::world::settings("oper", "operpw"));
    world.bmc.control_level = 4;
    assert_eq!(
        world.ask(control(1)).map(|answer| answer.completion),
        Ok(0xd4)
    );
    assert!(world.bmc.controls.is_empty());
}

#[test]
fn exhausted_session_slots_are_retried_until_the_deadline() {
    let mut world = World::admin();
    world.bmc.open_statuses = vec![0x01, 0x0b, 0];
    world.ask(status()).expect("status");
    let mut world = World::admin();
    world.bmc.open_statuses = vec![0x01; 100];
    let began = world.now;
    let failure = world.ask(status()).expect_err("no room");
    assert_eq!(failure.kind, ErrorKind::Busy);
    assert!(failure.retry_after.is_some());
    assert!(world.now - began <= super::world::LIMIT);
    assert!((5..10).contains(&world.sent.len()), "{}", world.sent.len());
}

#[test]
fn handshake_lost_by_a_bmc_restart_starts_over() {
    let mut world = World::admin();
    // The BMC restarts between messages: message 3 finds no session and gets no response.
    world.begin(status());
    let third = world.now + Duration::from_millis(25);
    loop {
        world.machine_step();
        if world.sent.len() == 3 {
            break;
        }
        assert!(world.now <= third);
    }
    world.bmc.restart();
    assert!(world.go_on(None).expect("outcome").is_ok());
    assert_eq!(proposals(&world).len(), 2);
}

#[test]
fn handshake_with_a_dead_bmc_times_out_after_10_s() {
    let mut world = World::admin();
    world.is_dead = true;
    let began = world.now;
    let failure = world.ask(status()).expect_err("dead");
    assert_eq!(failure.kind, ErrorKind::Timeout);
    assert!(
        failure.message.contains("no response to Open Session"),
        "{failure:?}"
    );
    assert_eq!(world.now - began, Duration::from_secs(10));
    // At 0, 0.5, 1.5, 3.5 and 7.5 s.
    assert_eq!(world.sent.len(), 5);
}

#[test]
fn two_icmp_errors_but_not_one_make_the_bmc_unreachable() {
    let mut world = World::admin();
    world.icmp = 1;
    world.ask(status()).expect("status");
    let mut world = World::admin();
    world.icmp = 10;
    let began = world.now;
    let failure = world.ask(status()).expect_err("refused");
    assert_eq!(failure.kind, ErrorKind::Unreachable);
    assert!(world.now - began < Duration::from_millis(200));
    assert_eq!(world.sent.len(), 2);
}
