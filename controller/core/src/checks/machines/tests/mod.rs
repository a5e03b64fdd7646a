//! Tests of health checks, by topic, and their builders.

mod conditions;
mod fleet;
mod future_cause;
mod limit_status;
mod openshift;
mod openshift_fleet;
mod orphan;
mod overlap;
mod plan;
mod props;
mod timeline;
mod verdict;
mod whole_fleet;
mod whole_openshift;

use std::time::Duration;

use jiff::Timestamp;

use whole_fleet::{Plan, plan};
use whole_openshift::{OpenShiftPlan, plan_openshift};

use super::*;
use crate::values::int_or_percent::IntOrPercent;

/// A time in seconds after the creation of the machines of these tests.
fn at(secs: i64) -> Timestamp {
    at_millis(secs * 1000)
}

fn at_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A cluster that is ready since 0.
fn mk_cluster() -> ClusterFacts {
    ClusterFacts {
        paused: false,
        infrastructure_ready: Some(at(0)),
        control_plane_initialized: Some(at(0)),
    }
}

/// Startup timeout 600 s; Node `Ready=Unknown` and `Ready=False` for 300 s; no limit; external.
fn mk_check() -> Check {
    Check {
        startup_timeout: Some(secs(600)),
        node_conditions: vec![
            mk_rule("Ready", "Unknown", 300),
            mk_rule("Ready", "False", 300),
        ],
        machine_conditions: vec![],
        limit: Limit::AtMost(IntOrPercent::Percent(100)),
        external: true,
        paused: false,
    }
}

fn mk_rule(type_: &str, status: &str, timeout: u64) -> ConditionRule {
    ConditionRule {
        type_: type_.into(),
        status: status.into(),
        timeout: secs(timeout),
    }
}

fn mk_condition(type_: &str, status: &str, since: Timestamp) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: format!("{type_}Is{status}"),
        last_transition: Some(since),
    }
}

/// A worker, created at 0.
fn mk_machine(name: &str) -> MachineFacts {
    MachineFacts {
        name: name.into(),
        uid: format!("uid-{name}"),
        starting_since: Some(at(0)),
        deleting: false,
        control_plane: false,
        skipped: None,
        remediate_annotation: false,
        conditions: vec![],
        infrastructure_ready: Some(at(0)),
        failure: None,
        health_condition: Some(true),
        owner_remediated: None,
        awaits_owner: false,
    }
}

/// A Machine of OpenShift that a controller owns, last updated at 0.
fn mk_openshift_machine(name: &str) -> OpenShiftMachine {
    OpenShiftMachine {
        facts: MachineFacts {
            infrastructure_ready: None,
            health_condition: None,
            ..mk_machine(name)
        },
        controlled: true,
        external_remediation: false,
    }
}

/// A Node whose condition `Ready` has this status since `since`.
fn mk_node(ready: &str, since: Timestamp) -> NodeView {
    NodeView::Present(NodeFacts {
        name: "node".into(),
        conditions: vec![mk_condition("Ready", ready, since)],
    })
}

fn mk_target(name: &str, node: NodeView, remediation: MachineRemediation) -> Target {
    Target {
        machine: mk_machine(name),
        node,
        remediation,
    }
}

/// A machine that is healthy at any time.
fn mk_healthy(name: &str) -> Target {
    mk_target(name, mk_node("True", at(0)), MachineRemediation::None)
}

/// A machine that is unhealthy from 300 on.
fn mk_unhealthy(name: &str) -> Target {
    mk_target(name, mk_node("Unknown", at(0)), MachineRemediation::None)
}

/// A machine that is suspect until 600 because it has no Node yet.
fn mk_starting(name: &str) -> Target {
    mk_target(name, NodeView::NotJoined, MachineRemediation::None)
}

fn unreachable() -> NodeView {
    NodeView::Unreachable {
        why: "connection refused".into(),
        joined: true,
    }
}

/// A Machine without a nodeRef, whose workload cluster cannot be queried.
fn never_seen() -> NodeView {
    NodeView::Unreachable {
        why: "connection refused".into(),
        joined: false,
    }
}

fn with_remediation(mut target: Target, remediation: MachineRemediation) -> Target {
    target.remediation = remediation;
    target
}

fn max(limit: i32) -> Limit {
    Limit::AtMost(IntOrPercent::Int(limit))
}

fn percent(limit: i32) -> Limit {
    Limit::AtMost(IntOrPercent::Percent(limit))
}

fn create(name: &str) -> Action {
    Action::CreateRemediation {
        machine: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn delete(name: &str) -> Action {
    Action::DeleteRemediation {
        machine: name.into(),
    }
}

fn mark(name: &str) -> Action {
    Action::MarkOwnerRemediated {
        machine: name.into(),
    }
}
