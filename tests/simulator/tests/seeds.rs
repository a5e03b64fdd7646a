//! Short runs without optimisation; `hack/simulate` runs more and longer ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use rackhand_simulator::{Options, Outcome};

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

/// Where an assumption does not hold, no code can keep the rules: the oracle must see that.
#[test]
fn f1_bmcs_that_always_report_off_are_detected() {
    let outcome = run(&Options {
        lying_bmcs: true,
        ..Options::new(1, minutes(10))
    });
    let violations = outcome.unwrap().violations;
    assert!(
        violations.iter().any(|v| v.what.starts_with("F1")),
        "{violations:?}"
    );
    let twice = |what: &str| what.contains("are in use on");
    assert!(violations.iter().any(|v| twice(&v.what)), "{violations:?}");
}
