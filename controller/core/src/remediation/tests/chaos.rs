//! Thousands of lives of one remediation, each from its seed.
//!
//! A failing seed is replayed alone by `RACKHAND_SEED=<seed> cargo test -p rackhand-core chaos --
//! --nocapture`; `RACKHAND_RUNS` asks for more of them.

use std::collections::BTreeMap;

use super::{driver::Run, faults::Plan};

const RUNS: u64 = 1000;

#[test]
fn whatever_fails_no_workload_runs_twice_and_everything_ends_with_a_reason() {
    let asked = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    if let Some(seed) = asked("RACKHAND_SEED") {
        let mut run = Run::new(Plan::random(seed));
        run.go();
        println!("{}", run.world.trace.join("\n"));
        return;
    }
    let runs = asked("RACKHAND_RUNS").unwrap_or(RUNS);
    let mut ends = BTreeMap::new();
    for seed in 0..runs {
        let mut run = Run::new(Plan::random(seed));
        run.go();
        *ends.entry(format!("{:?}", run.outcome)).or_insert(0_u64) += 1;
    }
    println!("{ends:?}");
    // A world in which nothing ever succeeds, or fails, would prove nothing.
    for end in ["Succeeded", "Escalated", "Failed", "Withdrawn"] {
        let seen = ends.get(&format!("Some({end})")).copied().unwrap_or(0);
        assert!(
            seen > runs / 100,
            "only {seen} of {runs} runs ended {end}: {ends:?}"
        );
    }
}
