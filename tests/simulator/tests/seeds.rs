//! Short runs without optimisation; `hack/simulate` runs more and longer ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use rackhand_simulator::{Breakage, Options, Outcome};

fn run(options: &Options) -> anyhow::Result<Outcome> {
    let program = env!("CARGO_BIN_EXE_rackhand-simulator");
    rackhand_simulator::run(program.as_ref(), options)
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

#[test]
fn same_seed_gives_the_same_run() {
    let options = Options {
        keep_log: true,
        ..Options::new(3, minutes(5))
    };
    let (first, second) = (run(&options).unwrap(), run(&options).unwrap());
    let mut lines = first.log.iter().zip(&second.log);
    assert_eq!(lines.find(|(a, b)| a != b), None);
    assert_eq!(first.hash, second.hash);
    let other = run(&Options::new(4, minutes(5))).unwrap();
    assert_ne!(first.hash, other.hash);
}

#[test]
fn every_rule_holds_in_a_fixed_seed() {
    let outcome = run(&Options::new(1, minutes(30))).unwrap();
    assert!(
        outcome.violations.is_empty(),
        "hack/simulate --seed 1 --minutes 30 --verbose: {:#?}",
        outcome.violations
    );
    // A run in which little happens shows little.
    assert!(outcome.counts.taints > 0, "{:?}", outcome.counts);
}

/// Some minutes in which some hosts hang, and an assumption does not hold.
fn run_broken(breakage: Breakage) -> Outcome {
    // A BMC that is dead is tried for some minutes before the outlets are.
    let time = if breakage == Breakage::LyingPdus {
        30
    } else {
        5
    };
    let options = Options {
        breakage: Some(breakage),
        ..Options::new(0, minutes(time))
    };
    run(&options).unwrap()
}

/// Where an assumption does not hold, no code can keep the rules: the oracle must report that.
#[track_caller]
fn is_reported(breakage: Breakage, reports: &[&str]) {
    let violations = run_broken(breakage).violations;
    for report in reports {
        let found = violations.iter().any(|v| v.what.contains(report));
        assert!(found, "{breakage:?}, {report}: {violations:#?}");
    }
}

#[test]
fn f1_oracle_reports_bmcs_that_always_report_off() {
    is_reported(Breakage::LyingBmcs, &["F1: ", "are in use on"]);
}

#[test]
fn f1_oracle_reports_outlets_that_report_off_and_feed_on() {
    is_reported(Breakage::LyingPdus, &["F1: "]);
}

#[test]
fn f3_oracle_reports_host_that_comes_on_under_its_taint() {
    is_reported(Breakage::OnUnderTaint, &["F3: "]);
}

#[test]
fn f4_oracle_reports_journal_that_loses_holds() {
    is_reported(Breakage::LostHolds, &["F4: "]);
}

#[test]
fn f5_oracle_reports_commands_to_another_host() {
    // The other host works, and is switched off.
    is_reported(Breakage::ForgedIdentities, &["F5: ", "F2: "]);
}

/// With BMC addresses that are exchanged, the identities that the BMCs report keep the other host on.
#[test]
fn f5_exchanged_bmc_addresses_switch_nothing() {
    let outcome = run_broken(Breakage::ExchangedBmcs);
    assert_eq!(outcome.violations, []);
    assert!(outcome.counts.remediations > 0, "{:?}", outcome.counts);
    assert_eq!(outcome.counts.taints, 0);
    assert_eq!(outcome.counts.power_offs, 0);
}

#[test]
fn oracle_reports_power_that_is_cut_while_firmware_is_written() {
    is_reported(Breakage::UpdatesUnseen, &["flash: "]);
}

#[test]
fn f6_oracle_reports_members_of_etcd_that_are_off_at_one_time() {
    is_reported(Breakage::NoEtcdRole, &["F6: "]);
}

#[test]
fn oracle_reports_health_check_that_acts_while_somebody_works_on_a_host() {
    is_reported(Breakage::NotTold, &["maintenance: "]);
}

#[test]
fn oracle_reports_pods_that_lose_their_power_although_they_are_waited_for() {
    is_reported(Breakage::PolicyChanged, &["budget: "]);
}

#[test]
fn oracle_reports_budget_of_a_policy_that_is_exceeded() {
    is_reported(Breakage::NoPolicy, &["PowerPolicy: "]);
}
