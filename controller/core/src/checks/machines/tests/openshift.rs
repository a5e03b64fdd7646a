//! Tests of verdicts, counts and actions of OpenShift's MachineHealthCheck.

use proptest::prelude::*;

use super::*;

fn check(strategy: OpenShiftStrategy) -> OpenShiftCheck {
    OpenShiftCheck::new(
        Some(secs(600)),
        vec![mk_rule("Ready", "Unknown", 300)],
        Limit::AtMost(IntOrPercent::Percent(100)),
        strategy,
    )
}

fn target(name: &str, node: NodeView) -> OpenShiftTarget {
    OpenShiftTarget {
        machine: mk_openshift_machine(name),
        node,
        remediation: MachineRemediation::None,
    }
}

fn mk_healthy_target(name: &str) -> OpenShiftTarget {
    target(name, mk_node("True", at(0)))
}

fn mk_unhealthy_target(name: &str) -> OpenShiftTarget {
    target(name, mk_node("Unknown", at(0)))
}

fn judged(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: Timestamp,
) -> Judgement {
    judge(&check.common, &ready_cluster(), &machine.facts, node, now)
}

fn label(
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: i64,
) -> (&'static str, Option<Timestamp>) {
    let check = check(OpenShiftStrategy::Delete);
    let judgement = judged(&check, machine, node, at(now));
    (judgement.verdict.label(), judgement.changes_at)
}

#[test]
fn openshift_machine_under_maintenance_is_skipped_and_nothing_is_done_about_it() {
    let check = check(OpenShiftStrategy::Delete);
    let mut target = mk_unhealthy_target("m");
    let judgement = judged(&check, &target.machine, &target.node, at(1000));
    assert!(openshift_action(&check, &target, &judgement.verdict, true).is_some());
    target.machine.facts.skipped = Some(SkipReason::Maintenance);
    target.machine.facts.failure = Some("Failed: no host".into());
    let judgement = judged(&check, &target.machine, &target.node, at(1000));
    assert_eq!(judgement.verdict, Verdict::Skipped(SkipReason::Maintenance));
    let action = openshift_action(&check, &target, &judgement.verdict, true);
    assert_eq!(action, None);
    let (rules, machine) = (&check.common, &target.machine.facts);
    let later = onsets(rules, &ready_cluster(), machine, &target.node, at(1000));
    assert!(later.is_empty());
}

#[test]
fn openshift_failed_phase_precedes_node_rules() {
    let mut failed = mk_openshift_machine("m");
    failed.facts.failure = Some("Failed: no host".into());
    for node in [NodeView::NotJoined, mk_node("True", at(0))] {
        assert_eq!(label(&failed, &node, 1).0, "unhealthy");
    }
    let gone = NodeView::Missing { name: "n".into() };
    assert_eq!(
        label(&mk_openshift_machine("m"), &gone, 1),
        ("unhealthy", None)
    );
    let unknown = mk_node("Unknown", at(0));
    assert_eq!(
        label(&mk_openshift_machine("m"), &unknown, 299),
        ("suspect", Some(at(300)))
    );
    assert_eq!(
        label(&mk_openshift_machine("m"), &unknown, 300),
        ("unhealthy", None)
    );
    assert_eq!(
        label(&mk_openshift_machine("m"), &unreachable(), 900),
        ("unknown", None)
    );
}

#[test]
fn openshift_startup_timeout_runs_from_last_updated() {
    let mut m = mk_openshift_machine("m");
    m.facts.starting_since = Some(at(100));
    assert_eq!(
        label(&m, &NodeView::NotJoined, 699),
        ("suspect", Some(at(700)))
    );
    assert_eq!(label(&m, &NodeView::NotJoined, 700).0, "unhealthy");
    m.facts.starting_since = None;
    for now in [0, 10_000] {
        let (verdict, changes) = label(&m, &NodeView::NotJoined, now);
        assert_eq!((verdict, changes), ("suspect", Some(at(now + 600))));
    }
    let mut off = check(OpenShiftStrategy::Delete);
    off.common.startup_timeout = None;
    let judgement = judged(
        &off,
        &mk_openshift_machine("m"),
        &NodeView::NotJoined,
        at(99_999),
    );
    assert_eq!(
        (judgement.verdict.label(), judgement.changes_at),
        ("unknown", None)
    );
}

#[test]
fn openshift_counts_only_fully_healthy_machines_as_healthy() {
    let plan = |target: OpenShiftTarget| {
        plan_openshift(&check(OpenShiftStrategy::Template), &[target], at(100)).healthy
    };
    assert_eq!(plan(mk_healthy_target("a")), 1);
    assert_eq!(
        plan(mk_unhealthy_target("soon")),
        0,
        "its timeout still runs"
    );
    assert_eq!(plan(target("starting", NodeView::NotJoined)), 0);
    let mut deleting = mk_healthy_target("deleting");
    deleting.machine.facts.deleting = true;
    assert_eq!(plan(deleting), 0);
    let mut marked = mk_healthy_target("marked");
    marked.machine.external_remediation = true;
    assert_eq!(plan(marked), 0);
    let mut remediated = mk_healthy_target("remediated");
    remediated.remediation = MachineRemediation::Open;
    assert_eq!(plan(remediated), 0, "F10: its remediation is not over");
}

#[test]
fn openshift_limit_rounds_down_and_invalid_limit_allows_nothing() {
    for (limit, expected, most) in [
        (Limit::AtMost(IntOrPercent::Percent(40)), 2, Some(0)),
        (Limit::AtMost(IntOrPercent::Percent(40)), 6, Some(2)),
        (Limit::AtMost(IntOrPercent::Int(7)), 2, Some(7)),
        (Limit::AtMost(IntOrPercent::Int(-3)), 2, Some(0)),
        (Limit::Unreadable, 2, None),
    ] {
        assert_eq!(most_unhealthy(limit, expected), most);
    }
    let fleet = [
        mk_healthy_target("a"),
        mk_unhealthy_target("b"),
        mk_unhealthy_target("c"),
    ];
    let mut check = check(OpenShiftStrategy::Delete);
    check.common.limit = Limit::AtMost(IntOrPercent::Int(3));
    let plan = plan_openshift(&check, &fleet, at(400));
    assert_eq!((plan.expected, plan.healthy), (3, 1));
    assert_eq!((plan.open, plan.remediations_allowed), (true, 1));
    check.common.limit = Limit::AtMost(IntOrPercent::Int(1));
    let plan = plan_openshift(&check, &fleet, at(400));
    assert_eq!(
        (plan.open, plan.remediations_allowed, plan.actions.len()),
        (false, 0, 0)
    );
    assert!(plan.message.contains("2 of 3 machines"), "{}", plan.message);
    check.common.limit = Limit::Unreadable;
    assert!(!plan_openshift(&check, &[mk_healthy_target("a")], at(0)).open);
}

#[test]
fn openshift_timer_runs_over_the_limit_but_not_while_paused() {
    let mut check = check(OpenShiftStrategy::Delete);
    check.common.limit = Limit::AtMost(IntOrPercent::Int(0));
    let plan = plan_openshift(&check, &[mk_unhealthy_target("a")], at(100));
    assert_eq!((plan.open, plan.wake_at), (false, Some(at(300))));
    check.common.paused = true;
    let plan = plan_openshift(&check, &[mk_unhealthy_target("a")], at(400));
    assert_eq!((plan.wake_at, plan.actions.len()), (None, 0));
    assert_eq!(plan.verdicts["a"].label(), "unhealthy");
}

#[test]
fn each_openshift_strategy_has_its_action() {
    let done = |strategy, change: &dyn Fn(&mut OpenShiftTarget)| {
        let mut target = mk_unhealthy_target("m");
        change(&mut target);
        let plan = plan_openshift(&check(strategy), &[target], at(400));
        plan.actions.into_iter().next()
    };
    let name = || "m".to_owned();
    let (machine, uid) = (name(), "uid-m".to_owned());
    let delete = OpenShiftAction::DeleteMachine { machine, uid };
    assert_eq!(
        done(OpenShiftStrategy::Delete, &|_| {}),
        Some(delete.clone())
    );
    assert_eq!(
        done(OpenShiftStrategy::Delete, &|t| t
            .machine
            .facts
            .control_plane = true),
        Some(delete.clone()),
        "masters are not exempt"
    );
    assert_eq!(
        done(OpenShiftStrategy::Delete, &|t| t.machine.controlled = false),
        Some(OpenShiftAction::SkipNoController { machine: name() })
    );
    assert_eq!(
        done(OpenShiftStrategy::Delete, &|t| t.machine.facts.deleting =
            true),
        None
    );

    let external = OpenShiftStrategy::ExternalBaremetal;
    let mark = OpenShiftAction::MarkExternal { machine: name() };
    assert_eq!(done(external, &|_| {}), Some(mark));
    assert_eq!(
        done(external, &|t| t.machine.external_remediation = true),
        None
    );
    let failed = |t: &mut OpenShiftTarget| t.machine.facts.failure = Some("Failed".into());
    assert_eq!(
        done(external, &failed),
        Some(delete),
        "a failed Machine is replaced"
    );

    let template = OpenShiftStrategy::Template;
    let (machine, uid) = (name(), "uid-m".to_owned());
    let create = OpenShiftAction::CreateRemediation { machine, uid };
    assert_eq!(done(template, &|_| {}), Some(create));
    assert_eq!(
        done(template, &|t| t.remediation = MachineRemediation::Open),
        None
    );
    assert_eq!(done(template, &|t| t.machine.facts.deleting = true), None);
    let foreign =
        |t: &mut OpenShiftTarget| t.remediation = MachineRemediation::Foreign { owner: "x".into() };
    assert!(matches!(
        done(template, &foreign),
        Some(OpenShiftAction::ReportForeignRemediation { .. })
    ));
}

#[test]
fn openshift_recovered_machine_loses_its_remediation_over_the_limit() {
    let mut check = check(OpenShiftStrategy::Template);
    check.common.limit = Limit::AtMost(IntOrPercent::Int(0));
    let mut back = mk_healthy_target("back");
    back.remediation = MachineRemediation::Open;
    let plan = plan_openshift(&check, &[back, mk_unhealthy_target("b")], at(400));
    assert!(!plan.open);
    let machine = "back".to_owned();
    assert_eq!(
        plan.actions,
        [OpenShiftAction::DeleteRemediation { machine }]
    );
}

#[test]
fn external_remediation_mark_causes_one_remediation_and_is_removed_first() {
    let mut m = mk_openshift_machine("m");
    let step = |m: &OpenShiftMachine, carried: &ExternalProgress| external_step(m, carried, true);
    assert_eq!(step(&m, &ExternalProgress::None), ExternalStep::Nothing);
    m.external_remediation = true;
    assert_eq!(step(&m, &ExternalProgress::None), ExternalStep::Create);
    let marks = |strategy| check(strategy).is_marked(&m);
    assert!(marks(OpenShiftStrategy::ExternalBaremetal) && !marks(OpenShiftStrategy::Delete));
    assert_eq!(step(&m, &ExternalProgress::Running), ExternalStep::Nothing);
    assert_eq!(step(&m, &ExternalProgress::Succeeded), ExternalStep::Unmark);
    m.external_remediation = false;
    assert_eq!(
        step(&m, &ExternalProgress::Succeeded),
        ExternalStep::Withdraw
    );
    assert_eq!(step(&m, &ExternalProgress::Running), ExternalStep::Withdraw);
}

#[test]
fn failed_external_remediation_deletes_only_a_replaceable_machine() {
    let mut m = mk_openshift_machine("m");
    m.external_remediation = true;
    let failed = ExternalProgress::Failed;
    assert_eq!(
        external_step(&m, &failed, true),
        ExternalStep::DeleteMachine
    );
    assert_eq!(external_step(&m, &failed, false), ExternalStep::Blocked);
    let aborted = ExternalProgress::Aborted;
    assert_eq!(
        external_step(&m, &aborted, true),
        ExternalStep::Blocked,
        "nothing was done to the host"
    );
    m.facts.control_plane = true;
    assert_eq!(external_step(&m, &failed, true), ExternalStep::Blocked);
    (m.facts.control_plane, m.controlled) = (false, false);
    assert_eq!(external_step(&m, &failed, true), ExternalStep::Blocked);
    m.facts.deleting = true;
    assert_eq!(external_step(&m, &failed, true), ExternalStep::Nothing);
}

#[test]
fn external_remediation_mark_has_one_carrier() {
    assert_eq!(mark_carrier(Ok(false), false), MarkCarrier::Rackhand);
    assert_eq!(mark_carrier(Ok(true), false), MarkCarrier::OpenShift);
    assert_eq!(mark_carrier(Ok(false), true), MarkCarrier::OpenShift);
    let why = || "forbidden".to_owned();
    assert_eq!(mark_carrier(Err(why()), false), MarkCarrier::Unknown(why()));
}

proptest! {
    #[test]
    fn f10_openshift_never_remediates_over_the_limit_or_at_zero(
        unhealthy in 0usize..6,
        healthy in 0usize..6,
        limit in -2i32..8,
        strategy in 0usize..3,
    ) {
        let strategy = [
            OpenShiftStrategy::Template,
            OpenShiftStrategy::ExternalBaremetal,
            OpenShiftStrategy::Delete,
        ][strategy];
        let mut check = check(strategy);
        check.common.limit = Limit::AtMost(IntOrPercent::Int(limit));
        let fleet: Vec<OpenShiftTarget> = (0..unhealthy)
            .map(|i| mk_unhealthy_target(&format!("unhealthy-{i}")))
            .chain((0..healthy).map(|i| mk_healthy_target(&format!("healthy-{i}"))))
            .collect();
        let plan = plan_openshift(&check, &fleet, at(400));
        let allowed = i32::try_from(unhealthy).unwrap() <= limit.max(0);
        prop_assert_eq!(plan.open, allowed);
        prop_assert_eq!(plan.actions.len(), if allowed { unhealthy } else { 0 });
        if limit <= 0 {
            prop_assert!(plan.actions.is_empty());
        }
    }
}
