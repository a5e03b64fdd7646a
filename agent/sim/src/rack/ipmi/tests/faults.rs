use super::client::{ADMIN, No, PEER, log_in, operator};
use super::*;
use rackhand_bmc::ipmi::wire::RakpStatus;

const LATE: Duration = Duration::from_millis(300);

/// An operator's session of a BMC with this rule, the host on.
fn with_rule(rule: Rule) -> (Bmc, client::Client, Instant) {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let client = operator(&mut bmc, now);
    bmc.inject(rule);
    (bmc, client, now)
}

fn on_control(action: Action) -> Rule {
    Rule::command(Command::CHASSIS_CONTROL, action)
}

fn on_status(action: Action) -> Rule {
    Rule::command(Command::CHASSIS_STATUS, action)
}

#[test]
fn a_slow_bmc_acts_late_and_a_late_answer_acts_at_once() {
    for (action, acted) in [
        (Action::Delay { by: LATE }, 0),
        (Action::AnswerLate { by: LATE }, 1),
    ] {
        let (mut bmc, mut client, now) = with_rule(on_control(action));
        let packet = client.packet(Command::CHASSIS_CONTROL, &[3]);
        assert_eq!(bmc.receive(PEER, &packet, now), []);
        assert_eq!(bmc.tally(now).resets, acted);
        assert_eq!(bmc.next_wake(), Some(now + LATE));
        assert_eq!(bmc.wake(now + LATE / 2), []);
        let out = bmc.wake(now + LATE);
        assert_eq!((out.len(), bmc.tally(now + LATE).resets), (1, 1));
        assert_eq!(client.read(&out[0]).completion, 0);
        assert_eq!(bmc.next_wake(), None);
    }
}

#[test]
fn a_slow_bmc_does_what_it_has_taken_though_the_session_is_closed() {
    let (mut bmc, mut client, now) = with_rule(on_control(Action::Delay { by: LATE }));
    let packet = client.packet(Command::CHASSIS_CONTROL, &[0]);
    assert_eq!(bmc.receive(PEER, &packet, now), []);
    let id = client.managed.to_le_bytes();
    assert_eq!(
        client.ask(&mut bmc, Command::CLOSE_SESSION, &id, now),
        Ok(vec![])
    );
    let now = now + LATE;
    assert_eq!((bmc.wake(now), bmc.tally(now).offs), (vec![], 1));
    assert_eq!(bmc.counters().dropped(Dropped::UnknownSession), 1);
}

#[test]
fn an_answer_is_lost_before_or_after_the_deed() {
    for (action, acted) in [(Action::Ignore, 0), (Action::LoseAnswer, 1)] {
        let (mut bmc, mut client, now) = with_rule(on_control(action).times(1));
        let packet = client.packet(Command::CHASSIS_CONTROL, &[3]);
        assert_eq!(bmc.receive(PEER, &packet, now), []);
        assert_eq!(bmc.tally(now).resets, acted);
        assert_eq!(bmc.counters().dropped(Dropped::Rule), 1);
        assert_eq!(
            client.control(&mut bmc, 3, now),
            Ok(()),
            "the rule has run out"
        );
    }
}

#[test]
fn a_completion_code_comes_with_or_without_the_deed() {
    for (acts, resets) in [(false, 0), (true, 1)] {
        let (mut bmc, mut client, now) =
            with_rule(on_control(Action::Complete { code: 0xc3, acts }));
        assert_eq!(client.control(&mut bmc, 3, now), Err(0xc3));
        assert_eq!(bmc.tally(now).resets, resets);
    }
}

#[test]
fn a_taken_command_may_do_nothing() {
    let (mut bmc, mut client, now) = with_rule(on_control(Action::Swallow));
    assert_eq!(client.control(&mut bmc, 0, now), Ok(()));
    assert!(client.is_on(&mut bmc, now));
    assert_eq!(bmc.counters().controlled(ChassisControl::Down), 0);
    assert_eq!(bmc.counters().controls.len(), 1);
}

#[test]
fn the_power_may_be_lied_about_or_be_old() {
    let (mut bmc, mut client, now) =
        with_rule(on_status(Action::ReportPower { on: false }).times(1));
    assert!(!client.is_on(&mut bmc, now));
    assert!(client.is_on(&mut bmc, now));
    bmc.inject(on_status(Action::StalePower { age: 10 * SECOND }));
    let now = now + 20 * SECOND;
    assert_eq!(client.control(&mut bmc, 0, now), Ok(()));
    assert!(client.is_on(&mut bmc, now + 9 * SECOND));
    assert!(!client.is_on(&mut bmc, now + 10 * SECOND));
}

#[test]
fn a_bmc_that_has_lost_the_state_reports_off_until_a_power_off_was_taken() {
    let (mut bmc, mut client, now) = with_rule(on_status(Action::OffUntilCommanded));
    assert!(!client.is_on(&mut bmc, now), "it runs, and is reported off");
    assert_eq!(client.control(&mut bmc, 1, now), Ok(()));
    assert!(!client.is_on(&mut bmc, now), "a power-on is no power-off");
    assert_eq!(client.control(&mut bmc, 0, now), Ok(()));
    assert!(!client.is_on(&mut bmc, now));
    assert_eq!(bmc.tally(now).offs, 1);
    assert_eq!(client.control(&mut bmc, 1, now), Ok(()));
    assert!(
        client.is_on(&mut bmc, now),
        "from then on it reports what is so"
    );
}

#[test]
fn answers_may_be_wrong_in_every_way() {
    let status = |action| {
        let (mut bmc, mut client, now) = with_rule(on_status(action));
        let packet = client.packet(Command::CHASSIS_STATUS, &[]);
        let out = bmc.receive(PEER, &packet, now);
        (client, out)
    };
    let (client, out) = status(Action::WrongSequence);
    assert_eq!(client.read(&out[0]).sequence, 3);
    let (client, out) = status(Action::WrongSession);
    let unsealed = client.keys.unseal(&out[0].bytes).expect("signed");
    assert_ne!(unsealed.session, 0xa0a1_a2a3);
    let (client, out) = status(Action::AnswerTwice);
    assert_eq!(out.len(), 2);
    assert_eq!(client.read(&out[0]), client.read(&out[1]));
    for action in [
        Action::Unencrypted,
        Action::WrongIntegrity,
        Action::Truncate { length: 30 },
    ] {
        let (client, out) = status(action);
        assert!(client.keys.unseal(&out[0].bytes).is_err());
    }
}

#[test]
fn setting_up_a_session_may_fail_in_every_step() {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let full = RakpStatus::NO_RESOURCES;
    for on in [Target::OpenSession, Target::Rakp1, Target::Rakp3] {
        let rule = Rule::on(
            on,
            Action::Status {
                status: full.number(),
            },
        );
        bmc.inject(rule.times(1));
        assert_eq!(
            log_in(&mut bmc, &ADMIN, now).expect_err("full"),
            No::Status(full)
        );
    }
    for on in [Target::Rakp1, Target::Rakp3] {
        bmc.inject(Rule::on(on, Action::WrongCode).times(1));
        assert_eq!(
            log_in(&mut bmc, &ADMIN, now).expect_err("another"),
            No::WrongCode
        );
    }
    bmc.inject(Rule::on(Target::Rakp1, Action::Guid { guid: [9; 16] }).times(1));
    assert!(log_in(&mut bmc, &ADMIN, now).is_ok());
}

#[test]
fn a_bmc_may_restart_in_the_middle_of_a_command() {
    for (acts, resets) in [(false, 0), (true, 1)] {
        let takes = SECOND;
        let (mut bmc, mut client, now) = with_rule(
            Rule::on(Target::Any, Action::Restart { takes, acts })
                .after(1)
                .times(1),
        );
        assert!(client.is_on(&mut bmc, now));
        let packet = client.packet(Command::CHASSIS_CONTROL, &[3]);
        assert_eq!(bmc.receive(PEER, &packet, now), []);
        assert_eq!((bmc.sessions(now), bmc.tally(now).resets), (0, resets));
        assert_eq!(
            log_in(&mut bmc, &ADMIN, now).expect_err("gone"),
            No::Silence
        );
        assert!(log_in(&mut bmc, &ADMIN, now + SECOND).is_ok());
    }
}

#[test]
fn a_dead_bmc_is_silent_and_its_host_lives() {
    let (mut bmc, mut client, now) = with_rule(on_control(Action::Delay { by: LATE }));
    let packet = client.packet(Command::CHASSIS_CONTROL, &[3]);
    bmc.receive(PEER, &packet, now);
    bmc.set_dead(true);
    assert_eq!(
        (bmc.next_wake(), bmc.receive(PEER, &packet, now)),
        (None, vec![])
    );
    bmc.set_dead(false);
    assert!(
        log_in(&mut bmc, &ADMIN, now)
            .expect("back")
            .is_on(&mut bmc, now)
    );
    assert_eq!(bmc.tally(now), PowerTally::default());
}
