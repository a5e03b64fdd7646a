//! Tests that a fleet that receives each change decides like the plan of all Nodes, for any order of
//! events.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    Put(NodeFacts, bool),
    Remove(String),
    Remediation(NodeRemediation),
    RemediationGone(String, String),
    Wait(u32),
    Outside(Outside),
    Decide,
}

fn names() -> impl Strategy<Value = String> {
    (0..6_u8).prop_map(|i| format!("n{i}"))
}

fn facts() -> impl Strategy<Value = NodeFacts> {
    let ready = prop_oneof![Just("True"), Just("True"), Just("False"), Just("Unknown")];
    let exclusion = prop_oneof![
        4 => Just(Exclusion::None),
        1 => Just(Exclusion::Excluded),
        1 => Just(Exclusion::Unclear),
    ];
    (
        names(),
        ready,
        -400..400_i64,
        exclusion,
        any::<(bool, bool, bool, bool)>(),
        proptest::bool::weighted(0.1),
    )
        .prop_map(
            |(name, ready, since, exclusion, (plane, etcd, confirmed, joined), changing)| {
                let mut facts = node(&name, ready, at(since));
                facts.created = Some(at(since));
                let may = name.as_str() < "n3";
                facts.roles = Roles {
                    etcd: etcd && may,
                    control_plane: plane && may,
                };
                facts.exclusion = exclusion;
                facts.confirmed = confirmed;
                facts.reconfiguring = changing;
                if !joined {
                    facts.conditions[0].reason = "NodeStatusNeverUpdated".into();
                }
                facts
            },
        )
}

fn remediations() -> impl Strategy<Value = NodeRemediation> {
    let template = prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("named-no-more")];
    let flags = any::<(bool, bool, bool, bool)>();
    let maybe = proptest::option::of(-400..400_i64);
    (
        names(),
        template,
        -400..400_i64,
        flags,
        maybe.clone(),
        maybe,
    )
        .prop_map(
            |(node, template, made, (ours, deleting, goes, old), timed_out, delayed)| {
                let mut remediation = remediation(&node, template, at(made));
                if !ours {
                    remediation.owners = vec!["another-check".into()];
                }
                remediation.deleting = deleting;
                remediation.node_goes = goes;
                remediation.told_old = old;
                remediation.timed_out = timed_out.map(at);
                remediation.delayed_since = delayed.map(at);
                remediation.succeeded =
                    [None, Some(true), Some(false)][usize::from(goes) + usize::from(old)];
                remediation
            },
        )
}

fn outsides() -> impl Strategy<Value = Outside> {
    (
        any::<bool>(),
        proptest::option::of(names()),
        proptest::option::of(names()),
        names(),
        proptest::bool::weighted(0.2),
    )
        .prop_map(
            |(disabled, creating, elsewhere, leased, upgrading)| Outside {
                maintenance: BTreeMap::new(),
                upgrading: upgrading.then(|| "it is".to_owned()),
                disabled: disabled.then(|| Disabled {
                    reason: "RemediationTemplateNotFound",
                    message: "gone".into(),
                }),
                creating: creating.into_iter().collect(),
                elsewhere: elsewhere
                    .map(|n| (n, "other".to_owned()))
                    .into_iter()
                    .collect(),
                blocked: BTreeMap::new(),
                leases: BTreeMap::from([(leased, renewed(at(10)))]),
            },
        )
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (facts(), prop_oneof![4 => Just(true), 1 => Just(false)])
            .prop_map(|(facts, selected)| Event::Put(facts, selected)),
        1 => names().prop_map(Event::Remove),
        3 => remediations().prop_map(Event::Remediation),
        2 => (names(), prop_oneof![Just("a"), Just("b")])
            .prop_map(|(node, template)| Event::RemediationGone(node, template.to_owned())),
        2 => (1..200_u32).prop_map(Event::Wait),
        1 => outsides().prop_map(Event::Outside),
        4 => Just(Event::Decide),
    ]
}

fn checks() -> impl Strategy<Value = Check> {
    let delay = prop_oneof![
        Just(Delay::None),
        Just(Delay::For(MINUTE)),
        Just(Delay::UntilConfirmed)
    ];
    (
        any::<(bool, bool, bool)>(),
        0..=100_i32,
        delay,
        any::<bool>(),
    )
        .prop_map(|((storm, paused, startup), percent, delay, min)| Check {
            limit: if min {
                Limit::MinHealthy(IntOrPercent::Percent(percent))
            } else {
                Limit::MaxUnhealthy(IntOrPercent::Percent(percent))
            },
            storm_cooldown: storm.then_some(MINUTE),
            pauses: if paused { vec!["p".into()] } else { vec![] },
            startup_timeout: startup.then_some(MINUTE * 2),
            delay,
            ..escalating()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn node_is_unhealthy_after_its_first_onset(
        check in checks(),
        facts in facts(),
        now in 0..2000_i64,
    ) {
        let until = onsets(&check, &facts).into_iter().map(|onset| onset.until).min();
        let expected = match until {
            None => Class::Healthy,
            Some(until) if until < at(now) => {
                prop_assert!(matches!(classify(&check, &facts, at(now)), Class::Matching(_)));
                return Ok(());
            }
            until => Class::Soon(until),
        };
        prop_assert_eq!(classify(&check, &facts, at(now)), expected);
    }

    #[test]
    fn incremental_fleet_equals_the_plan_of_all_nodes(
        check in checks(),
        events in proptest::collection::vec(events(), 1..60),
    ) {
        let mut now = at(0);
        let mut fleet = Fleet::new(check.clone(), now);
        let mut nodes: BTreeMap<String, (NodeFacts, bool)> = BTreeMap::new();
        let mut all: BTreeMap<RemediationId, NodeRemediation> = BTreeMap::new();
        let (mut outside, mut memory) = (Outside::default(), NodeCheckStatus::default());
        for event in events {
            match event {
                Event::Put(facts, selected) => {
                    fleet.put_node(Arc::new(facts.clone()), selected, now);
                    nodes.insert(facts.name.clone(), (facts, selected));
                }
                Event::Remove(name) => {
                    fleet.remove_node(&name, now);
                    nodes.remove(&name);
                }
                Event::Remediation(remediation) => {
                    fleet.put_remediation(remediation.clone());
                    all.insert(remediation.id.clone(), remediation);
                }
                Event::RemediationGone(node, template) => {
                    let id = remediation(&node, &template, now).id;
                    fleet.remove_remediation(&id);
                    all.remove(&id);
                }
                Event::Wait(seconds) => now += Duration::from_secs(seconds.into()),
                Event::Outside(new) => outside = new,
                Event::Decide => {
                    let nodes: Vec<_> = nodes.values().cloned().collect();
                    let all: Vec<_> = all.values().cloned().collect();
                    let incremental = fleet.decide(&outside, &memory, now);
                    let whole = plan(&check, &nodes, &all, &outside, &memory, now);
                    prop_assert_eq!(&incremental, &whole);
                    // F6: at most one Node of the control plane at a time.
                    let masters = incremental.actions.iter().filter(|a| {
                        matches!(a, Action::Create { control_plane: true, .. })
                    });
                    prop_assert!(masters.count() <= 1);
                    memory = incremental.memory;
                }
            }
        }
    }
}
