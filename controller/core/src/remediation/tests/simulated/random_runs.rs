//! Thousands of runs of one remediation, each from its seed.
//!
//! A failing seed is replayed alone by `RACKHAND_SEED=<seed> cargo test -p rackhand-core random_runs --
//! --nocapture`; `RACKHAND_RUNS` sets the number of runs.

use std::collections::BTreeMap;

use super::{
    super::{OnExhausted, Step},
    driver::Run,
    faults::Plan,
};

const RUNS: u64 = 1000;

#[test]
fn random_faults_run_no_workload_twice_and_end_with_a_reason() {
    let variable = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    if let Some(seed) = variable("RACKHAND_SEED") {
        let mut run = Run::new(Plan::random(seed));
        run.go();
        println!("{}", run.world.trace.join("\n"));
        return;
    }
    let runs = variable("RACKHAND_RUNS").unwrap_or(RUNS);
    let mut ends = BTreeMap::new();
    for seed in 0..runs {
        let mut run = Run::new(Plan::random(seed));
        run.go();
        *ends.entry(format!("{:?}", run.outcome)).or_insert(0_u64) += 1;
    }
    println!("{ends:?}");
    // Runs that all succeed, or all fail, would show nothing.
    for end in ["Succeeded", "Escalated", "Failed", "Withdrawn"] {
        let seen = ends.get(&format!("Some({end})")).copied().unwrap_or(0);
        assert!(
            seen > runs / 100,
            "only {seen} of {runs} runs ended {end}: {ends:?}"
        );
    }
}

#[test]
fn random_strategies_run_no_workload_twice_and_leave_nothing_behind() {
    let variable = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    if let Some(seed) = variable("RACKHAND_STRATEGY_SEED") {
        let mut run = Run::new(Plan::random_strategy(seed));
        run.go();
        println!("{}", run.world.trace.join("\n"));
        return;
    }
    let runs = variable("RACKHAND_RUNS").unwrap_or(RUNS);
    let (mut ends, mut kept_off, mut given_up) = (BTreeMap::new(), 0_u64, 0_u64);
    for seed in 0..runs {
        let mut run = Run::new(Plan::random_strategy(seed));
        run.go();
        let fenced = run.state.as_ref().filter(|s| s.step == Step::Fenced);
        let stay_off = run.world.plan.on_exhausted == Some(OnExhausted::StayOff);
        kept_off += u64::from(stay_off && fenced.is_some_and(|s| s.keep_off.is_some()));
        given_up += u64::from(fenced.is_some_and(|s| s.attempt.end_reason.is_some()));
        *ends.entry(format!("{:?}", run.outcome)).or_insert(0_u64) += 1;
    }
    println!("{ends:?}, {kept_off} kept off, {given_up} given up");
    for end in ["Some(Succeeded)", "Some(Failed)", "Some(Withdrawn)", "None"] {
        let seen = ends.get(end).copied().unwrap_or(0);
        assert!(
            seen > runs / 100,
            "only {seen} of {runs} runs ended {end}: {ends:?}"
        );
    }
    assert!(kept_off > 0 && given_up > 0, "{kept_off} {given_up}");
}
