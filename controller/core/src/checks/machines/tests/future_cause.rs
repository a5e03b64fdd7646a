//! Tests of transition times in the future: they are reported, and their timeouts begin then.

use super::*;

/// Tolerance, in seconds.
const NEAR: i64 = 10;

fn judged(check: &Check, machine: &MachineFacts, node: &NodeView, now: i64) -> Judgement {
    judge(check, &mk_cluster(), machine, node, at(now))
}

fn messages(judgement: &Judgement) -> Vec<String> {
    judgement.ahead.iter().map(ToString::to_string).collect()
}

fn mk_fleet(targets: Vec<Target>) -> Fleet {
    let mut fleet = Fleet::new(mk_check(), mk_cluster(), None, at(0));
    for target in targets {
        fleet.put(target, at(0));
    }
    fleet.take();
    fleet
}

fn of_fleet(fleet: &Fleet) -> Vec<&str> {
    fleet.ahead().map(|(name, _)| &**name).collect()
}

#[test]
fn condition_in_the_future_is_reported_and_its_timeout_begins_then() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let node = mk_node("Unknown", at(1000));
    let early = judged(&check, &machine, &node, 0);
    assert_eq!(
        early.verdict,
        Verdict::Suspect {
            until: at(1300),
            causes: early.ahead.iter().map(|a| a.cause.clone()).collect(),
            starting: false,
        }
    );
    assert_eq!(
        messages(&early),
        [format!("Ready=Unknown on Node since {}", at(1000))]
    );
    assert_eq!(early.changes_at, Some(at(1300)), "of the verdict");
    assert_eq!(early.holds_until(), Some(at(1000 - NEAR)));
}

#[test]
fn clock_skew_within_the_tolerance_is_not_reported() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let node = mk_node("Unknown", at(100));
    let last = judge(
        &check,
        &mk_cluster(),
        &machine,
        &node,
        at(100 - NEAR) - Duration::from_nanos(1),
    );
    assert_eq!(last.ahead.len(), 1);
    let near = judged(&check, &machine, &node, 100 - NEAR);
    assert_eq!((near.ahead.len(), near.holds_until()), (0, Some(at(400))));
}

#[test]
fn unmatched_condition_in_the_future_is_not_reported() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    assert!(
        judged(&check, &machine, &mk_node("True", at(1000)), 0)
            .ahead
            .is_empty()
    );
    let mut skipped = machine;
    skipped.skipped = Some(SkipReason::SkipRemediation);
    let node = mk_node("Unknown", at(1000));
    assert!(judged(&check, &skipped, &node, 0).ahead.is_empty());
}

#[test]
fn failed_rule_does_not_hide_a_condition_in_the_future() {
    let mut check = mk_check();
    check
        .machine_conditions
        .push(mk_rule("NodeReady", "False", 60));
    let mut machine = mk_machine("m");
    machine.conditions = vec![mk_condition("NodeReady", "False", at(1000))];
    let gone = NodeView::Missing { name: "n".into() };
    let both = judged(&check, &machine, &gone, 0);
    assert!(matches!(&both.verdict, Verdict::Unhealthy { causes } if causes.len() == 1));
    assert_eq!(
        messages(&both),
        [format!("NodeReady=False on Machine since {}", at(1000))]
    );
    assert_eq!(both.holds_until(), Some(at(1000 - NEAR)));
}

#[test]
fn startup_timeout_beginning_in_the_future_is_reported() {
    let mut machine = mk_machine("m");
    machine.starting_since = Some(at(1000));
    let coming = judged(&mk_check(), &machine, &NodeView::NotJoined, 0);
    assert_eq!(messages(&coming), [format!("starting since {}", at(1000))]);
    assert!(matches!(
        coming.verdict,
        Verdict::Suspect { until, starting: true, .. } if until == at(1600)
    ));
}

#[test]
fn minimum_and_maximum_timestamps_do_not_overflow() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let last = judged(&check, &machine, &mk_node("Unknown", Timestamp::MAX), 0);
    assert_eq!(last.ahead.len(), 1);
    let first = mk_node("Unknown", Timestamp::MIN);
    let first = judge(&check, &mk_cluster(), &machine, &first, Timestamp::MIN);
    assert!(first.ahead.is_empty());
}

#[test]
fn fleet_tracks_machines_with_conditions_in_the_future() {
    let mut fleet = mk_fleet(vec![
        mk_target("b", mk_node("Unknown", at(1000)), MachineRemediation::None),
        mk_target("a", mk_node("False", at(500)), MachineRemediation::None),
        mk_healthy("c"),
    ]);
    assert_eq!(of_fleet(&fleet), ["a", "b"]);
    assert_eq!(fleet.next_deadline(), Some(at(500 - NEAR)));
    fleet.advance(at(500 - NEAR));
    assert!(fleet.take().counts);
    assert_eq!(of_fleet(&fleet), ["b"]);
    fleet.set_node("b", mk_node("Unknown", at(600)), at(495));
    assert!(fleet.take().counts, "the time has changed");
    fleet.set_node("b", mk_node("True", at(495)), at(495));
    assert!(fleet.take().counts);
    assert_eq!(of_fleet(&fleet), [""; 0]);
    fleet.set_node("c", mk_node("Unknown", at(5000)), at(495));
    assert_eq!(of_fleet(&fleet), ["c"]);
    fleet.remove("c", at(495));
    assert_eq!(of_fleet(&fleet), [""; 0]);
}

#[test]
fn openshift_check_reports_conditions_in_the_future() {
    let check = OpenShiftCheck::new(
        Some(secs(600)),
        vec![mk_rule("Ready", "Unknown", 300)],
        Limit::Unreadable,
        OpenShiftStrategy::Delete,
    );
    let target = |name: &str, starting_since, node| OpenShiftTarget {
        machine: OpenShiftMachine {
            facts: MachineFacts {
                starting_since,
                ..mk_openshift_machine(name).facts
            },
            ..mk_openshift_machine(name)
        },
        node,
        remediation: MachineRemediation::None,
    };
    let fleet = [
        target("a", Some(at(0)), mk_node("Unknown", at(1000))),
        target("b", Some(at(2000)), NodeView::NotJoined),
        // Without lastUpdated, the startup timeout begins at each evaluation.
        target("c", None, NodeView::NotJoined),
        target("d", Some(at(0)), mk_node("True", at(1000))),
    ];
    let plan = plan_openshift(&check, &fleet, at(0));
    assert_eq!(plan.ahead.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(plan.verdicts["a"].label(), "suspect");
    let of_a = plan_openshift(&check, &fleet[..1], at(0));
    assert_eq!(of_a.wake_at, Some(at(1000 - NEAR)));
    let later = plan_openshift(&check, &fleet, at(1000 - NEAR));
    assert_eq!(later.ahead.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn clock_skew_message_names_five_machines_and_is_stable_over_time() {
    let mut check = mk_check();
    // Two rules on one condition.
    check.node_conditions.push(mk_rule("Ready", "Unknown", 900));
    let mut fleet: Vec<Target> = (0..7)
        .map(|i| {
            let node = mk_node("Unknown", at(1000));
            mk_target(&format!("m-{i}"), node, MachineRemediation::None)
        })
        .collect();
    let message =
        |fleet: &[Target], now: i64| clock_skew(&plan(&check, &mk_cluster(), fleet, at(now)).ahead);
    let all = message(&fleet, 0).unwrap();
    let since = at(1000);
    let one = |i: usize| format!("m-{i} (Ready=Unknown on Node since {since})");
    let named: Vec<String> = (0..5).map(one).collect();
    assert_eq!(
        all,
        format!(
            "A time in the future is recorded for {} and 2 more; their timeouts begin only then. \
             Compare the clock of the component that recorded it (kubelet, API server or controller \
             manager) with the clock of Rackhand",
            named.join(", ")
        )
    );
    assert_eq!(message(&fleet, 600), Some(all));
    fleet.truncate(1);
    let one = message(&fleet, 0).unwrap();
    assert!(!one.contains("more"), "{one}");
    assert_eq!(message(&fleet, 995), None);
}
