//! Tests that the fleet of an OpenShift check equals the plan of the whole fleet.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::props::{any_node, any_remediation};
use super::*;

#[derive(Debug, Clone)]
enum Event {
    Put(usize, OpenShiftMachine, NodeView, MachineRemediation),
    Remove(usize),
    Node(usize, NodeView),
    Remediation(usize, MachineRemediation),
    Rules(OpenShiftCheck),
    Workload(bool),
    Wait(u64),
}

fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        4 => (0_i32..=100).prop_map(|share| Limit::AtMost(IntOrPercent::Percent(share))),
        3 => (-1_i32..4).prop_map(|count| Limit::AtMost(IntOrPercent::Int(count))),
        1 => Just(Limit::Unreadable),
    ]
}

fn any_rules() -> impl Strategy<Value = OpenShiftCheck> {
    let strategy = prop_oneof![
        Just(OpenShiftStrategy::Template),
        Just(OpenShiftStrategy::ExternalBaremetal),
        Just(OpenShiftStrategy::Delete),
    ];
    (any_limit(), strategy, 0_u64..600).prop_map(|(limit, strategy, timeout)| {
        let rules = vec![mk_rule("Ready", "Unknown", timeout)];
        OpenShiftCheck::new(Some(secs(600)), rules, limit, strategy)
    })
}

fn any_machine() -> impl Strategy<Value = OpenShiftMachine> {
    let flags = (
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    );
    (flags, -600_i64..600).prop_map(|((failed, controlled, deleting, marked), updated)| {
        OpenShiftMachine {
            facts: MachineFacts {
                failure: failed.then(|| "no host".to_owned()),
                starting_since: Some(at(updated)),
                deleting,
                ..mk_openshift_machine("").facts
            },
            controlled,
            external_remediation: marked,
        }
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let which = || 0_usize..5;
    prop_oneof![
        6 => (which(), any_machine(), any_node(), any_remediation())
            .prop_map(|(i, machine, node, remediation)| Event::Put(i, machine, node, remediation)),
        2 => which().prop_map(Event::Remove),
        6 => (which(), any_node()).prop_map(|(i, node)| Event::Node(i, node)),
        4 => (which(), any_remediation()).prop_map(|(i, remediation)| Event::Remediation(i, remediation)),
        2 => any_rules().prop_map(Event::Rules),
        1 => any::<bool>().prop_map(Event::Workload),
        4 => (0_u64..400).prop_map(Event::Wait),
    ]
}

/// The facts, as the cluster holds them, and the fleet that receives the events.
struct World {
    check: OpenShiftCheck,
    machines: BTreeMap<String, OpenShiftTarget>,
    unreachable: bool,
    now: Timestamp,
    fleet: Fleet<OpenShiftCheck>,
}

impl World {
    fn new(check: OpenShiftCheck) -> Self {
        Self {
            fleet: Fleet::new(check.clone(), ready_cluster(), None, at(0)),
            check,
            machines: BTreeMap::new(),
            unreachable: false,
            now: at(0),
        }
    }

    fn apply(&mut self, event: Event) {
        let name = |i: usize| format!("m-{i}");
        match event {
            Event::Put(i, machine, node, remediation) => {
                let (name, uid) = (name(i), format!("uid-{i}"));
                let mut machine = machine;
                (machine.facts.name, machine.facts.uid) = (name.clone(), uid);
                let target = OpenShiftTarget {
                    machine,
                    node,
                    remediation,
                };
                self.machines.insert(name, target.clone());
                self.fleet.put(target, self.now);
            }
            Event::Remove(i) => {
                self.machines.remove(&name(i));
                self.fleet.remove(&name(i), self.now);
            }
            Event::Node(i, node) => {
                if let Some(target) = self.machines.get_mut(&name(i)) {
                    target.node = node.clone();
                }
                self.fleet.set_node(&name(i), node, self.now);
            }
            Event::Remediation(i, remediation) => {
                if let Some(target) = self.machines.get_mut(&name(i)) {
                    target.remediation = remediation.clone();
                }
                self.fleet.set_remediation(&name(i), remediation, self.now);
            }
            Event::Rules(check) => {
                self.check = check.clone();
                let machines = &self.machines;
                let read = |name: &str| machines.get(name).cloned();
                self.fleet.set_check(check, self.now, read);
            }
            Event::Workload(unreachable) => {
                self.unreachable = unreachable;
                let why = unreachable.then(|| "no route".to_owned());
                self.fleet.set_unreachable(why, self.now);
            }
            Event::Wait(seconds) => {
                self.now = self.now.checked_add(secs(seconds)).unwrap();
                self.fleet.advance(self.now);
            }
        }
    }

    /// The plan of the whole fleet, as the reference.
    fn plan(&self) -> OpenShiftPlan {
        let seen = |target: &OpenShiftTarget| {
            let mut target = target.clone();
            if self.unreachable {
                target.node = NodeView::Unreachable {
                    why: "no route".into(),
                    joined: target.node != NodeView::NotJoined,
                };
            }
            target
        };
        let fleet: Vec<OpenShiftTarget> = self.machines.values().map(seen).collect();
        plan_openshift(&self.check, &fleet, self.now)
    }
}

proptest! {
    #[test]
    fn openshift_fleet_equals_the_plan_of_the_whole_fleet(
        check in any_rules(), events in vec(any_event(), 0..40),
    ) {
        let mut world = World::new(check);
        for event in events {
            world.apply(event);
            let plan = world.plan();
            let fleet = &world.fleet;
            let gate = fleet.gate();
            prop_assert_eq!(
                (gate.open, gate.expected, gate.remediations_allowed, gate.message),
                (plan.open, plan.expected, plan.remediations_allowed, plan.message.clone())
            );
            prop_assert_eq!(fleet.is_open(), plan.open);
            prop_assert_eq!(fleet.tally().healthy, plan.healthy);
            prop_assert_eq!(fleet.next_deadline(), plan.wake_at);
            let wanted = fleet.machines().filter_map(|name| fleet.wanted(name)?.action);
            prop_assert_eq!(wanted.collect::<Vec<_>>(), plan.actions);
        }
    }
}
