//! Small budgets, so that they end soon without optimisation; `hack/check-model` explores larger ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use rackhand_model::{
    actions::Fault,
    breakage::Breakage,
    check::{Report, Setting, explore, explore_election},
    election::{Broken, Election},
};

#[track_caller]
fn holds(report: Report) -> Report {
    let stories: Vec<String> = report
        .found
        .iter()
        .map(|f| format!("{}:\n{}", f.property, f.story.join("\n")))
        .collect();
    assert!(stories.is_empty(), "{}", stories.join("\n\n"));
    assert!(report.unreached.is_empty(), "{:?}", report.unreached);
    report
}

#[test]
fn every_rule_holds_in_the_direct_world_with_one_fault() {
    let report = holds(explore(Setting::direct(1), 1));
    // A world in which little can happen proves little.
    assert!(report.states > 10_000, "{} states", report.states);
}

#[test]
fn every_rule_holds_in_the_cooperative_world_without_faults() {
    holds(explore(Setting::cooperative(0), 1));
}

#[test]
fn every_rule_holds_while_another_leader_takes_over() {
    let setting = Setting {
        faults: vec![Fault::Deposed, Fault::Deleted],
        ..Setting::leaders(1)
    };
    holds(explore(setting, 1));
}

/// Long enough for a Lease to expire and to be taken.
fn election(broken: Option<Broken>) -> Election {
    Election {
        budget: 1,
        seconds: 4,
        broken,
    }
}

#[test]
fn f7_there_is_one_leader_at_a_time_and_in_each_term() {
    let report = holds(explore_election(election(None), 1));
    assert!(report.states > 10_000, "{} states", report.states);
}

#[test]
fn every_breakage_of_the_election_is_found() {
    for broken in Broken::ALL {
        let report = explore_election(election(Some(broken)), 1);
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", broken.description()));
        assert!(!found.story.is_empty());
    }
}

#[test]
fn every_breakage_is_found() {
    for breakage in Breakage::ALL {
        let setting = breakage.setting();
        let report = explore(setting, 1);
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", breakage.description()));
        assert!(!found.story.is_empty());
    }
}

#[test]
fn a_bmc_that_always_lies_breaks_the_assumptions_and_f1() {
    let setting = Setting {
        lying: true,
        ..Setting::direct(0)
    };
    let report = explore(setting, 1);
    assert!(report.found.iter().any(|f| f.property.starts_with("F1")));
}
