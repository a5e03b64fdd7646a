//! Measures one health check on its own: time per event and memory per machine of a fleet that is kept
//! up to date, and the time of one evaluation of the whole fleet.
//!
//! Run by `hack/bench health`.

#![allow(clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rackhand_core::checks::machines::{
    Check, ClusterFacts, Condition, ConditionRule, Fleet, Limit, MachineFacts, MachineRemediation,
    NodeFacts, NodeView, Target, judge,
};
use rackhand_core::values::int_or_percent::IntOrPercent;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Events per measurement.
const EVENTS: usize = 20_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("a valid time")
}

fn condition(type_: &str, status: &str, reason: &str, since: Timestamp) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        last_transition: Some(since),
    }
}

/// The four conditions that a kubelet reports.
fn node(i: usize, ready: &str, since: Timestamp) -> NodeView {
    let pressure = |type_, reason| condition(type_, "False", reason, at(0));
    NodeView::Present(NodeFacts {
        name: format!("node-{i:06}"),
        conditions: vec![
            pressure("MemoryPressure", "KubeletHasSufficientMemory"),
            pressure("DiskPressure", "KubeletHasNoDiskPressure"),
            pressure("PIDPressure", "KubeletHasSufficientPID"),
            condition("Ready", ready, "KubeletReady", since),
        ],
    })
}

fn name(i: usize) -> String {
    format!("machine-{i:06}")
}

fn machine(i: usize) -> Target {
    let conditions = [
        "Available",
        "Ready",
        "BootstrapConfigReady",
        "InfrastructureReady",
        "NodeReady",
        "NodeHealthy",
        "HealthCheckSucceeded",
    ];
    Target {
        machine: MachineFacts {
            name: name(i),
            uid: format!("00000000-0000-4000-8000-{i:012}"),
            starting_since: Some(at(0)),
            deleting: false,
            control_plane: false,
            skipped: None,
            remediate_annotation: false,
            conditions: conditions
                .into_iter()
                .map(|type_| condition(type_, "True", type_, at(0)))
                .collect(),
            infrastructure_ready: Some(at(0)),
            failure: None,
            health_condition: Some(true),
            owner_remediated: None,
            awaits_owner: false,
        },
        node: node(i, "True", at(0)),
        remediation: MachineRemediation::None,
    }
}

fn rule(type_: &str, status: &str, seconds: u64) -> ConditionRule {
    ConditionRule {
        type_: type_.into(),
        status: status.into(),
        timeout: Duration::from_secs(seconds),
    }
}

/// The check of Cluster API's documentation, with a rule on a condition of the Machine added.
fn check() -> Check {
    Check {
        startup_timeout: Some(Duration::from_secs(600)),
        node_conditions: vec![rule("Ready", "Unknown", 300), rule("Ready", "False", 300)],
        machine_conditions: vec![rule("NodeHealthy", "False", 300)],
        limit: Limit::AtMost(IntOrPercent::Percent(40)),
        external: true,
        paused: false,
    }
}

fn cluster() -> ClusterFacts {
    ClusterFacts {
        paused: false,
        infrastructure_ready: Some(at(0)),
        control_plane_initialized: Some(at(0)),
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("VmRSS") * 1024
}

fn mean(events: usize, time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(u32::try_from(events).expect("few events"))
}

/// Mean time per event in microseconds, without the time of `build`.
fn measure<T>(size: usize, build: impl Fn(usize) -> T, mut event: impl FnMut(T)) -> f64 {
    let mut spent = Duration::ZERO;
    for round in 0..EVENTS / 1_000 {
        // A stride that spreads the events over the whole fleet.
        let made: Vec<T> = (0..1_000)
            .map(|i| build((round * 1_000 + i).wrapping_mul(7_919) % size))
            .collect();
        let start = Instant::now();
        for event_data in made {
            event(event_data);
        }
        spent += start.elapsed();
    }
    mean(EVENTS, spent)
}

struct Row {
    size: usize,
    heartbeat: f64,
    change: f64,
    deadline: f64,
    gate: f64,
    whole: f64,
    bytes: u64,
}

fn run(size: usize) -> Row {
    let before = resident();
    let mut fleet = Fleet::new(check(), cluster(), None, at(1));
    for i in 0..size {
        fleet.put(machine(i), at(1));
    }
    fleet.take();
    let bytes = resident().saturating_sub(before) / u64::try_from(size).expect("small");

    let heartbeat = measure(
        size,
        |i| (name(i), node(i, "True", at(0))),
        |(name, node)| {
            fleet.set_node(&name, node, at(2));
            black_box(fleet.take());
        },
    );
    let change = measure(
        size,
        |i| {
            let ready = node(i, "True", at(3));
            (name(i), node(i, "Unknown", at(3)), ready)
        },
        |(name, unknown, ready)| {
            for node in [unknown, ready] {
                fleet.set_node(&name, node, at(3));
                for machine in fleet.take().machines {
                    black_box(fleet.wanted(&machine));
                }
            }
        },
    ) / 2.0;

    // Deadlines that pass one after the other, far below the limit.
    let falling = (size / 4).min(EVENTS);
    for i in 0..falling {
        let since = at(10) + Duration::from_millis(u64::try_from(i).expect("small"));
        fleet.set_node(&name(i), node(i, "Unknown", since), since);
    }
    fleet.take();
    let start = Instant::now();
    let mut actions = 0;
    while let Some(next) = fleet.next_deadline() {
        fleet.advance(next);
        for machine in fleet.take().machines {
            let wanted = fleet.wanted(&machine);
            actions += usize::from(wanted.is_some_and(|wanted| wanted.action.is_some()));
        }
    }
    let deadline = mean(falling, start.elapsed());
    assert_eq!(actions, falling, "every deadline creates one remediation");

    // The most expensive event: the limit opens while every machine is unhealthy.
    let mut closed = check();
    closed.limit = Limit::AtMost(IntOrPercent::Int(0));
    fleet.set_check(closed, at(1_000), |_| None);
    fleet.take();
    let start = Instant::now();
    fleet.set_check(check(), at(1_000), |_| None);
    for machine in fleet.take().machines {
        black_box(fleet.wanted(&machine));
    }
    let gate = mean(1, start.elapsed());
    drop(fleet);

    let targets: Vec<Target> = (0..size).map(machine).collect();
    let looks = (200_000 / size).max(3);
    let start = Instant::now();
    for _ in 0..looks {
        let (check, cluster) = (check(), cluster());
        let judged = targets
            .iter()
            .map(|t| judge(&check, &cluster, &t.machine, &t.node, at(2)));
        for judgement in judged {
            black_box(judgement);
        }
    }
    Row {
        size,
        heartbeat,
        change,
        deadline,
        gate,
        whole: mean(looks, start.elapsed()),
        bytes,
    }
}

fn main() {
    println!("One health check, one core; microseconds per event, bytes per Machine.\n");
    println!(
        "| Machines | heartbeat | condition change | deadline | limit opens | full | full / change | bytes | MiB |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for size in SIZES {
        let Row {
            size,
            heartbeat,
            change,
            deadline,
            gate,
            whole,
            bytes,
        } = run(size);
        let mib = bytes * u64::try_from(size).expect("small") / (1 << 20);
        println!(
            "| {size} | {heartbeat:.2} | {change:.2} | {deadline:.2} | {gate:.0} | {whole:.0} | {:.0} | {bytes} | {mib} |",
            whole / change
        );
    }
}
