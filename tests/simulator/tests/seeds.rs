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

#[track_caller]
fn holds(seed: u64, time: Duration) -> Outcome {
    let outcome = run(&Options::new(seed, time)).unwrap();
    assert!(
        outcome.violations.is_empty(),
        "hack/simulate --seed {seed} --minutes {} --verbose: {:#?}",
        time.as_secs() / 60,
        outcome.violations
    );
    outcome
}

#[test]
fn same_seed_gives_the_same_run() {
    let options = Options {
        keep_log: true,
        ..Options::new(3, minutes(10))
    };
    let (first, second) = (run(&options).unwrap(), run(&options).unwrap());
    let mut lines = first.log.iter().zip(&second.log);
    assert_eq!(lines.find(|(a, b)| a != b), None);
    assert_eq!(first.hash, second.hash);
    let other = run(&Options::new(4, minutes(10))).unwrap();
    assert_ne!(first.hash, other.hash);
}

#[test]
fn every_rule_holds_in_fixed_seeds() {
    let outcomes = [1, 2].map(|seed| holds(seed, minutes(30)));
    // Runs in which little happens show little.
    let taints: u64 = outcomes.iter().map(|o| o.counts.taints).sum();
    assert!(taints > 5, "{taints} taints");
}

#[test]
fn every_rule_holds_in_a_random_seed() {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    holds(now.as_secs(), minutes(30));
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
