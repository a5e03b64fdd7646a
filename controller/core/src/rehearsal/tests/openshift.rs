//! Checks of OpenShift, with each of their strategies.

use super::*;
use crate::checks::machines::{OpenShiftCheck, OpenShiftMachine, OpenShiftStrategy};

fn openshift_check(strategy: OpenShiftStrategy) -> RehearsedCheck {
    RehearsedCheck {
        name: "openshift-machine-api/workers".into(),
        rules: CheckRules::OpenShift(OpenShiftCheck::new(
            None,
            vec![ConditionRule {
                type_: "Ready".into(),
                status: "Unknown".into(),
                timeout: Duration::from_secs(60),
            }],
            Limit::AtMost(IntOrPercent::Percent(40)),
            strategy,
        )),
    }
}

fn put_openshift(rehearsal: &mut Rehearsal, name: &str, status: &str, seconds: i64) {
    let machine = OpenShiftMachine {
        facts: machine(name),
        controlled: true,
        external_remediation: false,
    };
    let member = MemberFacts::OpenShift {
        machine,
        node: node(name, status, seconds),
    };
    rehearsal.put(0, member, facts(name), at(seconds));
}

/// Ten Machines that are healthy.
fn openshift_fleet(strategy: OpenShiftStrategy, policies: Vec<PowerPolicy>) -> Rehearsal {
    let check = openshift_check(strategy);
    let mut rehearsal = Rehearsal::new(vec![check], policies, TAKES, at(0));
    for number in 0..10 {
        put_openshift(&mut rehearsal, &format!("n{number}"), "True", 0);
    }
    rehearsal
}

#[test]
fn machine_of_openshift_is_remediated_by_template_or_mark_and_replaced_without_either() {
    for (strategy, outcome, begun) in [
        (
            OpenShiftStrategy::Template,
            RehearsalOutcome::Remediated,
            Some(at(160)),
        ),
        (
            OpenShiftStrategy::ExternalBaremetal,
            RehearsalOutcome::Remediated,
            Some(at(160)),
        ),
        (
            OpenShiftStrategy::Delete,
            RehearsalOutcome::HandedOver,
            None,
        ),
    ] {
        let mut rehearsal = openshift_fleet(strategy, Vec::new());
        put_openshift(&mut rehearsal, "n1", "Unknown", 100);
        let report = rehearsal.finish(at(60 * MINUTE));
        let [only] = report.remediations.as_slice() else {
            panic!("{strategy:?}: {:#?}", report.remediations);
        };
        assert_eq!((only.outcome, only.begun), (outcome, begun), "{strategy:?}");
        assert!(only.causes[0].contains("Ready"), "{:?}", only.causes);
    }
}

#[test]
fn machine_that_recovers_while_it_is_held_is_not_switched() {
    for strategy in [
        OpenShiftStrategy::Template,
        OpenShiftStrategy::ExternalBaremetal,
    ] {
        let mut rehearsal = openshift_fleet(strategy, vec![budget(0)]);
        put_openshift(&mut rehearsal, "n1", "Unknown", 100);
        put_openshift(&mut rehearsal, "n1", "True", 600);
        let report = rehearsal.finish(at(60 * MINUTE));
        let outcomes: Vec<RehearsalOutcome> =
            report.remediations.iter().map(|r| r.outcome).collect();
        assert_eq!(
            outcomes,
            [RehearsalOutcome::RecoveredBefore],
            "{strategy:?}"
        );
    }
}

#[test]
fn limit_counts_machines_under_remediation_as_openshift_does() {
    let strategy = OpenShiftStrategy::ExternalBaremetal;
    let mut rehearsal = openshift_fleet(strategy, Vec::new());
    for number in 0..5 {
        put_openshift(&mut rehearsal, &format!("n{number}"), "Unknown", 100);
    }
    let report = rehearsal.finish(at(60 * MINUTE));
    assert!(report.remediations.is_empty(), "{report:#?}");
    let [span] = report.limits.as_slice() else {
        panic!("{:#?}", report.limits);
    };
    assert!(
        span.message.contains("5 of 10 machines are not healthy"),
        "{}",
        span.message
    );
}
