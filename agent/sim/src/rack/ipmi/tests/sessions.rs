use super::client::{ADMIN, Client, Login, LoginError, log_in, opening, operator, payload};
use super::*;
use rackhand_bmc::ipmi::wire::{RakpStatus, Request, Response, v15};
use secrecy::SecretSlice;

#[test]
fn session_privilege_starts_at_user_and_is_raised_on_request() {
    for suite in Suite::ALL {
        let now = Instant::now();
        let mut bmc = bmc(now);
        let mut client = log_in(&mut bmc, &Login { suite, ..ADMIN }, now).expect("a session");
        assert!(client.is_on(&mut bmc, now));
        assert_eq!(client.control(&mut bmc, 0, now), Err(0xd4));
        assert_eq!(bmc.power_counts(now), PowerCounts::default());
        let level = client.ask(&mut bmc, SET_PRIVILEGE, &[3], now);
        assert_eq!(level, Ok(vec![3]));
        assert_eq!(client.control(&mut bmc, 0, now), Ok(()));
        assert!(!client.is_on(&mut bmc, now));
        assert_eq!(bmc.power_counts(now).offs, 1);
        assert_eq!(bmc.counters().controlled(ChassisControl::Down), 1);
        let id = client.managed.to_le_bytes();
        assert_eq!(client.ask(&mut bmc, CLOSE_SESSION, &id, now), Ok(vec![]));
        assert_eq!((bmc.sessions(now), bmc.counters().sessions_closed), (0, 1));
    }
}

#[test]
fn login_failure_reports_the_cause() {
    let now = Instant::now();
    let reader = User::new("reader", "secret", Privilege::User);
    let change = |config: &mut IpmiConfig| {
        config.users.push(reader);
        config.suites = vec![Suite::Cipher17];
    };
    let mut bmc = bmc_with(change, StandaloneHost::instant(true), now);
    let reader = Login {
        user: "reader",
        role: 0x12,
        ..ADMIN
    };
    let cases = [
        (
            Login {
                password: "wrong",
                ..ADMIN
            },
            RakpStatus::INVALID_CHECK_VALUE,
        ),
        (
            Login {
                user: "nobody",
                ..ADMIN
            },
            RakpStatus::UNAUTHORIZED_NAME,
        ),
        (
            Login {
                role: 0x13,
                ..reader.clone()
            },
            RakpStatus::UNAUTHORIZED_ROLE,
        ),
        (Login { role: 0, ..ADMIN }, RakpStatus::INVALID_ROLE),
        (
            Login {
                suite: Suite::Cipher3,
                ..ADMIN
            },
            RakpStatus::INVALID_AUTHENTICATION,
        ),
    ];
    for (login, status) in cases {
        let refused = log_in(&mut bmc, &login, now).expect_err("refused");
        assert_eq!(refused, LoginError::Status(status), "{login:?}");
    }
    let mut client = log_in(&mut bmc, &reader, now).expect("a reader");
    let level = client.ask(&mut bmc, SET_PRIVILEGE, &[3], now);
    assert_eq!(level, Err(0x80));
    assert_eq!(bmc.sessions(now), 1, "other sessions remain");
}

#[test]
fn login_requires_the_configured_kg() {
    let now = Instant::now();
    let key = b"0123456789abcdef0123";
    let change = |config: &mut IpmiConfig| config.kg = Some(SecretSlice::from(key.to_vec()));
    let mut bmc = bmc_with(change, StandaloneHost::instant(true), now);
    assert_eq!(
        log_in(&mut bmc, &ADMIN, now).expect_err("no K_g"),
        LoginError::WrongCode
    );
    let kg = Some(key.as_slice());
    let mut client = log_in(&mut bmc, &Login { kg, ..ADMIN }, now).expect("a session");
    assert!(client.is_on(&mut bmc, now));
}

#[test]
fn session_limit_and_timeout_are_enforced() {
    let now = Instant::now();
    let mut bmc = bmc_with(
        |config| config.session_limit = 2,
        StandaloneHost::instant(true),
        now,
    );
    let mut client = log_in(&mut bmc, &ADMIN, now).expect("a session");
    // Half open.
    assert!(bmc.receive(&opening(&ADMIN), now).is_some());
    let full = log_in(&mut bmc, &ADMIN, now).expect_err("full");
    assert_eq!(full, LoginError::Status(RakpStatus::NO_RESOURCES));
    let now = now + 30 * SECOND;
    assert!(client.is_on(&mut bmc, now));
    log_in(&mut bmc, &ADMIN, now).expect("the half-open one is gone");
    let now = now + 59 * SECOND;
    assert_eq!(bmc.sessions(now), 2);
    assert_eq!(bmc.sessions(now + SECOND), 0);
    assert_eq!(bmc.counters().sessions_expired, 3);
    let late = client.packet(Command::CHASSIS_STATUS, &[]);
    assert_eq!(bmc.receive(&late, now + SECOND), None);
    assert_eq!(bmc.counters().dropped(Dropped::UnknownSession), 1);
}

fn resets_after_a_duplicate(strict: bool) -> (u64, u64) {
    let now = Instant::now();
    let change = |config: &mut IpmiConfig| config.strict_sequence = strict;
    let mut bmc = bmc_with(change, StandaloneHost::instant(true), now);
    let mut client = operator(&mut bmc, now);
    let packet = client.packet(Command::CHASSIS_CONTROL, &[3]);
    bmc.receive(&packet, now);
    bmc.receive(&packet, now);
    let after_duplicate = bmc.power_counts(now).resets;
    assert_eq!(client.control(&mut bmc, 3, now), Ok(()));
    (after_duplicate, bmc.power_counts(now).resets)
}

#[test]
fn duplicated_datagram_is_ignored_only_by_a_strict_bmc() {
    assert_eq!(resets_after_a_duplicate(false), (2, 3));
    assert_eq!(resets_after_a_duplicate(true), (1, 2));
}

#[test]
fn repeated_rakp_3_is_answered_with_the_same_rakp_4() {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let mut client = log_in(&mut bmc, &ADMIN, now).expect("a session");
    let (first, again) = (client.rakp4.clone(), bmc.receive(&client.rakp3, now));
    assert_eq!(again, Some(first));
    assert!(client.is_on(&mut bmc, now));
    assert_eq!((bmc.sessions(now), bmc.counters().sessions_opened), (1, 1));
}

#[test]
fn cold_reset_drops_sessions_but_keeps_the_host_state() {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let mut client = log_in(&mut bmc, &ADMIN, now).expect("a session");
    assert_eq!(client.ask(&mut bmc, SET_PRIVILEGE, &[4], now), Ok(vec![4]));
    let packet = client.packet(Command::new(0x06, 0x02), &[]);
    assert_eq!(bmc.receive(&packet, now), None);
    assert_eq!(
        log_in(&mut bmc, &ADMIN, now).expect_err("gone"),
        LoginError::Silence
    );
    let now = now + 5 * SECOND;
    assert!(
        log_in(&mut bmc, &ADMIN, now)
            .expect("back")
            .is_on(&mut bmc, now)
    );
    assert_eq!(bmc.power_counts(now), PowerCounts::default());
}

#[test]
fn power_transitions_take_time_and_soft_off_may_be_ignored() {
    let now = Instant::now();
    let mut bmc = bmc_with(|_| {}, slow_machine(), now);
    let mut client = operator(&mut bmc, now);
    let mut at = |seconds: u64, what: &mut dyn FnMut(&mut Client, &mut Bmc, Instant)| {
        what(
            &mut client,
            &mut bmc,
            now + SECOND * u32::try_from(seconds).expect("small"),
        );
    };
    let is =
        |on| move |client: &mut Client, bmc: &mut Bmc, now| assert_eq!(client.is_on(bmc, now), on);
    let control = |number, answer| {
        move |client: &mut Client, bmc: &mut Bmc, now| {
            assert_eq!(client.control(bmc, number, now), answer);
        }
    };
    at(0, &mut control(5, Ok(())));
    at(4, &mut is(true));
    at(5, &mut is(false));
    at(6, &mut control(2, Err(0xd5)));
    at(6, &mut control(0, Ok(())));
    at(6, &mut control(1, Ok(())));
    at(9, &mut control(2, Ok(())));
    at(9, &mut is(true));
    at(9, &mut control(1, Err(0xc0)));
    at(10, &mut is(false));
    at(15, &mut is(true));
    at(15, &mut control(4, Ok(())));
    let power_counts = bmc.power_counts(now + 15 * SECOND);
    let expected = PowerCounts {
        offs: 2,
        ons: 2,
        resets: 0,
        nmis: 1,
        softs: 1,
    };
    assert_eq!(power_counts, expected);
}

#[test]
fn only_sessionless_commands_are_answered_before_a_session() {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let request = |net_fn, command, data: &[u8]| Request {
        net_fn,
        lun: 0,
        sequence: 1,
        command,
        data: data.to_vec(),
    };
    let mut ask = |request: &Request| {
        let packet = bmc.receive(&v15(&request.encode()), now);
        let packet = packet.expect("a packet");
        let response = Response::decode(payload(&packet)).expect("a response");
        assert!(response.answers(request));
        (response.completion, response.data)
    };
    assert_eq!(
        ask(&request(0x06, 0x38, &[0x8e, 4])),
        (0, vec![1, 0x80, 4, 2, 0, 0, 0, 0])
    );
    let suites = vec![1, 0xc0, 3, 1, 0x41, 0x81, 0xc0, 17, 3, 0x44, 0x81];
    assert_eq!(ask(&request(0x06, 0x54, &[0x0e, 0, 0x80])), (0, suites));
    assert_eq!(ask(&request(0x06, 0x54, &[0x0e, 0, 0x81])), (0, vec![1]));
    assert_eq!(ask(&request(0x00, 0x02, &[0])).0, 0xd4);
    assert_eq!(ask(&request(0x06, 0x01, &[])).0, 0xd4);
    assert_eq!(bmc.power_counts(now), PowerCounts::default());
}
