mod causes;
mod openshift;

use std::collections::BTreeSet;

use super::*;
use crate::values::int_or_percent::IntOrPercent;
use crate::{
    checks::machines::{
        Check, ClusterFacts, Condition, ConditionRule, Limit, MachineFacts, NodeFacts, NodeView,
    },
    checks::nodes,
    fleet::placement::PolicyFacts,
    limits::power_policy::{Budget, Domain, Schedule},
    remediation::{OnUpdate, UpdateRules},
};

const MINUTE: i64 = 60;
const TAKES: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + seconds).unwrap()
}

fn check(most_unhealthy: &str) -> RehearsedCheck {
    let percent = most_unhealthy.trim_end_matches('%').parse().unwrap();
    RehearsedCheck {
        name: "default/workers".into(),
        rules: CheckRules::Machines(
            Check {
                startup_timeout: None,
                node_conditions: vec![ConditionRule {
                    type_: "Ready".into(),
                    status: "Unknown".into(),
                    timeout: Duration::from_secs(60),
                }],
                machine_conditions: Vec::new(),
                limit: Limit::AtMost(IntOrPercent::Percent(percent)),
                external: true,
                paused: false,
            },
            ClusterFacts {
                paused: false,
                infrastructure_ready: Some(at(-1000)),
                control_plane_initialized: Some(at(-1000)),
            },
        ),
    }
}

/// A check of Nodes with two steps.
fn node_check() -> RehearsedCheck {
    let step = |name: &str| nodes::Step {
        template: nodes::Template {
            api_version: "rackhand.dev/v1alpha1".into(),
            remediation_kind: "PowerRemediation".into(),
            namespace: "default".into(),
            name: name.into(),
        },
        timeout: Some(Duration::from_secs(600)),
    };
    RehearsedCheck {
        name: "nodes".into(),
        rules: CheckRules::Nodes(nodes::Check {
            name: "nodes".into(),
            uid: "uid-nodes".into(),
            conditions: vec![ConditionRule {
                type_: "Ready".into(),
                status: "Unknown".into(),
                timeout: Duration::from_secs(60),
            }],
            limit: nodes::Limit::MinHealthy(IntOrPercent::Percent(51)),
            storm_cooldown: None,
            steps: vec![step("first"), step("second")],
            delay: nodes::Delay::None,
            pauses: Vec::new(),
            startup_timeout: None,
            spares_terminating: false,
        }),
    }
}

fn put_node(rehearsal: &mut Rehearsal, name: &str, status: &str, seconds: i64) {
    let NodeView::Present(of) = node(name, status, seconds) else {
        panic!("no conditions");
    };
    let node = nodes::NodeFacts {
        name: name.into(),
        created: Some(at(-1000)),
        roles: crate::fleet::roles::Roles::default(),
        exclusion: nodes::Exclusion::None,
        confirmed: false,
        reconfiguring: false,
        conditions: of.conditions,
    };
    rehearsal.put(0, MemberFacts::Node(node), facts(name), at(seconds));
}

/// Ten Nodes that are Ready, under a check of Nodes.
fn nodes_of(policies: Vec<PowerPolicy>) -> Rehearsal {
    let mut rehearsal = Rehearsal::new(vec![node_check()], policies, TAKES, at(0));
    for number in 0..10 {
        put_node(&mut rehearsal, &format!("n{number}"), "True", 0);
    }
    rehearsal
}

fn machine(name: &str) -> MachineFacts {
    MachineFacts {
        name: name.into(),
        uid: format!("uid-{name}"),
        starting_since: Some(at(-1000)),
        deleting: false,
        control_plane: false,
        skipped: None,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready: Some(at(-1000)),
        failure: None,
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    }
}

fn node(name: &str, status: &str, since: i64) -> NodeView {
    NodeView::Present(NodeFacts {
        name: name.into(),
        conditions: vec![Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: String::new(),
            last_transition: Some(at(since)),
        }],
    })
}

fn facts(name: &str) -> HostFacts {
    HostFacts {
        node: Some(name.into()),
        policy: PolicyFacts {
            policies: BTreeSet::from(["p".into()]),
            ..PolicyFacts::default()
        },
        annotations: BTreeSet::new(),
    }
}

/// A fleet of ten Nodes that are Ready.
fn fleet(check: RehearsedCheck, policies: Vec<PowerPolicy>) -> Rehearsal {
    let mut rehearsal = Rehearsal::new(vec![check], policies, TAKES, at(0));
    for number in 0..10 {
        let name = format!("n{number}");
        put(&mut rehearsal, &name, "True", 0);
    }
    rehearsal
}

fn put(rehearsal: &mut Rehearsal, name: &str, status: &str, seconds: i64) {
    let node = node(name, status, seconds);
    let machine = MemberFacts::Machine {
        machine: machine(name),
        node,
    };
    rehearsal.put(0, machine, facts(name), at(seconds));
}

fn budget(max_concurrent: u32) -> PowerPolicy {
    PowerPolicy {
        name: "p".into(),
        budgets: vec![Budget {
            per: Domain::Policy,
            max_concurrent,
        }],
        ..PowerPolicy::default()
    }
}

#[test]
fn failed_node_is_remediated_after_its_timeout_and_counts_as_ready_afterwards() {
    let mut rehearsal = fleet(check("40%"), Vec::new());
    put(&mut rehearsal, "n1", "Unknown", 100);
    let report = rehearsal.finish(at(60 * MINUTE));
    let [only] = report.remediations.as_slice() else {
        panic!("{:#?}", report.remediations);
    };
    assert_eq!((only.machine.as_str(), only.requested), ("n1", at(160)));
    assert_eq!((only.begun, only.ended), (Some(at(160)), Some(at(460))));
    assert_eq!(only.outcome, RehearsalOutcome::Remediated);
    assert!(only.causes[0].contains("Ready"), "{:?}", only.causes);
    assert_eq!((report.totals.begun, report.totals.most_concurrent), (1, 1));
}

#[test]
fn node_that_fails_again_is_remediated_again() {
    let mut rehearsal = fleet(check("40%"), Vec::new());
    put(&mut rehearsal, "n1", "Unknown", 100);
    // The history shows the Node as before: it is not another failure.
    put(&mut rehearsal, "n2", "True", 800);
    put(&mut rehearsal, "n1", "True", 900);
    put(&mut rehearsal, "n1", "Unknown", 1000);
    let report = rehearsal.finish(at(60 * MINUTE));
    let requested: Vec<Timestamp> = report.remediations.iter().map(|r| r.requested).collect();
    assert_eq!(requested, [at(160), at(1060)]);
}

#[test]
fn limit_of_the_check_holds_a_mass_failure() {
    let mut rehearsal = fleet(check("40%"), Vec::new());
    for number in 0..5 {
        put(&mut rehearsal, &format!("n{number}"), "Unknown", 100);
    }
    for number in 0..5 {
        put(&mut rehearsal, &format!("n{number}"), "True", 900);
    }
    let report = rehearsal.finish(at(60 * MINUTE));
    assert!(report.remediations.is_empty(), "{report:#?}");
    let [span] = report.limits.as_slice() else {
        panic!("{:#?}", report.limits);
    };
    assert_eq!((span.from, span.to), (at(160), Some(at(900) + SETTLE)));
    assert!(span.message.contains("5 of 10"), "{}", span.message);
}

#[test]
fn budget_lets_one_after_the_other_begin() {
    let mut rehearsal = fleet(check("40%"), vec![budget(1)]);
    for number in 0..3 {
        put(&mut rehearsal, &format!("n{number}"), "Unknown", 100);
    }
    let report = rehearsal.finish(at(60 * MINUTE));
    let begun: Vec<_> = report.remediations.iter().map(|r| r.begun).collect();
    assert_eq!(begun, [Some(at(160)), Some(at(460)), Some(at(760))]);
    let totals = report.totals;
    assert_eq!((totals.most_concurrent, totals.waited_seconds), (1, 900));
    assert_eq!(totals.longest_wait_seconds, 600);
    let held = &report.remediations[2].held;
    assert!(held[0].message.contains("of at most 1"), "{held:?}");
    assert_eq!(held[0].policy, "p");
}

#[test]
fn node_that_recovers_while_a_policy_holds_is_not_switched() {
    // Opens at 03:00 UTC of the next day.
    let window = Schedule::parse("0 3 * * *", None, Duration::from_secs(3600)).unwrap();
    let policy = PowerPolicy {
        name: "p".into(),
        windows: vec![window],
        ..PowerPolicy::default()
    };
    let mut rehearsal = fleet(check("40%"), vec![policy]);
    put(&mut rehearsal, "n1", "Unknown", 100);
    put(&mut rehearsal, "n2", "Unknown", 100);
    put(&mut rehearsal, "n1", "True", 600);
    let report = rehearsal.finish(at(24 * 60 * MINUTE));
    let [one, other] = report.remediations.as_slice() else {
        panic!("{report:#?}");
    };
    assert_eq!(
        (one.outcome, one.begun, one.ended),
        (
            RehearsalOutcome::RecoveredBefore,
            None,
            Some(at(600) + SETTLE)
        )
    );
    assert_eq!(other.outcome, RehearsalOutcome::Remediated);
    assert_eq!(other.held[0].until, other.begun);
    assert_eq!((report.totals.begun, report.totals.not_begun), (1, 1));
}

#[test]
fn comparison_lists_what_two_policies_treat_differently() {
    let rehearse = |policy: PowerPolicy| {
        let mut rehearsal = fleet(check("40%"), vec![policy]);
        for number in 0..2 {
            put(&mut rehearsal, &format!("n{number}"), "Unknown", 100);
        }
        rehearsal.finish(at(60 * MINUTE))
    };
    let (one, two) = (rehearse(budget(1)), rehearse(budget(2)));
    assert_eq!(compare(&one, &one), []);
    let [difference] = compare(&one, &two).try_into().unwrap();
    assert_eq!((difference.machine.as_str(), difference.number), ("n1", 1));
    let begun = |r: Option<RehearsedRemediation>| r.and_then(|r| r.begun);
    assert_eq!(begun(difference.first), Some(at(460)));
    assert_eq!(begun(difference.second), Some(at(160)));
}

#[test]
fn machine_of_a_check_without_template_is_handed_over_once() {
    let mut owned = check("40%");
    let CheckRules::Machines(rules, _) = &mut owned.rules else {
        panic!("{owned:?}");
    };
    rules.external = false;
    let mut rehearsal = fleet(owned, Vec::new());
    put(&mut rehearsal, "n1", "Unknown", 100);
    rehearsal.remove(0, "n1", at(2000));
    let report = rehearsal.finish(at(60 * MINUTE));
    let outcomes: Vec<RehearsalOutcome> = report.remediations.iter().map(|r| r.outcome).collect();
    assert_eq!(outcomes, [RehearsalOutcome::HandedOver]);
    assert_eq!(report.totals.begun, 0);
}

#[test]
fn node_of_a_node_health_check_is_remediated_once_for_each_failure() {
    let mut rehearsal = nodes_of(vec![budget(1)]);
    put_node(&mut rehearsal, "n1", "Unknown", 100);
    put_node(&mut rehearsal, "n2", "Unknown", 100);
    put_node(&mut rehearsal, "n1", "True", 2000);
    put_node(&mut rehearsal, "n1", "Unknown", 3000);
    let report = rehearsal.finish(at(120 * MINUTE));
    let begun: Vec<(&str, i64)> = report
        .remediations
        .iter()
        .map(|r| (r.machine.as_str(), r.begun.unwrap().as_second()))
        .collect();
    let expected = [("n1", 160), ("n2", 460), ("n1", 3060)];
    assert_eq!(begun, expected.map(|(name, s)| (name, at(s).as_second())));
    let all = &report.remediations;
    assert!(
        all.iter()
            .all(|r| r.outcome == RehearsalOutcome::Remediated),
        "{all:#?}"
    );
}

#[test]
fn remediation_that_waits_longer_than_its_step_is_followed_by_the_next_step() {
    let mut rehearsal = nodes_of(vec![budget(0)]);
    put_node(&mut rehearsal, "n1", "Unknown", 100);
    let report = rehearsal.finish(at(120 * MINUTE));
    let outcomes: Vec<RehearsalOutcome> = report.remediations.iter().map(|r| r.outcome).collect();
    assert_eq!(
        outcomes.first(),
        Some(&RehearsalOutcome::TimedOut),
        "{report:#?}"
    );
    assert_eq!(outcomes.len(), 2, "{report:#?}");
    assert_eq!(report.totals.begun, 0);
}

#[test]
fn limit_of_a_node_health_check_holds_a_mass_failure() {
    let mut rehearsal = nodes_of(Vec::new());
    for number in 0..6 {
        put_node(&mut rehearsal, &format!("n{number}"), "Unknown", 100);
    }
    let report = rehearsal.finish(at(60 * MINUTE));
    assert!(report.remediations.is_empty(), "{report:#?}");
    let [span] = report.limits.as_slice() else {
        panic!("{:#?}", report.limits);
    };
    assert!(span.message.contains("4 of 10"), "{}", span.message);
}

#[test]
fn earlier_remediations_count_for_cooldown_and_attempts() {
    use crate::limits::power_policy::{AttemptLimit, WhenExceeded};
    let cooldown = PowerPolicy {
        name: "p".into(),
        cooldown: Some(Duration::from_secs(1800)),
        ..PowerPolicy::default()
    };
    let attempts = PowerPolicy {
        name: "p".into(),
        attempts: vec![AttemptLimit {
            max: 2,
            within: Duration::from_secs(86_400),
            then: WhenExceeded::Escalate,
        }],
        ..PowerPolicy::default()
    };
    let earlier = |seconds| {
        vec![PastAttempt {
            begun: at(seconds - 300),
            ended: at(seconds),
            succeeded: true,
        }]
    };
    let rehearse = |policy: PowerPolicy, before: &[i64]| {
        let mut rehearsal = fleet(check("40%"), vec![policy]);
        for seconds in before {
            rehearsal.remember("n1", earlier(*seconds));
        }
        put(&mut rehearsal, "n1", "Unknown", 100);
        let report = rehearsal.finish(at(60 * MINUTE));
        let [only] = report.remediations.try_into().unwrap();
        only
    };
    let held = rehearse(cooldown, &[-600]);
    assert_eq!(held.begun, Some(at(1200)));
    assert!(held.held[0].message.contains("cooldown"), "{held:?}");
    assert_eq!(
        rehearse(attempts.clone(), &[-6000]).outcome,
        RehearsalOutcome::Remediated
    );
    let ended = rehearse(attempts, &[-6000, -3000]);
    assert_eq!(
        (ended.outcome, ended.begun),
        (RehearsalOutcome::Exhausted, None)
    );
}

/// A Node that fails at 100 s, under these rules, with an update from 150 s on.
fn failure_during_update(rules: Option<UpdateRules>, to: Option<i64>) -> RehearsalReport {
    let policy = PowerPolicy {
        name: "p".into(),
        firmware_update: rules,
        ..PowerPolicy::default()
    };
    let mut rehearsal = fleet(check("100%"), vec![policy]);
    rehearsal.assume_update("n0", at(150), to.map(at));
    put(&mut rehearsal, "n0", "Unknown", 100);
    rehearsal.finish(at(300 * MINUTE))
}

#[test]
fn host_is_not_switched_while_its_firmware_is_assumed_to_be_updated() {
    let report = failure_during_update(None, Some(30 * MINUTE));
    let one = &report.remediations[0];
    assert_eq!(one.begun, Some(at(30 * MINUTE)), "{one:#?}");
    assert!(one.held[0].message.contains("firmware"), "{one:#?}");
    // A policy that proceeds.
    let proceeds = UpdateRules {
        on_running: OnUpdate::Proceed,
        ..UpdateRules::default()
    };
    let report = failure_during_update(Some(proceeds), Some(30 * MINUTE));
    assert_eq!(
        report.remediations[0].begun,
        Some(report.remediations[0].requested)
    );
    // One that waits for some time.
    let for_some_time = UpdateRules {
        proceed_after: Some(Duration::from_secs(600)),
        ..UpdateRules::default()
    };
    let report = failure_during_update(Some(for_some_time), Some(30 * MINUTE));
    let one = &report.remediations[0];
    let begun = one.begun.unwrap().duration_since(one.requested);
    assert_eq!(begun.as_secs(), 600);
}

#[test]
fn assumed_update_that_hangs_waits_for_a_person_or_for_the_policy() {
    let report = failure_during_update(None, None);
    let one = &report.remediations[0];
    assert_eq!((one.begun, one.outcome), (None, RehearsalOutcome::Waiting));
    let goes_on = UpdateRules {
        on_stalled: OnUpdate::Proceed,
        ..UpdateRules::default()
    };
    let report = failure_during_update(Some(goes_on), None);
    let one = &report.remediations[0];
    let begun = one.begun.unwrap().duration_since(one.requested);
    assert_eq!(begun.as_secs(), 1800, "{one:#?}");
}
