//! Hosts that fail together, under policies with rules about shared causes.

use super::*;
use crate::fleet::shared_cause::{Domain as Shared, DomainKind, OnTimeout, SharedCauseRules};

fn holding(seconds: u64, on_timeout: OnTimeout) -> PowerPolicy {
    PowerPolicy {
        name: "p".into(),
        shared_causes: Some(SharedCauseRules {
            window: Duration::from_secs(120),
            min_hosts: 3,
            min_percent: 50,
            settling: Duration::from_secs(15),
            hold: Duration::from_secs(seconds),
            recovery: Duration::from_secs(300),
            on_timeout,
        }),
        ..PowerPolicy::default()
    }
}

/// A Node of the history, as a whole.
fn show(rehearsal: &mut Rehearsal, name: &str, status: &str, seconds: i64) {
    let number: usize = name.trim_start_matches('n').parse().unwrap();
    let rack = Shared::new(DomainKind::Rack, format!("r{}", number / 5));
    let record = NodeRecord {
        domains: BTreeSet::from([rack]),
        failed: (status != "True").then(|| at(seconds)),
    };
    rehearsal.put_node(name, record, at(seconds));
    put(rehearsal, name, status, seconds);
}

/// Two racks of five Nodes; four of the first one fail within 30 s.
fn dark_rack(policies: Vec<PowerPolicy>) -> Rehearsal {
    let mut rehearsal = Rehearsal::new(vec![check("60%")], policies, TAKES, at(0));
    for number in 0..10 {
        show(&mut rehearsal, &format!("n{number}"), "True", 0);
    }
    for number in 0..4 {
        let name = format!("n{number}");
        show(
            &mut rehearsal,
            &name,
            "Unknown",
            100 + i64::from(number) * 10,
        );
    }
    rehearsal
}

#[test]
fn shared_cause_holds_with_its_arithmetic_until_its_time_is_over() {
    let rehearsal = dark_rack(vec![holding(600, OnTimeout::Proceed)]);
    let report = rehearsal.finish(at(60 * MINUTE));
    let [span] = report.shared_causes.as_slice() else {
        panic!("{:#?}", report.shared_causes);
    };
    assert_eq!((span.cause.as_str(), span.held), ("rack r0", 4));
    assert!(
        span.message
            .starts_with("4 of 5 hosts of rack r0 failed within 30s"),
        "{}",
        span.message
    );
    // The first one is held from its creation; the others for as long, by the hold of the cause.
    let begun: Vec<_> = report.remediations.iter().map(|r| r.begun).collect();
    assert_eq!(begun, [Some(at(760)); 4]);
    let held = &report.remediations[3].held;
    assert_eq!(held[0].shared_cause.as_deref(), Some("rack r0"), "{held:?}");
    assert!(held[0].message.contains("4 of 5 hosts"), "{held:?}");
    assert_eq!(held[0].until, Some(at(760)));
    assert_eq!(report.totals.held_by_shared_causes, 4);
    assert_eq!(report.totals.begun, 4);
}

#[test]
fn hosts_that_recover_end_the_hold_of_the_others() {
    let mut rehearsal = dark_rack(vec![holding(600, OnTimeout::Stop)]);
    for name in ["n0", "n1"] {
        show(&mut rehearsal, name, "True", 1000);
    }
    let report = rehearsal.finish(at(60 * MINUTE));
    let outcomes: Vec<_> = report
        .remediations
        .iter()
        .map(|r| (r.machine.as_str(), r.outcome, r.begun))
        .collect();
    // Fewer than three are failed from 1000 s on, and the others had 300 s.
    let ended = at(1300) + SETTLE;
    assert_eq!(
        outcomes,
        [
            ("n0", RehearsalOutcome::RecoveredBefore, None),
            ("n1", RehearsalOutcome::RecoveredBefore, None),
            ("n2", RehearsalOutcome::Remediated, Some(ended)),
            ("n3", RehearsalOutcome::Remediated, Some(ended)),
        ]
    );
    assert_eq!(report.shared_causes[0].to, Some(ended));
}

#[test]
fn policies_with_and_without_rules_differ_and_neither_holds_a_single_failure() {
    let with = dark_rack(vec![holding(600, OnTimeout::Proceed)]).finish(at(60 * MINUTE));
    let without = dark_rack(Vec::new()).finish(at(60 * MINUTE));
    assert!(without.shared_causes.is_empty());
    let differences = compare(&with, &without);
    assert_eq!(differences.len(), 4);
    let first = differences[0].first.as_ref().unwrap();
    assert_eq!(first.shared_causes(), BTreeSet::from(["rack r0"]));
    let mut single = Rehearsal::new(
        vec![check("60%")],
        vec![holding(600, OnTimeout::Proceed)],
        TAKES,
        at(0),
    );
    for number in 0..10 {
        show(&mut single, &format!("n{number}"), "True", 0);
    }
    show(&mut single, "n1", "Unknown", 100);
    let report = single.finish(at(60 * MINUTE));
    assert!(report.shared_causes.is_empty(), "{report:#?}");
    assert_eq!(report.remediations[0].begun, Some(at(160)));
}
