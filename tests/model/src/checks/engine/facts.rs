//! What the engine is told of the fleet, from what the view shows.

use std::time::Duration;

use rackhand_core::checks::machines::{
    Check, ClusterFacts, Condition, ConditionRule, Limit, MachineFacts, MachineRemediation,
    NodeFacts, NodeView, Target,
};
use rackhand_core::values::int_or_percent::IntOrPercent;

use super::super::{
    api::Name,
    breakage::Breakage,
    objects::{Api, CheckValue, MACHINES, remediation_name},
};
use crate::time::NOW;

pub(super) fn is_selected(check: &CheckValue, machine: Name) -> bool {
    !(check.narrowed && machine == MACHINES[0])
}

/// The rules of a check: a Node that is not Ready is unhealthy at once.
pub(super) fn rules(check: &CheckValue, breakage: Option<Breakage>) -> Check {
    let rule = |status: &str| ConditionRule {
        type_: "Ready".into(),
        status: status.into(),
        timeout: Duration::ZERO,
    };
    let limit = match breakage {
        Some(Breakage::LimitOfOwnHandovers) => Limit::AtMost(IntOrPercent::Percent(100)),
        _ => check.limit,
    };
    Check {
        startup_timeout: None,
        node_conditions: vec![rule("Unknown")],
        machine_conditions: Vec::new(),
        limit,
        external: true,
        paused: false,
    }
}

pub(super) fn cluster() -> ClusterFacts {
    ClusterFacts {
        paused: false,
        infrastructure_ready: Some(NOW),
        control_plane_initialized: Some(NOW),
    }
}

pub(super) fn machine_facts(name: Name, uid: u8) -> MachineFacts {
    MachineFacts {
        name: name.into(),
        uid: uid.to_string(),
        starting_since: Some(NOW),
        deleting: false,
        control_plane: false,
        skipped: None,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready: Some(NOW),
        failure: None,
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    }
}

pub(super) fn node_view(api: &Api, name: Name) -> NodeView {
    let known = || name.to_owned();
    match api.nodes.seen(name) {
        Some(ready) => NodeView::Present(NodeFacts {
            name: known(),
            conditions: vec![Condition {
                type_: "Ready".into(),
                status: if *ready { "True" } else { "Unknown" }.into(),
                reason: String::new(),
                last_transition: Some(NOW),
            }],
        }),
        None if api.absent.contains(name) => NodeView::Missing { name: known() },
        None => NodeView::Unconfirmed { name: known() },
    }
}

pub(super) fn remediation_view(
    api: &Api,
    check: &CheckValue,
    machine: Name,
    uid: u8,
) -> MachineRemediation {
    match api
        .remediations
        .seen(remediation_name(machine, check.template))
    {
        None => MachineRemediation::None,
        Some(remediation) if remediation.of.1 != uid => MachineRemediation::Foreign {
            owner: remediation.of.1.to_string(),
        },
        Some(remediation) if remediation.deleting => MachineRemediation::Deleting,
        Some(_) => MachineRemediation::Open,
    }
}

pub(super) fn target(api: &Api, check: &CheckValue, machine: Name, uid: u8) -> Target {
    Target {
        machine: machine_facts(machine, uid),
        node: node_view(api, machine),
        remediation: remediation_view(api, check, machine, uid),
    }
}
