//! Tests of verdicts, counts and actions of OpenShift's MachineHealthCheck.

use proptest::prelude::*;

use super::*;

fn check(strategy: OpenShiftStrategy) -> OpenShiftCheck {
    OpenShiftCheck {
        startup_timeout: Some(secs(600)),
        node_conditions: vec![mk_rule("Ready", "Unknown", 300)],
        max_unhealthy: Some(IntOrPercent::Percent(100)),
        strategy,
        paused: false,
    }
}

fn machine(name: &str) -> OpenShiftMachine {
    OpenShiftMachine {
        name: name.into(),
        uid: format!("uid-{name}"),
        failed: None,
        last_updated: Some(at(0)),
        deleting: false,
        controlled: true,
        master: false,
        external_remediation: false,
        maintenance: false,
    }
}

fn target(name: &str, node: NodeView) -> OpenShiftTarget {
    OpenShiftTarget {
        machine: machine(name),
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

fn label(
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: i64,
) -> (&'static str, Option<Timestamp>) {
    let check = check(OpenShiftStrategy::Delete);
    let judged = judge_openshift(&check, machine, node, at(now));
    (judged.verdict.label(), judged.changes_at)
}

#[test]
fn openshift_machine_under_maintenance_is_skipped_and_nothing_is_done_about_it() {
    let check = check(OpenShiftStrategy::Delete);
    let mut target = mk_unhealthy_target("m");
    let judged = judge_openshift(&check, &target.machine, &target.node, at(1000));
    assert!(openshift_action(&check, &target, &judged.verdict, true).is_some());
    target.machine.maintenance = true;
    target.machine.failed = Some("Failed: no host".into());
    let judged = judge_openshift(&check, &target.machine, &target.node, at(1000));
    assert_eq!(judged.verdict, Verdict::Skipped(SkipReason::Maintenance));
    let action = openshift_action(&check, &target, &judged.verdict, true);
    assert_eq!(action, None);
    let later = onsets_openshift(&check, &target.machine, &target.node, at(1000));
    assert!(later.is_empty());
}

#[test]
fn openshift_failed_phase_precedes_node_rules() {
    let mut failed = machine("m");
    failed.failed = Some("Failed: no host".into());
    for node in [NodeView::NotJoined, mk_node("True", at(0))] {
        assert_eq!(label(&failed, &node, 1).0, "unhealthy");
    }
    let gone = NodeView::Missing { name: "n".into() };
    assert_eq!(label(&machine("m"), &gone, 1), ("unhealthy", None));
    let unknown = mk_node("Unknown", at(0));
    assert_eq!(
        label(&machine("m"), &unknown, 299),
        ("suspect", Some(at(300)))
    );
    assert_eq!(label(&machine("m"), &unknown, 300), ("unhealthy", None));
    assert_eq!(label(&machine("m"), &unreachable(), 900), ("unknown", None));
}

#[test]
fn openshift_startup_timeout_runs_from_last_updated() {
    let mut m = machine("m");
    m.last_updated = Some(at(100));
    assert_eq!(
        label(&m, &NodeView::NotJoined, 699),
        ("suspect", Some(at(700)))
    );
    assert_eq!(label(&m, &NodeView::NotJoined, 700).0, "unhealthy");
    m.last_updated = None;
    for now in [0, 10_000] {
        let (verdict, changes) = label(&m, &NodeView::NotJoined, now);
        assert_eq!((verdict, changes), ("suspect", Some(at(now + 600))));
    }
    let mut off = check(OpenShiftStrategy::Delete);
    off.startup_timeout = None;
    let judged = judge_openshift(&off, &machine("m"), &NodeView::NotJoined, at(99_999));
    assert_eq!(
        (judged.verdict.label(), judged.changes_at),
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
    deleting.machine.deleting = true;
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
        (Some(IntOrPercent::Percent(40)), 2, Some(0)),
        (Some(IntOrPercent::Percent(40)), 6, Some(2)),
        (Some(IntOrPercent::Int(7)), 2, Some(7)),
        (Some(IntOrPercent::Int(-3)), 2, Some(0)),
        (None, 2, None),
    ] {
        assert_eq!(most_unhealthy(limit, expected), most);
    }
    let fleet = [
        mk_healthy_target("a"),
        mk_unhealthy_target("b"),
        mk_unhealthy_target("c"),
    ];
    let mut check = check(OpenShiftStrategy::Delete);
    check.max_unhealthy = Some(IntOrPercent::Int(3));
    let plan = plan_openshift(&check, &fleet, at(400));
    assert_eq!((plan.expected, plan.healthy), (3, 1));
    assert_eq!((plan.open, plan.remediations_allowed), (true, 1));
    check.max_unhealthy = Some(IntOrPercent::Int(1));
    let plan = plan_openshift(&check, &fleet, at(400));
    assert_eq!(
        (plan.open, plan.remediations_allowed, plan.actions.len()),
        (false, 0, 0)
    );
    assert!(plan.message.contains("2 of 3 machines"), "{}", plan.message);
    check.max_unhealthy = None;
    assert!(!plan_openshift(&check, &[mk_healthy_target("a")], at(0)).open);
}

#[test]
fn openshift_timer_runs_over_the_limit_but_not_while_paused() {
    let mut check = check(OpenShiftStrategy::Delete);
    check.max_unhealthy = Some(IntOrPercent::Int(0));
    let plan = plan_openshift(&check, &[mk_unhealthy_target("a")], at(100));
    assert_eq!((plan.open, plan.wake_at), (false, Some(at(300))));
    check.paused = true;
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
        done(OpenShiftStrategy::Delete, &|t| t.machine.master = true),
        Some(delete.clone()),
        "masters are not exempt"
    );
    assert_eq!(
        done(OpenShiftStrategy::Delete, &|t| t.machine.controlled = false),
        Some(OpenShiftAction::SkipNoController { machine: name() })
    );
    assert_eq!(
        done(OpenShiftStrategy::Delete, &|t| t.machine.deleting = true),
        None
    );

    let external = OpenShiftStrategy::ExternalBaremetal;
    let mark = OpenShiftAction::MarkExternal { machine: name() };
    assert_eq!(done(external, &|_| {}), Some(mark));
    assert_eq!(
        done(external, &|t| t.machine.external_remediation = true),
        None
    );
    let failed = |t: &mut OpenShiftTarget| t.machine.failed = Some("Failed".into());
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
    assert_eq!(done(template, &|t| t.machine.deleting = true), None);
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
    check.max_unhealthy = Some(IntOrPercent::Int(0));
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
    let mut m = machine("m");
    let step = |m: &OpenShiftMachine, carried: &ExternalProgress| external_step(m, carried, true);
    assert_eq!(step(&m, &ExternalProgress::None), ExternalStep::Nothing);
    m.external_remediation = true;
    assert_eq!(step(&m, &ExternalProgress::None), ExternalStep::Create);
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
    let mut m = machine("m");
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
    m.master = true;
    assert_eq!(external_step(&m, &failed, true), ExternalStep::Blocked);
    (m.master, m.controlled) = (false, false);
    assert_eq!(external_step(&m, &failed, true), ExternalStep::Blocked);
    m.deleting = true;
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
        check.max_unhealthy = Some(IntOrPercent::Int(limit));
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
