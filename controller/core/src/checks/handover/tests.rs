use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::values::int_or_percent::IntOrPercent;
use crate::{
    checks::machines::{
        Action, Check, ClusterFacts, Condition, ConditionRule, Counts, DialectRules as _, Fleet,
        FleetCounts, Limit, MachineFacts, MachineRemediation, NodeFacts, NodeView, Target, Verdict,
        can_close,
    },
    watches::freshness::{Catchup, Listed, Listing},
};

fn name(text: &str) -> Arc<str> {
    text.into()
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn f13_members_that_are_withdrawn_together_are_cleared_by_no_read_that_is_under_way() {
    let mut handover = Handover::default();
    assert!(!handover.request(&name("a"), at(0)));
    assert_eq!(handover.step(false, at(0)), HandoverStep::Read);
    assert!(!handover.request(&name("b"), at(1)));
    handover.withdraw_all();
    assert!(!handover.request(&name("a"), at(2)));
    assert_eq!(handover.finish_read(Ok(()), at(3)), BTreeSet::new());
    assert_eq!(handover.step(false, at(3)), HandoverStep::Read);
    assert_eq!(handover.finish_read(Ok(()), at(4)), [name("a")].into());
    handover.withdraw_all();
    assert!(
        !handover.request(&name("a"), at(5)),
        "it was cleared before"
    );
}

#[test]
fn f13_first_member_is_not_cleared_before_the_burst_has_settled() {
    let mut handover = Handover::default();
    assert_eq!(handover.step(true, at(0)), HandoverStep::Idle);
    assert!(!handover.request(&name("a"), at(0)));
    assert_eq!(handover.step(true, at(0)), HandoverStep::Wait(SETTLE));
    assert!(!handover.request(&name("b"), at(900)));
    assert_eq!(
        handover.step(true, at(900)),
        HandoverStep::Wait(SETTLE),
        "counted from the first member"
    );
    assert_eq!(handover.step(true, SETTLE), HandoverStep::Read);
    assert_eq!(
        handover.step(true, SETTLE),
        HandoverStep::Idle,
        "one read at a time"
    );
    assert!(
        !handover.request(&name("c"), SETTLE),
        "after the read began"
    );
    assert!(!handover.request(&name("a"), SETTLE));
    let cleared = handover.finish_read(Ok(()), SETTLE + at(100));
    assert_eq!(cleared, BTreeSet::from([name("a"), name("b")]));
    assert!(handover.request(&name("a"), SETTLE + at(100)));
    assert!(!handover.request(&name("c"), SETTLE + at(100)));
    let next = HandoverStep::Wait(SETTLE + SETTLE);
    assert_eq!(handover.step(true, SETTLE + at(100)), next);
}

#[test]
fn f13_unreachable_limit_skips_settling_but_not_the_live_read() {
    let mut handover = Handover::default();
    assert!(!handover.request(&name("a"), at(5)));
    assert_eq!(handover.step(false, at(5)), HandoverStep::Read);
    assert!(!handover.request(&name("a"), at(6)));
    handover.finish_read(Ok(()), at(7));
    assert!(handover.request(&name("a"), at(7)));
}

#[test]
fn f13_failed_read_clears_no_member_and_reports_the_cause() {
    let mut handover = Handover::default();
    handover.request(&name("a"), at(0));
    assert_eq!(handover.step(false, at(0)), HandoverStep::Read);
    assert!(
        handover
            .finish_read(Err("no answer".into()), at(50))
            .is_empty()
    );
    assert!(!handover.request(&name("a"), at(50)));
    assert_eq!(handover.failure(), Some("no answer"));
    assert_eq!(
        handover.step(false, at(50)),
        HandoverStep::Wait(at(50) + RETRY)
    );
    assert_eq!(handover.step(false, at(50) + RETRY), HandoverStep::Read);
    handover.finish_read(Ok(()), at(1100));
    assert_eq!(handover.failure(), None);
    assert!(handover.request(&name("a"), at(1100)));
}

#[test]
fn f13_recovered_member_leaves_its_batch_and_clearance_expires() {
    let mut handover = Handover::default();
    for member in ["a", "b"] {
        handover.request(&name(member), at(0));
    }
    assert_eq!(handover.step(false, at(0)), HandoverStep::Read);
    handover.withdraw("a");
    assert_eq!(
        handover.finish_read(Ok(()), at(1)),
        BTreeSet::from([name("b")])
    );
    assert!(!handover.request(&name("b"), at(1) + CLEARED_FOR));
    assert!(matches!(
        handover.step(false, at(1) + CLEARED_FOR),
        HandoverStep::Read
    ));
    handover.finish_read(Err("away".into()), at(2) + CLEARED_FOR);
    handover.withdraw("a");
    handover.withdraw("b");
    assert_eq!(handover.failure(), None, "no member waits");
}

/// A machine as the API has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// There is no Machine.
    None,
    Healthy,
    Failed,
}

/// One write to the API: what becomes of a machine, and when.
#[derive(Debug, Clone)]
struct Write {
    machine: usize,
    stand: Stand,
    millis: u64,
}

fn facts(machine: usize) -> MachineFacts {
    MachineFacts {
        name: format!("m{machine}"),
        uid: format!("u{machine}"),
        starting_since: Some(Timestamp::MIN),
        deleting: false,
        control_plane: false,
        skipped: None,
        remediate_annotation: false,
        conditions: vec![],
        infrastructure_ready: None,
        failure: None,
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    }
}

fn target(machine: usize, stand: Stand) -> Target {
    let status = if stand == Stand::Failed {
        "False"
    } else {
        "True"
    };
    Target {
        machine: facts(machine),
        node: NodeView::Present(NodeFacts {
            name: format!("n{machine}"),
            conditions: vec![Condition {
                type_: "Ready".into(),
                status: status.into(),
                reason: String::new(),
                last_transition: Some(Timestamp::MIN),
            }],
        }),
        remediation: MachineRemediation::None,
    }
}

fn check(limit: IntOrPercent) -> Check {
    Check {
        startup_timeout: None,
        node_conditions: vec![ConditionRule {
            type_: "Ready".into(),
            status: "False".into(),
            timeout: Duration::ZERO,
        }],
        machine_conditions: vec![],
        limit: Limit::AtMost(limit),
        external: true,
        paused: false,
    }
}

/// The states of all machines after the first `count` writes.
fn stands(writes: &[Write], count: usize) -> BTreeMap<usize, Stand> {
    let mut stands = BTreeMap::new();
    for write in writes.iter().take(count) {
        match write.stand {
            Stand::None => drop(stands.remove(&write.machine)),
            stand => drop(stands.insert(write.machine, stand)),
        }
    }
    stands
}

/// Whether the limit allows remediation on a fleet in which each machine is in a state that it had at
/// some moment from the first `from` writes to the first `to` writes. Nothing orders the watches of two
/// clusters, so no view can be more exact. Machines that were handed over count as under remediation.
fn allows(
    check: &Check,
    writes: &[Write],
    from: usize,
    to: usize,
    handed: &BTreeSet<Arc<str>>,
) -> bool {
    let count = |machine: usize, stand: Option<&Stand>| {
        let remediation = if handed.contains(&*format!("m{machine}")) {
            MachineRemediation::Open
        } else {
            MachineRemediation::None
        };
        let verdict = match stand? {
            Stand::Failed => Verdict::Unhealthy { causes: vec![] },
            _ => Verdict::Healthy,
        };
        let mut tally = FleetCounts::default();
        tally.add(Counts::of(&verdict, &remediation));
        Some(tally)
    };
    let machines: BTreeSet<usize> = writes.iter().map(|w| w.machine).collect();
    let mut least = FleetCounts::default();
    for machine in machines {
        let moments = (from..=to).map(|at| count(machine, stands(writes, at).get(&machine)));
        if let Some(Some(tally)) = moments.min_by_key(|tally| tally.as_ref().map(|t| t.not_healthy))
        {
            least.expected += tally.expected;
            least.not_healthy += tally.not_healthy;
        }
    }
    check.allowance(&least).is_some()
}

/// A read under way: how many writes the list has seen, and what the view lacks.
struct Read {
    seen: usize,
    catchup: Catchup,
}

/// The writes that the watch has delivered to the view, each with the number of its version. Each
/// machine has a watch of its own, so any order across machines is possible.
struct View {
    delivered: BTreeMap<usize, usize>,
}

impl View {
    fn versions(&self, writes: &[Write]) -> BTreeMap<String, u64> {
        let last = |(machine, count): (&usize, &usize)| {
            let of_machine = writes
                .iter()
                .enumerate()
                .filter(|(_, w)| w.machine == *machine);
            let (at, write) = of_machine.take(*count).last()?;
            (write.stand != Stand::None).then(|| (format!("m{machine}"), at as u64 + 1))
        };
        self.delivered.iter().filter_map(last).collect()
    }
}

/// The UIDs of the objects of a machine that have ended after its first `count` writes. A machine that
/// is made anew has another UID.
fn ended(writes: &[Write], machine: usize, count: usize) -> impl Iterator<Item = String> {
    let of_machine = writes.iter().filter(|w| w.machine == machine).take(count);
    let ends = of_machine.filter(|w| w.stand == Stand::None).count();
    (0..ends).map(move |end| format!("u{machine}-{end}"))
}

fn list(writes: &[Write], count: usize) -> Listing {
    let mut objects = BTreeMap::new();
    for (at, write) in writes.iter().take(count).enumerate() {
        let name = format!("m{}", write.machine);
        match write.stand {
            Stand::None => drop(objects.remove(&name)),
            _ => {
                let before = ended(&writes[..at], write.machine, at).count();
                let uid = format!("u{}-{before}", write.machine);
                let version = at as u64 + 1;
                objects.insert(name, Listed { uid, version });
            }
        }
    }
    Listing {
        version: count as u64,
        objects,
    }
}

/// Runs a minimal driver against the writes: `order` decides which machine's next event the watch
/// delivers. Checks each handover against the whole fleet, and returns the machines handed over.
fn run(check: &Check, writes: &[Write], order: &[usize]) -> BTreeSet<Arc<str>> {
    let mut fleet = Fleet::new(
        check.clone(),
        ClusterFacts {
            paused: false,
            infrastructure_ready: Some(Timestamp::MIN),
            control_plane_initialized: Some(Timestamp::MIN),
        },
        None,
        Timestamp::UNIX_EPOCH,
    );
    let (mut handover, mut view) = (
        Handover::default(),
        View {
            delivered: BTreeMap::new(),
        },
    );
    let (mut read, mut handed): (Option<Read>, _) = (None, BTreeSet::new());
    let (mut order, mut now, mut seen) = (order.iter().cycle(), 0_u64, 0);
    let machines: BTreeSet<usize> = writes.iter().map(|w| w.machine).collect();
    for _ in 0..400 {
        now += 10;
        let written = writes.iter().take_while(|w| w.millis <= now).count();
        // The watch delivers one event, of some machine that has one.
        let pick = *order.next().unwrap_or(&0) % machines.len().max(1);
        if let Some(machine) = machines
            .iter()
            .cycle()
            .skip(pick)
            .take(machines.len())
            .find(|m| {
                let all = writes
                    .iter()
                    .take(written)
                    .filter(|w| w.machine == **m)
                    .count();
                view.delivered.get(m).copied().unwrap_or(0) < all
            })
        {
            let count = view.delivered.entry(*machine).or_default();
            *count += 1;
            let of_machine = writes.iter().filter(|w| w.machine == *machine);
            if let Some(write) = of_machine.take(*count).last() {
                match write.stand {
                    Stand::None => fleet.remove(&format!("m{machine}"), Timestamp::UNIX_EPOCH),
                    stand => {
                        let mut target = target(*machine, stand);
                        if handed.contains(&*target.machine.name) {
                            target.remediation = MachineRemediation::Open;
                        }
                        fleet.put(target, Timestamp::UNIX_EPOCH);
                    }
                }
            }
        }
        let versions = view.versions(writes);
        let deleted: BTreeSet<String> = view
            .delivered
            .iter()
            .flat_map(|(machine, count)| ended(writes, *machine, *count))
            .collect();
        let done = read.as_mut().is_some_and(|read| {
            read.catchup
                .advance(|n| versions.get(n).copied(), |uid| deleted.contains(uid))
        });
        if done {
            seen = read.take().map_or(seen, |read| read.seen);
            handover.finish_read(Ok(()), at(now));
        }
        let names: Vec<Arc<str>> = fleet.machines().cloned().collect();
        for machine in names {
            let action = fleet.wanted(&machine).and_then(|wanted| wanted.action);
            let Some(Action::CreateRemediation { .. }) = action else {
                handover.withdraw(&machine);
                continue;
            };
            if handover.request(&machine, at(now)) {
                // Open on the fleet of its read, or on a later one.
                assert!(
                    allows(check, writes, seen, written, &handed),
                    "{machine} was handed over at {now} although the limit was closed all the time"
                );
                fleet.set_remediation(&machine, MachineRemediation::Open, Timestamp::UNIX_EPOCH);
                handed.insert(machine.clone());
                handover.withdraw(&machine);
            }
        }
        let settles = can_close(check, fleet.tally().expected);
        if handover.step(settles, at(now)) == HandoverStep::Read {
            let seen = writes.iter().take_while(|w| w.millis <= now).count();
            let catchup = Catchup::new(list(writes, seen), versions.into_keys());
            read = Some(Read { seen, catchup });
        }
    }
    handed
}

fn fleet_of(count: usize, failed: usize, millis: u64, spread: u64) -> Vec<Write> {
    let write = |machine: usize| Write {
        machine,
        stand: if machine < failed {
            Stand::Failed
        } else {
            Stand::Healthy
        },
        millis: millis + spread * machine as u64 / count.max(1) as u64,
    };
    (0..count).map(write).collect()
}

#[test]
fn f13_no_member_is_handed_over_while_the_fleet_exceeds_the_limit() {
    let check = check(IntOrPercent::Percent(40));
    let writes = fleet_of(20, 9, 0, 0);
    assert_eq!(run(&check, &writes, &[0]), BTreeSet::new());
    let writes = fleet_of(20, 8, 0, 0);
    assert_eq!(run(&check, &writes, &[0]).len(), 8);
}

proptest! {
    /// All writes lie within the settling time; the view receives them in any order.
    #[test]
    fn f13_handovers_stay_within_the_limit_in_any_order_of_events(
        count in 1_usize..12,
        share in 0_usize..=12,
        limit in 0_i32..=100,
        spread in 0_u64..1000,
        order in prop::collection::vec(0_usize..12, 1..40),
    ) {
        let failed = share.min(count);
        let check = check(IntOrPercent::Percent(limit));
        // All healthy first; a burst that is shorter than the settling time begins at 1 s.
        let mut writes = fleet_of(count, 0, 0, 0);
        writes.extend(fleet_of(count, failed, 1000, spread).into_iter().take(failed));
        let handed = run(&check, &writes, &order);
        let most = usize::try_from(check.limit.allowance(u32::try_from(count).unwrap(), 0).unwrap_or(0)).unwrap();
        prop_assert!(handed.len() <= most, "{} of {most}", handed.len());
        if failed <= most {
            prop_assert_eq!(handed.len(), failed, "liveness");
        } else {
            prop_assert_eq!(handed.len(), 0);
        }
    }

    /// Machines are created, fail, recover and are deleted at any time.
    #[test]
    fn f13_each_handover_rests_on_a_fleet_state_within_the_limit(
        writes in prop::collection::vec((0_usize..8, 0_u8..4, 0_u64..300), 1..40),
        limit in 0_i32..6,
        order in prop::collection::vec(0_usize..8, 1..40),
    ) {
        let mut millis = 0;
        let writes: Vec<Write> = writes.into_iter().map(|(machine, stand, after)| {
            millis += after;
            let stand = match stand { 0 => Stand::None, 1 => Stand::Healthy, _ => Stand::Failed };
            Write { machine, stand, millis }
        }).collect();
        run(&check(IntOrPercent::Int(limit)), &writes, &order);
    }
}
