//! Tests that the incremental fleet equals the plan of the whole fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::props::{
    any_check, any_cluster, any_limit, any_node, any_remediation, any_target, any_time,
};
use super::*;

/// The facts, as the clusters hold them.
#[derive(Debug, Clone)]
struct World {
    check: Check,
    cluster: ClusterFacts,
    unreachable: Option<String>,
    machines: BTreeMap<String, Target>,
    now: Timestamp,
}

#[derive(Debug, Clone)]
enum Event {
    /// Also: relabelled so that it is selected.
    Put(usize, Target),
    /// Also: relabelled so that it is not selected any more.
    Remove(usize),
    Node(usize, NodeView),
    Remediation(usize, MachineRemediation),
    Rules(Check),
    Limit(Limit),
    Pause(bool),
    Cluster(ClusterFacts),
    Workload(bool),
    /// The actions of the plan are carried out, as by the controller.
    Act,
    Wait(u64),
    /// Another process takes over.
    Restart,
}

fn any_event() -> impl Strategy<Value = Event> {
    let which = || 0usize..6;
    prop_oneof![
        6 => (which(), any_target()).prop_map(|(i, target)| Event::Put(i, target)),
        2 => which().prop_map(Event::Remove),
        6 => (which(), any_node()).prop_map(|(i, node)| Event::Node(i, node)),
        3 => (which(), any_remediation()).prop_map(|(i, remediation)| Event::Remediation(i, remediation)),
        1 => any_check(any_limit()).prop_map(Event::Rules),
        2 => any_limit().prop_map(Event::Limit),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => (any_cluster(), prop::bool::weighted(0.2)).prop_map(|(cluster, paused)| {
            Event::Cluster(ClusterFacts { paused, ..cluster })
        }),
        2 => any::<bool>().prop_map(Event::Workload),
        4 => Just(Event::Act),
        4 => (0u64..400).prop_map(Event::Wait),
        1 => Just(Event::Restart),
    ]
}

fn any_history() -> impl Strategy<Value = (World, Vec<Event>)> {
    let world =
        (any_check(any_limit()), any_cluster(), any_time()).prop_map(|(check, cluster, now)| {
            World {
                check,
                cluster,
                unreachable: None,
                machines: BTreeMap::new(),
                now,
            }
        });
    (world, vec(any_event(), 0..40))
}

fn name(i: usize) -> String {
    format!("m-{i}")
}

// === impl World ===

impl World {
    /// The plan of the whole fleet, as the reference.
    fn plan(&self) -> Plan {
        let seen = |target: &Target| {
            let mut target = target.clone();
            if let Some(why) = &self.unreachable {
                target.node = NodeView::Unreachable {
                    why: why.clone(),
                    joined: target.node != NodeView::NotJoined,
                };
            }
            target
        };
        let fleet: Vec<_> = self.machines.values().map(seen).collect();
        plan(&self.check, &self.cluster, &fleet, self.now)
    }

    fn fleet(&self) -> Fleet {
        let mut fleet = Fleet::new(
            self.check.clone(),
            self.cluster.clone(),
            self.unreachable.clone(),
            self.now,
        );
        for target in self.machines.values() {
            fleet.put(target.clone(), self.now);
        }
        fleet
    }

    fn set_check(&self, fleet: &mut Fleet) {
        let read = |name: &str| self.machines.get(name).cloned();
        fleet.set_check(self.check.clone(), self.now, read);
    }

    /// Applies an event to the facts and to the fleet.
    fn apply(&mut self, fleet: &mut Fleet, event: Event) {
        match event {
            Event::Put(i, mut target) => {
                target.machine.name = name(i);
                target.machine.uid = format!("uid-{}", name(i));
                self.machines.insert(name(i), target.clone());
                fleet.put(target, self.now);
            }
            Event::Remove(i) => {
                self.machines.remove(&name(i));
                let was_selected = fleet.contains(&name(i));
                assert_eq!(fleet.set_target(&name(i), None, self.now), was_selected);
            }
            Event::Node(i, node) => {
                if let Some(target) = self.machines.get_mut(&name(i)) {
                    target.node = node.clone();
                }
                fleet.set_node(&name(i), node, self.now);
            }
            Event::Remediation(i, remediation) => {
                self.set_remediation(fleet, &name(i), remediation);
            }
            Event::Rules(check) => {
                self.check = check;
                self.set_check(fleet);
            }
            Event::Limit(limit) => {
                self.check.limit = limit;
                self.set_check(fleet);
            }
            Event::Pause(paused) => {
                self.check.paused = paused;
                self.set_check(fleet);
            }
            Event::Cluster(cluster) => {
                self.cluster = cluster.clone();
                fleet.set_cluster(cluster, self.now);
            }
            Event::Workload(reachable) => {
                self.unreachable = (!reachable).then(|| "connection refused".into());
                fleet.set_unreachable(self.unreachable.clone(), self.now);
            }
            Event::Act => {
                for action in self.plan().actions {
                    match action {
                        Action::CreateRemediation { machine, .. } => {
                            self.set_remediation(fleet, &machine, MachineRemediation::Open);
                        }
                        Action::DeleteRemediation { machine } => {
                            self.set_remediation(fleet, &machine, MachineRemediation::None);
                        }
                        Action::MarkOwnerRemediated { .. }
                        | Action::UnmarkOwnerRemediated { .. }
                        | Action::ReportForeignRemediation { .. } => {}
                    }
                }
            }
            Event::Wait(seconds) => self.now += secs(seconds),
            Event::Restart => *fleet = self.fleet(),
        }
        fleet.advance(self.now);
    }

    fn set_remediation(
        &mut self,
        fleet: &mut Fleet,
        machine: &str,
        remediation: MachineRemediation,
    ) {
        if let Some(target) = self.machines.get_mut(machine) {
            target.remediation = remediation.clone();
        }
        fleet.set_remediation(machine, remediation, self.now);
    }
}

/// The state of an observer that is informed only by [`FleetChanges`].
#[derive(Default)]
struct Follower {
    conditions: BTreeMap<String, HealthConditionWrite>,
    actions: BTreeMap<String, Action>,
    targets: Vec<String>,
    gate: Option<LimitStatus>,
    ahead: BTreeMap<String, Vec<FutureCause>>,
}

// === impl Told ===

impl Follower {
    fn follow(&mut self, fleet: &mut Fleet) -> FleetChanges {
        let turn = fleet.take();
        let gone = |name: &str| !fleet.contains(name);
        self.conditions.retain(|name, _| !gone(name));
        self.actions.retain(|name, _| !gone(name));
        for name in &turn.machines {
            let name = name.to_string();
            self.conditions.remove(&name);
            self.actions.remove(&name);
            let wanted = fleet.wanted(&name).unwrap();
            self.conditions
                .extend(wanted.condition.map(|c| (name.clone(), c)));
            self.actions
                .extend(wanted.action.map(|a| (name.clone(), a)));
        }
        if turn.targets {
            self.targets = fleet.status().targets;
        }
        if turn.counts {
            self.gate = Some(fleet.gate());
            self.ahead = ahead(fleet);
        }
        turn
    }

    /// Drops what a closed limit or a pause denies now: such a change is not reported, because the action
    /// is evaluated again before it is carried out.
    fn drop_denied(&mut self, fleet: &Fleet) {
        let still = |name: &String| fleet.wanted(name).unwrap();
        self.actions.retain(|name, _| still(name).action.is_some());
        self.conditions
            .retain(|name, _| still(name).condition.is_some());
    }
}

fn ahead(fleet: &Fleet) -> BTreeMap<String, Vec<FutureCause>> {
    let all = fleet.ahead();
    all.map(|(name, ahead)| (name.to_string(), ahead.to_vec()))
        .collect()
}

fn compare(fleet: &Fleet, follower: &Follower, expected: &Plan) -> Result<(), TestCaseError> {
    prop_assert_eq!(&fleet.gate(), &expected.gate);
    prop_assert_eq!(fleet.is_open(), expected.gate.open);
    prop_assert_eq!(&fleet.status(), &expected.status);
    prop_assert_eq!(fleet.next_deadline(), expected.wake_at);
    let verdicts: BTreeMap<_, _> = fleet
        .machines()
        .map(|name| {
            (
                name.to_string(),
                fleet.wanted(name).unwrap().verdict.clone(),
            )
        })
        .collect();
    prop_assert_eq!(&verdicts, &expected.verdicts);
    let causes: u32 = fleet.causes().map(|(_, count)| count).sum();
    prop_assert_eq!(causes, expected.status.unhealthy);
    prop_assert_eq!(&ahead(fleet), &expected.ahead);
    prop_assert_eq!(clock_skew(fleet.ahead()), clock_skew(&expected.ahead));

    prop_assert_eq!(&follower.conditions, &expected.conditions);
    let actions: Vec<_> = follower.actions.values().cloned().collect();
    prop_assert_eq!(&actions, &expected.actions);
    prop_assert_eq!(&follower.targets, &expected.status.targets);
    prop_assert_eq!(follower.gate.as_ref(), Some(&expected.gate));
    prop_assert_eq!(&follower.ahead, &expected.ahead);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn f10_incremental_fleet_equals_the_plan_of_the_whole_fleet(
        (mut world, events) in any_history(),
    ) {
        let mut fleet = world.fleet();
        let mut follower = Follower::default();
        follower.follow(&mut fleet);
        for event in events {
            let restarted = matches!(event, Event::Restart);
            world.apply(&mut fleet, event.clone());
            if restarted {
                follower = Follower::default();
            }
            follower.follow(&mut fleet);
            follower.drop_denied(&fleet);
            let expected = world.plan();
            if let Err(error) = compare(&fleet, &follower, &expected) {
                return Err(TestCaseError::fail(format!("after {event:?}: {error}")));
            }
        }
    }

    #[test]
    fn f13_fleet_that_is_filled_between_changes_acts_only_when_it_equals_the_whole_one(
        (mut world, events) in any_history(), first in vec((0usize..6, any_target()), 0..6),
    ) {
        for (i, target) in first {
            let (machine, remediation) = (target.machine, target.remediation);
            let machine = MachineFacts { name: name(i), uid: format!("uid-{}", name(i)), ..machine };
            world.machines.insert(name(i), Target { machine, remediation, ..target });
        }
        let (check, cluster) = (world.check.clone(), world.cluster.clone());
        let mut fleet = Fleet::unfilled(check, cluster, world.unreachable.clone(), world.now);
        // Each machine is read at its turn, as it is then.
        let mut unread: Vec<String> = (0..6).map(name).collect();
        let mut fill = |world: &World, fleet: &mut Fleet| {
            let target = unread.pop().and_then(|name| world.machines.get(&name).cloned());
            if let Some(target) = target {
                fleet.put(target, world.now);
            }
            unread.is_empty()
        };
        for event in events {
            // A restart begins with another fleet, and nothing was acted on.
            if matches!(event, Event::Restart | Event::Act) {
                continue;
            }
            world.apply(&mut fleet, event);
            fill(&world, &mut fleet);
            prop_assert!(!fleet.is_whole() && !fleet.is_open() && fleet.next_deadline().is_none());
            for machine in fleet.machines() {
                let wanted = fleet.wanted(machine).unwrap();
                prop_assert!(wanted.action.is_none() && wanted.condition.is_none());
            }
        }
        while !fill(&world, &mut fleet) {}
        fleet.end_filling();
        let mut follower = Follower::default();
        follower.follow(&mut fleet);
        follower.drop_denied(&fleet);
        compare(&fleet, &follower, &world.plan())?;
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn f13_large_fleet_that_is_evaluated_between_changes_acts_only_when_it_equals_the_plan(
        (mut world, events) in any_history(), kinds in vec(any_target(), 6),
    ) {
        for i in 0..1100 {
            let target = kinds[i % kinds.len()].clone();
            let machine = MachineFacts { name: name(i), uid: format!("uid-{}", name(i)), ..target.machine };
            world.machines.insert(name(i), Target { machine, ..target });
        }
        let mut fleet = world.fleet();
        let mut follower = Follower::default();
        follower.follow(&mut fleet);
        world.apply(&mut fleet, Event::Workload(false));
        for event in events {
            if matches!(event, Event::Restart | Event::Act) {
                continue;
            }
            world.apply(&mut fleet, event);
            if !fleet.evaluate_some(world.now, 90) {
                continue;
            }
            prop_assert!(!fleet.is_whole() && !fleet.is_open() && fleet.next_deadline().is_none());
            for machine in fleet.machines().take(5) {
                let wanted = fleet.wanted(machine).unwrap();
                prop_assert!(wanted.action.is_none() && wanted.condition.is_none());
            }
        }
        while fleet.evaluate_some(world.now, 90) {}
        while fleet.advance_some(world.now, 7) {}
        follower.follow(&mut fleet);
        follower.drop_denied(&fleet);
        compare(&fleet, &follower, &world.plan())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn f10_remediations_stay_within_the_limit_across_restarts(
        limit in 0i32..4, (mut world, events) in any_history(),
    ) {
        world.check = Check { limit: max(limit), external: true, ..world.check };
        let mut fleet = world.fleet();
        for event in events {
            // Only the controller itself may create a remediation.
            let event = match event {
                Event::Put(i, target) => Event::Put(i, Target { remediation: MachineRemediation::None, ..target }),
                Event::Remediation(..) | Event::Limit(_) | Event::Rules(_) => continue,
                event => event,
            };
            // A machine under remediation may leave the fleet and come back; only targets count.
            let open = |world: &World, fleet: &Fleet| {
                let counts = |(name, target): &(&String, &Target)| {
                    target.remediation == MachineRemediation::Open
                        && fleet.wanted(name).unwrap().verdict.is_target()
                };
                world.machines.iter().filter(counts).count()
            };
            let before = open(&world, &fleet);
            let acts = matches!(event, Event::Act);
            world.apply(&mut fleet, event);
            let after = open(&world, &fleet);
            prop_assert!(!acts || after <= before || after <= usize::try_from(limit).unwrap());
        }
    }
}

fn mk_fleet(check: Check, targets: Vec<Target>, now: Timestamp) -> Fleet {
    let mut fleet = Fleet::new(check, mk_cluster(), None, now);
    for target in targets {
        fleet.put(target, now);
    }
    fleet.take();
    fleet
}

fn named(turn: &FleetChanges) -> Vec<&str> {
    turn.machines.iter().map(AsRef::as_ref).collect()
}

#[test]
fn unchanged_input_reports_no_fleet_changes() {
    let mut fleet = mk_fleet(mk_check(), vec![mk_healthy("a"), mk_healthy("b")], at(10));
    fleet.set_node("a", mk_node("True", at(0)), at(20));
    fleet.set_remediation("a", MachineRemediation::None, at(20));
    fleet.set_cluster(mk_cluster(), at(20));
    fleet.set_unreachable(None, at(20));
    fleet.set_check(mk_check(), at(20), |_| None);
    fleet.advance(at(20));
    assert_eq!(fleet.take(), FleetChanges::default());
}

#[test]
fn event_of_one_machine_reports_only_that_machine() {
    let mut fleet = mk_fleet(mk_check(), vec![mk_healthy("a"), mk_healthy("b")], at(10));
    fleet.set_node("a", mk_node("Unknown", at(20)), at(20));
    let turn = fleet.take();
    assert_eq!((named(&turn), turn.targets), (vec!["a"], false));
    assert_eq!(fleet.next_deadline(), Some(at(320)));

    fleet.advance(at(319));
    assert_eq!(fleet.take(), FleetChanges::default());
    fleet.advance(at(320));
    assert_eq!(named(&fleet.take()), ["a"]);
    assert_eq!(fleet.wanted("a").unwrap().action, Some(create("a")));
}

#[test]
fn condition_without_a_rule_is_not_stored() {
    let mut fleet = mk_fleet(mk_check(), vec![mk_healthy("a")], at(10));
    let mut node = mk_node("True", at(0));
    if let NodeView::Present(node) = &mut node {
        node.conditions
            .push(mk_condition("DiskPressure", "True", at(5)));
    }
    fleet.set_node("a", node, at(20));
    assert_eq!(fleet.take(), FleetChanges::default());
}

#[test]
fn rule_on_a_new_condition_rereads_all_machines() {
    let mut target = mk_healthy("a");
    if let NodeView::Present(node) = &mut target.node {
        node.conditions
            .push(mk_condition("DiskPressure", "True", at(0)));
    }
    let mut fleet = mk_fleet(mk_check(), vec![target.clone(), mk_healthy("gone")], at(10));
    let check = Check {
        node_conditions: vec![mk_rule("DiskPressure", "True", 5)],
        ..mk_check()
    };
    fleet.set_check(check, at(10), |name| (name == "a").then(|| target.clone()));
    assert_eq!(fleet.wanted("a").unwrap().action, Some(create("a")));
    assert!(!fleet.contains("gone"));
    assert_eq!(fleet.tally().expected, 1);
}

#[test]
fn opening_limit_enqueues_all_unhealthy_machines() {
    let check = Check {
        limit: percent(40),
        ..mk_check()
    };
    let sick = vec![mk_unhealthy("a"), mk_unhealthy("b"), mk_healthy("c")];
    let mut fleet = mk_fleet(check, sick, at(400));
    assert!(!fleet.is_open());
    assert_eq!(fleet.wanted("a").unwrap().action, None);
    fleet.put(mk_healthy("d"), at(400));
    assert_eq!(named(&fleet.take()), ["d"], "2 of 4 is still more than 1");
    fleet.put(mk_healthy("e"), at(400));
    assert!(fleet.is_open());
    assert_eq!(named(&fleet.take()), ["a", "b", "e"]);
    assert_eq!(fleet.wanted("a").unwrap().action, Some(create("a")));
}

#[test]
fn f10_closing_limit_enqueues_all_unhealthy_machines() {
    let check = Check {
        limit: percent(40),
        ..mk_check()
    };
    let fleet = vec![mk_unhealthy("a"), mk_healthy("b"), mk_healthy("c")];
    let mut fleet = mk_fleet(check, fleet, at(400));
    assert!(fleet.is_open());
    fleet.take();
    fleet.set_node("b", mk_node("False", at(0)), at(400));
    assert!(!fleet.is_open());
    assert_eq!(named(&fleet.take()), ["a", "b"]);
}

#[test]
fn f10_closing_and_opening_limit_of_a_large_fleet_reports_every_unhealthy_machine() {
    let check = Check {
        limit: percent(40),
        ..mk_check()
    };
    let sick: Vec<String> = (0..1_001).map(|i| format!("sick-{i:04}")).collect();
    let others: Vec<String> = (0..1_502).map(|i| format!("other-{i:04}")).collect();
    let targets = sick.iter().map(|name| mk_unhealthy(name));
    let targets = targets.chain(others.iter().map(|name| mk_healthy(name)));
    let mut fleet = mk_fleet(check, targets.collect(), at(400));
    assert!(fleet.is_open(), "1001 of 2503");
    fleet.put(mk_unhealthy(&others[0]), at(400));
    assert!(!fleet.is_open(), "1002 of 2503");
    assert!(fleet.take().unhealthy);
    fleet.put(mk_healthy(&others[0]), at(400));
    assert!(fleet.is_open());
    let turn = fleet.take();
    assert!(turn.unhealthy && turn.machines.len() == 1);
    // Page by page, each of them once.
    let mut visited: Vec<Arc<str>> = Vec::new();
    loop {
        let page = fleet.unhealthy_after(visited.last(), 100);
        if page.is_empty() {
            break;
        }
        visited.extend(page);
    }
    let visited: Vec<&str> = visited.iter().map(AsRef::as_ref).collect();
    assert_eq!(visited, sick);
    let first = fleet.machines_after(None, 1);
    assert_eq!(*first[0], *others[0]);
    assert_eq!(*fleet.machines_after(first.first(), 1)[0], *others[1]);
}

#[test]
fn clock_set_back_reverts_no_verdict() {
    let mut fleet = mk_fleet(mk_check(), vec![mk_unhealthy("a")], at(300));
    fleet.advance(at(100));
    fleet.set_node("a", mk_node("False", at(0)), at(100));
    assert_eq!(fleet.wanted("a").unwrap().verdict.label(), "unhealthy");
}

#[test]
fn paused_fleet_has_no_actions_until_it_is_resumed() {
    let mut fleet = mk_fleet(
        mk_check(),
        vec![mk_unhealthy("a"), mk_starting("b")],
        at(300),
    );
    fleet.set_cluster(
        ClusterFacts {
            paused: true,
            ..mk_cluster()
        },
        at(301),
    );
    assert_eq!(fleet.take().machines.len(), 0);
    let wanted = fleet.wanted("a").unwrap();
    assert_eq!((wanted.condition, wanted.action), (None, None));
    assert_eq!(fleet.next_deadline(), None);
    fleet.set_cluster(mk_cluster(), at(302));
    assert_eq!(named(&fleet.take()), ["a", "b"]);
    assert_eq!(fleet.next_deadline(), Some(at(600)));
}
