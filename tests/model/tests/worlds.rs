//! Small budgets, so that they end soon without optimisation; `hack/check-model` explores larger ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use rackhand_model::{
    breakage::Breakage,
    check::{Report, Setting, explore},
};

#[track_caller]
fn holds(setting: Setting) -> Report {
    let report = explore(setting, 1);
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
    let report = holds(Setting::direct(1));
    // A world in which little can happen proves little.
    assert!(report.states > 10_000, "{} states", report.states);
}

#[test]
fn every_rule_holds_in_the_cooperative_world_without_faults() {
    holds(Setting::cooperative(0));
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
