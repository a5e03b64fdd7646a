use super::client::{ADMIN, LoginError, log_in, operator};
use super::*;

fn with_rule(rule: Rule) -> (Bmc, client::Client, Instant) {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let client = operator(&mut bmc, now);
    bmc.inject(rule);
    (bmc, client, now)
}

#[test]
fn response_is_lost_before_or_after_the_command() {
    for (action, resets) in [(Action::Ignore, 0), (Action::LoseAnswer, 1)] {
        let rule = Rule::command(Command::CHASSIS_CONTROL, action).times(1);
        let (mut bmc, mut client, now) = with_rule(rule);
        assert!(client.ask(&mut bmc, DEVICE_ID, &[], now).is_ok());
        let packet = client.packet(Command::CHASSIS_CONTROL, &[3]);
        assert_eq!(bmc.receive(&packet, now), None);
        assert_eq!(bmc.power_counts(now).resets, resets, "{action:?}");
        assert_eq!(bmc.counters().dropped(Dropped::Rule), 1);
        assert_eq!(client.control(&mut bmc, 3, now), Ok(()));
        assert_eq!(bmc.power_counts(now).resets, resets + 1, "only once");
    }
}

#[test]
fn bmc_without_state_reports_off_until_a_power_off() {
    let lost = Rule::command(Command::CHASSIS_STATUS, Action::OffUntilCommanded);
    let (mut bmc, mut client, now) = with_rule(lost);
    assert!(!client.is_on(&mut bmc, now));
    assert_eq!(client.control(&mut bmc, 3, now), Ok(()));
    assert!(!client.is_on(&mut bmc, now), "a reset is no power-off");
    assert_eq!(client.control(&mut bmc, 0, now), Ok(()));
    assert_eq!(bmc.power_counts(now).offs, 1);
    assert_eq!(client.control(&mut bmc, 1, now), Ok(()));
    assert!(client.is_on(&mut bmc, now));
}

#[test]
fn rule_drops_a_session_setup_message() {
    let now = Instant::now();
    let mut bmc = bmc(now);
    bmc.inject(Rule::on(Target::Rakp1, Action::Ignore).times(1));
    let lost = log_in(&mut bmc, &ADMIN, now).expect_err("no response");
    assert_eq!(lost, LoginError::Silence);
    log_in(&mut bmc, &ADMIN, now).expect("a session");
}

#[test]
fn dead_bmc_does_not_respond_and_its_host_keeps_running() {
    let now = Instant::now();
    let mut bmc = bmc(now);
    let mut client = operator(&mut bmc, now);
    bmc.set_dead(true);
    let packet = client.packet(Command::CHASSIS_CONTROL, &[0]);
    assert_eq!(bmc.receive(&packet, now), None);
    assert_eq!(bmc.counters().dropped(Dropped::Down), 1);
    bmc.set_dead(false);
    assert_eq!((bmc.sessions(now), bmc.power_counts(now).offs), (0, 0));
    let mut client = operator(&mut bmc, now);
    assert!(client.is_on(&mut bmc, now));
}
