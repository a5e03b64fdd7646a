//! Explores worlds with few faults, which takes little time without optimisation; `hack/check-model`
//! explores larger ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use rackhand_model::{
    checks, deep,
    election::{Broken, Election},
    explore::{Bounds, Cut, Report, explore, explore_checks, explore_election},
    rack,
    remediation::{actions::Fault, breakage::Breakage, setting::Setting},
    replay::replay,
    small::{self, causes, copies, lists, maintenance, policies, signals, triggers},
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
    let report = holds(explore(Setting::direct(1), Bounds::threads(1)));
    // With fewer states the world would show little.
    assert!(report.states > 10_000, "{} states", report.states);
}

#[test]
fn every_rule_holds_in_the_cooperative_world_without_faults() {
    holds(explore(Setting::cooperative(0), Bounds::threads(1)));
}

#[test]
fn every_rule_holds_while_another_leader_takes_over() {
    let setting = Setting {
        faults: vec![Fault::Deposed, Fault::Deleted],
        ..Setting::leaders(1)
    };
    holds(explore(setting, Bounds::threads(1)));
}

#[test]
fn f12_nothing_is_switched_off_by_a_state_that_was_restored() {
    let report = holds(explore(Setting::restored(1), Bounds::threads(1)));
    assert!(report.states > 5_000, "{} states", report.states);
}

#[test]
fn f9_outlets_are_cut_after_the_bmc_failed_and_are_on_again_at_the_end() {
    let report = holds(explore(Setting::outlets(1), Bounds::threads(1)));
    assert!(report.states > 5_000, "{} states", report.states);
}

#[test]
fn outlets_keep_every_rule_under_two_leaders_and_after_a_restore() {
    holds(explore(Setting::outlet_leaders(1), Bounds::threads(1)));
    holds(explore(Setting::outlet_restored(1), Bounds::threads(1)));
}

#[test]
fn f5_host_that_was_switched_off_by_mistake_is_on_again_at_the_end() {
    let report = holds(explore(Setting::other_host(1), Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn taint_stays_until_the_node_has_reported_since_the_boot() {
    let report = holds(explore(Setting::late_status(1), Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn no_power_is_cut_while_firmware_is_written() {
    let report = holds(explore(Setting::updates(1), Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn pods_leave_first_and_no_budget_of_theirs_is_overruled() {
    let report = holds(explore(Setting::evictions(1), Bounds::threads(1)));
    assert!(report.states > 5_000, "{} states", report.states);
}

#[test]
fn diagnostic_interrupts_are_sent_once_and_only_to_fence() {
    let report = holds(explore(Setting::interrupt(1), Bounds::threads(1)));
    assert!(report.states > 5_000, "{} states", report.states);
}

#[test]
fn shared_causes_hold_and_release_within_their_bounds() {
    let setting = small::Setting::<causes::World>::new(0);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn power_lost_is_said_only_of_hosts_that_have_lost_it() {
    let setting = small::Setting::<signals::World>::new(1);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn f4_shared_list_answers_only_with_what_was_true_since_the_question() {
    let setting = small::Setting::<lists::World>::new(1);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 200, "{} states", report.states);
}

#[test]
fn f9_planned_work_is_taken_back_on_every_path() {
    let setting = small::Setting::<maintenance::World>::new(1);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn f15_only_the_record_decides_whoever_writes_the_copy() {
    let setting = small::Setting::<copies::World>::new(1);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 100, "{} states", report.states);
}

#[test]
fn one_label_leads_to_one_cycle_in_every_order_of_events() {
    let setting = small::Setting::<triggers::World>::new(1);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 10_000, "{} states", report.states);
}

#[test]
fn every_breakage_of_the_small_worlds_is_found() {
    for broken in small::WORLDS.iter().flat_map(|world| (world.breakages)()) {
        let report = broken.explore(Bounds::threads(1));
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", broken.description));
        assert!(!found.story.is_empty());
    }
}

#[test]
fn deep_exploration_covers_all_sets_of_three_faults() {
    assert_eq!(deep::triples(&[1, 2, 3, 4], None).len(), 4);
    assert_eq!(deep::triples(&[1, 2, 3, 4, 5], None).len(), 10);
    let with = deep::triples(&[1, 2, 3, 4, 5], Some(3));
    assert_eq!(with.len(), 6);
    assert!(with.iter().all(|set| set.len() == 3 && set.contains(&3)));
    assert_eq!(deep::triples(&[1, 2], None), [vec![1, 2]]);
}

#[test]
fn deep_exploration_goes_on_after_a_set_that_was_given_up() {
    let sets = ["a", "b", "c"].map(str::to_owned);
    let report = |set: usize| deep::SetReport {
        states: 10 + set,
        depth: set,
        memory: 5,
        broken: false,
        cut: (set == 0).then_some(Cut::Memory),
    };
    let explore = |set, _| Ok(report(set));
    let explored = deep::explore_sets(&sets, 0, None, explore, |_| {});
    assert_eq!((explored.done, explored.given_up.len()), (2, 1));
    assert!(!explored.failed);
    let explore = |set, _| match set {
        1 => Err("its process ended".to_owned()),
        _ => Ok(report(set)),
    };
    let explored = deep::explore_sets(&sets, 0, None, explore, |_| {});
    assert!(explored.failed);
    let given_up = explored.given_up.iter().map(|(set, _)| set.as_str());
    assert_eq!(given_up.collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((explored.done, explored.not_begun), (1, 0));
    assert_eq!(
        (explored.states, explored.largest, explored.depth),
        (22, 12, 2)
    );
    let explored = deep::explore_sets(&sets, 2, None, explore, |_| {});
    assert_eq!((explored.done, explored.largest), (1, 12));
    let explored = deep::explore_sets(&sets, 1, Some(Duration::ZERO), explore, |_| {});
    assert_eq!((explored.done, explored.not_begun), (0, 2));
}

/// Long enough for a Lease to expire and be taken over.
const TICKS: u64 = 4;

#[test]
fn f7_one_leader_at_a_time_and_in_each_term() {
    for election in [Election::even(1), Election::drifting(0)] {
        let election = Election {
            ticks: TICKS,
            ..election
        };
        let report = holds(explore_election(election, Bounds::threads(1)));
        assert!(report.states > 10_000, "{} states", report.states);
    }
}

#[test]
fn every_breakage_of_the_election_is_found() {
    for broken in Broken::ALL {
        let report = explore_election(broken.setting(), Bounds::threads(1));
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", broken.description()));
        assert!(!found.story.is_empty());
    }
}

/// A rack in which these faults may happen, one in each run.
fn rack(faults: &[rack::actions::Fault]) -> rack::check::Setting {
    rack::check::Setting {
        faults: faults.to_vec(),
        ..rack::check::Setting::rack(1)
    }
}

#[test]
fn every_rule_holds_in_a_rack_with_late_calls_takeovers_and_agent_crashes() {
    use rack::actions::Fault;
    for fault in [Fault::Late, Fault::Takeover, Fault::Crash] {
        let report = holds(rack::check::explore(rack(&[fault]), Bounds::threads(1)));
        assert!(report.states > 1_000, "{} states", report.states);
    }
}

#[test]
fn f17_every_rule_holds_when_a_caller_or_its_agent_dies() {
    let report = holds(rack::check::explore(
        rack::check::Setting::caller(1),
        Bounds::threads(1),
    ));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn every_breakage_of_a_rack_is_found() {
    for breakage in rack::breakage::Breakage::ALL {
        let report = rack::check::explore(breakage.setting(), Bounds::threads(1));
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", breakage.description()));
        assert!(!found.story.is_empty());
    }
}

#[test]
fn budgets_of_power_policies_hold_with_two_faults() {
    let setting = small::Setting::<policies::World>::new(2);
    let report = holds(small::explore(setting, Bounds::threads(1)));
    assert!(report.states > 1_000, "{} states", report.states);
}

#[test]
fn every_rule_holds_for_health_checks() {
    let report = holds(explore_checks(
        checks::Setting::checks(0),
        Bounds::threads(1),
    ));
    assert!(report.states > 500, "{} states", report.states);
    for setting in [checks::Setting::overlap(1), checks::Setting::covered(1)] {
        let report = holds(explore_checks(setting, Bounds::threads(1)));
        assert!(report.states > 5000, "{} states", report.states);
    }
}

#[test]
fn every_breakage_of_health_checks_is_found_and_replayable() {
    for breakage in checks::breakage::Breakage::ALL {
        let setting = breakage.setting();
        let report = explore_checks(setting.clone(), Bounds::threads(1));
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", breakage.description()));
        assert!(!found.story.is_empty());
        assert_eq!(replay(&setting, &found.steps), Some(vec![found.property]));
    }
}

/// A new check makes the same remediations, and the check that made a remediation is deleted before the
/// cache shows the new one.
#[test]
fn f12_remediation_stays_while_a_check_missing_from_the_cache_covers_it() {
    let broken = checks::breakage::Breakage::OtherChecksByView.setting();
    let report = explore_checks(broken.clone(), Bounds::threads(1));
    let steps = &report.found.first().unwrap().steps;
    let repaired = checks::Setting {
        breakage: None,
        ..broken
    };
    assert_eq!(replay(&repaired, steps), Some(Vec::new()));
}

#[test]
fn every_breakage_of_a_remediation_is_found() {
    for breakage in Breakage::ALL {
        let setting = breakage.setting();
        let report = explore(setting, Bounds::threads(1));
        let found = report.found.first();
        let found = found.unwrap_or_else(|| panic!("not found: {}", breakage.description()));
        assert!(!found.story.is_empty());
    }
}

#[test]
fn bmc_that_always_reports_off_violates_f1() {
    let setting = Setting {
        lying: true,
        ..Setting::direct(0)
    };
    let report = explore(setting, Bounds::threads(1));
    assert!(report.found.iter().any(|f| f.property.starts_with("F1")));
}
