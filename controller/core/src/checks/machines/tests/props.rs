//! Properties of every fleet, and strategies for its facts.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// Times of the facts lie in 0..1000 s, and so does `now`, so that many deadlines are near it.
pub(super) fn any_time() -> impl Strategy<Value = Timestamp> {
    (0i64..1000).prop_map(at)
}

/// A transition time; sometimes later than any `now`.
pub(super) fn any_since() -> impl Strategy<Value = Timestamp> {
    prop_oneof![4 => any_time(), 1 => (1000i64..2000).prop_map(at)]
}

fn any_rule() -> impl Strategy<Value = ConditionRule> {
    let (types, statuses) = (["A", "B"], ["True", "False"]);
    (0usize..2, 0usize..2, 0u64..600)
        .prop_map(move |(t, s, timeout)| mk_rule(types[t], statuses[s], timeout))
}

fn any_conditions() -> impl Strategy<Value = Vec<Condition>> {
    let one = || (any::<bool>(), option::weighted(0.9, any_since()));
    (one(), one()).prop_map(|(a, b)| {
        [("A", a), ("B", b)]
            .into_iter()
            .map(|(type_, (status, last_transition))| Condition {
                type_: type_.into(),
                status: if status { "True" } else { "False" }.into(),
                reason: String::new(),
                last_transition,
            })
            .collect()
    })
}

pub(super) fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (-2i32..8).prop_map(max),
        (0i32..=100).prop_map(percent),
        (0u32..4, 0u32..4).prop_map(|(min, more)| Limit::Range {
            min,
            max: min + more
        }),
    ]
}

pub(super) fn any_check(limit: impl Strategy<Value = Limit>) -> impl Strategy<Value = Check> {
    let rules = || vec(any_rule(), 0..3);
    (
        option::of(0u64..600),
        rules(),
        rules(),
        limit,
        any::<bool>(),
    )
        .prop_map(
            |(startup, node_conditions, machine_conditions, limit, external)| Check {
                startup_timeout: startup.map(secs),
                node_conditions,
                machine_conditions,
                limit,
                external,
                paused: false,
            },
        )
}

pub(super) fn any_cluster() -> impl Strategy<Value = ClusterFacts> {
    let since = || option::weighted(0.9, any_since());
    (since(), since()).prop_map(
        |(infrastructure_ready, control_plane_initialized)| ClusterFacts {
            paused: false,
            infrastructure_ready,
            control_plane_initialized,
        },
    )
}

pub(super) fn any_node() -> impl Strategy<Value = NodeView> {
    prop_oneof![
        2 => Just(NodeView::NotJoined),
        1 => Just(NodeView::Missing { name: "node".into() }),
        1 => Just(unreachable()),
        1 => Just(never_seen()),
        6 => any_conditions().prop_map(|conditions| {
            NodeView::Present(NodeFacts { name: "node".into(), conditions })
        }),
    ]
}

pub(super) fn any_remediation() -> impl Strategy<Value = MachineRemediation> {
    prop_oneof![
        4 => Just(MachineRemediation::None),
        2 => Just(MachineRemediation::Open),
        1 => Just(MachineRemediation::Deleting),
        1 => Just(MachineRemediation::Foreign { owner: "other".into() }),
    ]
}

pub(super) fn any_target() -> impl Strategy<Value = Target> {
    let rarely = || prop::bool::weighted(0.1);
    let flags = (
        rarely(),
        rarely(),
        rarely(),
        rarely(),
        rarely(),
        any::<bool>(),
    );
    let facts = (
        any_since(),
        option::of(any_since()),
        any_conditions(),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
    );
    (flags, facts, any_node(), any_remediation()).prop_map(|(flags, facts, node, remediation)| {
        let (deleting, paused, skip_remediation, remediate_annotation, failed, control_plane) =
            flags;
        let (created, infrastructure_ready, conditions, health_condition, owner_remediated) = facts;
        let machine = MachineFacts {
            starting_since: Some(created),
            deleting,
            control_plane,
            skipped: match (paused, skip_remediation) {
                (true, _) => Some(SkipReason::Paused),
                (false, true) => Some(SkipReason::SkipRemediation),
                (false, false) => None,
            },
            remediate_annotation,
            conditions,
            infrastructure_ready,
            failure: failed.then(|| "broken".into()),
            health_condition,
            owner_remediated,
            ..mk_machine("")
        };
        Target {
            machine,
            node,
            remediation,
        }
    })
}

fn any_fleet() -> impl Strategy<Value = Vec<Target>> {
    vec(any_target(), 0..8).prop_map(|mut fleet| {
        for (i, target) in fleet.iter_mut().enumerate() {
            target.machine.name = format!("m-{i}");
            target.machine.uid = format!("uid-m-{i}");
        }
        fleet
    })
}

fn remediates(action: &Action) -> bool {
    matches!(
        action,
        Action::CreateRemediation { .. } | Action::MarkOwnerRemediated { .. }
    )
}

proptest! {
    #[test]
    fn f10_closed_limit_never_remediates(
        check in any_check(any_limit()), cluster in any_cluster(),
        fleet in any_fleet(), now in any_time(),
    ) {
        let plan = plan(&check, &cluster, &fleet, now);
        prop_assert_eq!(plan.gate.message.is_empty(), plan.gate.open);
        if !plan.gate.open {
            prop_assert!(!plan.actions.iter().any(remediates));
            prop_assert_eq!(plan.gate.remediations_allowed, 0);
        }
    }

    #[test]
    fn f10_limit_of_zero_or_less_never_remediates(
        limit in prop_oneof![(i32::MIN..=0).prop_map(max), Just(percent(0))]
            .prop_flat_map(|limit| any_check(Just(limit))),
        cluster in any_cluster(), fleet in any_fleet(), now in any_time(),
    ) {
        let plan = plan(&limit, &cluster, &fleet, now);
        prop_assert!(!plan.actions.iter().any(remediates));
    }

    #[test]
    fn f10_one_plan_never_exceeds_the_limit(
        limit in 0i32..4, fleet in any_fleet(), now in any_time(), cluster in any_cluster(),
        check in any_check(Just(max(0))),
    ) {
        let check = Check { limit: max(limit), external: true, ..check };
        let plan = plan(&check, &cluster, &fleet, now);
        let open = |target: &&Target| {
            plan.verdicts[&target.machine.name].is_target()
                && matches!(target.remediation, MachineRemediation::Open | MachineRemediation::Deleting)
        };
        let created = plan.actions.iter().filter(|action| remediates(action)).count();
        prop_assert!(created == 0 || fleet.iter().filter(open).count() + created <= usize::try_from(limit).unwrap());
    }

    #[test]
    fn open_limit_creates_one_remediation_per_unhealthy_machine(
        check in any_check(any_limit()), cluster in any_cluster(),
        fleet in any_fleet(), now in any_time(),
    ) {
        let check = Check { external: true, ..check };
        let plan = plan(&check, &cluster, &fleet, now);
        for target in &fleet {
            let name = &target.machine.name;
            let wants = plan.gate.open
                && matches!(plan.verdicts[name], Verdict::Unhealthy { .. })
                && target.remediation == MachineRemediation::None
                && !target.machine.deleting;
            let got = plan.actions.iter().filter(|action| **action == create(name)).count();
            prop_assert_eq!(got, usize::from(wants), "{}", name);
            let all = plan.actions.iter().filter(|action| action.machine() == name).count();
            prop_assert!(all <= 1, "{} has {} actions", name, all);
        }
    }

    #[test]
    fn recovered_machine_always_loses_its_remediation(
        check in any_check(any_limit()), cluster in any_cluster(),
        fleet in any_fleet(), now in any_time(),
    ) {
        let check = Check { external: true, ..check };
        let plan = plan(&check, &cluster, &fleet, now);
        for target in &fleet {
            let name = &target.machine.name;
            let recovered = plan.verdicts[name] == Verdict::Healthy
                && target.remediation == MachineRemediation::Open;
            prop_assert_eq!(plan.actions.contains(&delete(name)), recovered);
        }
    }

    #[test]
    fn plan_does_not_depend_on_fleet_order(
        check in any_check(any_limit()), cluster in any_cluster(),
        (fleet, shuffled) in any_fleet().prop_flat_map(|f| (Just(f.clone()), Just(f).prop_shuffle())),
        now in any_time(),
    ) {
        let expected = plan(&check, &cluster, &fleet, now);
        prop_assert_eq!(&plan(&check, &cluster, &shuffled, now), &expected);
        let machines: Vec<_> = expected.actions.iter().map(Action::machine).collect();
        prop_assert!(machines.is_sorted());
    }

    #[test]
    fn plan_is_stable_until_its_wake_time(
        check in any_check(any_limit()), cluster in any_cluster(),
        fleet in any_fleet(), now in any_time(), later in 0i64..2_000_000,
    ) {
        let first = plan(&check, &cluster, &fleet, now);
        let later = now + Duration::from_millis(later.unsigned_abs());
        let last_moment = first.wake_at.map(|wake| wake - Duration::from_nanos(1));
        let then = last_moment.map_or(later, |last| last.min(later));
        prop_assert_eq!(&plan(&check, &cluster, &fleet, then), &first);

        if let Some(wake) = first.wake_at {
            prop_assert!(wake > now);
            let woken = plan(&check, &cluster, &fleet, wake);
            let seen = (first.verdicts, first.ahead);
            prop_assert_ne!((woken.verdicts, woken.ahead), seen, "woken without a change");
        }
    }

    #[test]
    fn machine_is_healthy_only_with_a_present_node(
        check in any_check(any_limit()), cluster in any_cluster(),
        target in any_target(), now in any_time(),
    ) {
        if verdict(&check, &cluster, &target.machine, &target.node, now) == Verdict::Healthy {
            prop_assert!(matches!(target.node, NodeView::Present(_)));
            prop_assert!(!target.machine.deleting);
        }
    }

    #[test]
    fn incremental_counts_equal_the_plan(
        check in any_check(any_limit()), cluster in any_cluster(),
        fleet in any_fleet(), gone in any_target(), now in any_time(),
    ) {
        let mut tally = FleetCounts::default();
        let judged = |target: &Target| verdict(&check, &cluster, &target.machine, &target.node, now);
        tally.add(Counts::of(&judged(&gone), &gone.remediation));
        for target in &fleet {
            tally.add(Counts::of(&judged(target), &target.remediation));
        }
        tally.remove(Counts::of(&judged(&gone), &gone.remediation));
        let plan = plan(&check, &cluster, &fleet, now);
        prop_assert_eq!(tally.not_healthy, plan.gate.not_healthy);
        let status = (plan.status.expected, plan.status.healthy, plan.status.unhealthy);
        prop_assert_eq!((tally.expected, tally.healthy, tally.unhealthy), status);
    }
}
