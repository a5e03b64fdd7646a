//! From views of Kubernetes objects to the plain facts of the core.

use std::time::Duration;

use rackhand_api::{
    IntOrPercent,
    names::{
        CAPI_PAUSED_ANNOTATION, REMEDIATE_MACHINE_ANNOTATION, SKIP_REMEDIATION_ANNOTATION,
        conditions::{
            CONTROL_PLANE_INITIALIZED, HEALTH_CHECK_SUCCEEDED, INFRASTRUCTURE_READY,
            OWNER_REMEDIATED,
        },
        kinds,
    },
    views::{ClusterView, Condition as ConditionView, MachineHealthCheckView, MachineView},
};
use rackhand_core::health::{
    Check, ClusterFacts, Condition, ConditionRule, IntOrPercent as CoreIntOrPercent, Limit,
    MachineFacts, NodeFacts, NodeView, RequestView,
};

use crate::{
    index::{Connection, Index},
    object::Key,
};

/// The reason with which a Machine waits for whoever remediates it.
pub(super) const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";

/// Cluster API's and OpenShift's default, where a check does not say how long a Machine may be without a Node.
pub(super) const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) fn rule(check: &rackhand_api::views::ConditionCheck) -> ConditionRule {
    ConditionRule {
        type_: check.condition_type.clone(),
        status: check.status.clone(),
        timeout: check.timeout,
    }
}

pub(super) fn int_or_percent(value: IntOrPercent) -> CoreIntOrPercent {
    match value {
        IntOrPercent::Int(count) => CoreIntOrPercent::Int(count.into()),
        // A negative share never allows anything, like a negative count.
        IntOrPercent::Percent(share) => match u32::try_from(share) {
            Ok(share) => CoreIntOrPercent::Percent(share),
            Err(_) => CoreIntOrPercent::Int(-1),
        },
    }
}

pub(super) fn check(view: &MachineHealthCheckView, paused: bool) -> Check {
    let startup = view.node_startup_timeout.unwrap_or(DEFAULT_STARTUP_TIMEOUT);
    let limit = match (&view.unhealthy_range, view.max_unhealthy) {
        (Some(range), _) => Limit::Range {
            min: range.min,
            max: range.max,
        },
        (None, Some(limit)) => Limit::AtMost(int_or_percent(limit)),
        (None, None) => Limit::AtMost(CoreIntOrPercent::Percent(100)),
    };
    Check {
        startup_timeout: (!startup.is_zero()).then_some(startup),
        node_conditions: view.node_checks.iter().map(rule).collect(),
        machine_conditions: view.machine_checks.iter().map(rule).collect(),
        limit,
        external: view.remediation_template.is_some(),
        paused,
    }
}

pub(super) fn cluster(view: &ClusterView) -> ClusterFacts {
    let since = |type_: &str, said: Option<bool>| {
        match view.condition(type_) {
            Some(c) => c
                .is_true()
                .then(|| c.last_transition.or(view.meta.created))
                .flatten(),
            // Older Cluster API says it in a field only.
            None => view.meta.created.filter(|_| said == Some(true)),
        }
    };
    ClusterFacts {
        paused: view.is_paused(),
        infrastructure_ready: since(INFRASTRUCTURE_READY, view.infrastructure_provisioned),
        control_plane_initialized: since(CONTROL_PLANE_INITIALIZED, view.control_plane_initialized),
    }
}

fn condition(view: &ConditionView) -> Condition {
    Condition {
        type_: view.condition_type.clone(),
        status: view.status.clone(),
        reason: view.reason.clone().unwrap_or_default(),
        last_transition: view.last_transition,
    }
}

pub(super) fn machine(view: &MachineView) -> MachineFacts {
    let failure: Vec<&str> = [&view.failure_reason, &view.failure_message]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let status = |type_: &str| view.condition(type_).map(ConditionView::is_true);
    MachineFacts {
        name: view.meta.name.clone(),
        uid: view.meta.uid.clone(),
        created: view.meta.created.unwrap_or_default(),
        deleting: view.meta.is_deleting(),
        control_plane: view.is_control_plane(),
        paused: view.meta.has_annotation(CAPI_PAUSED_ANNOTATION),
        skip_remediation: view.meta.has_annotation(SKIP_REMEDIATION_ANNOTATION),
        remediate_annotation: view.meta.has_annotation(REMEDIATE_MACHINE_ANNOTATION),
        conditions: view.conditions_v1beta2.iter().map(condition).collect(),
        infrastructure_ready: view
            .condition(INFRASTRUCTURE_READY)
            .filter(|c| c.is_true())
            .and_then(|c| c.last_transition),
        failure: (!failure.is_empty()).then(|| failure.join(": ")),
        health_condition: status(HEALTH_CHECK_SUCCEEDED),
        owner_remediated: status(OWNER_REMEDIATED),
        awaits_owner: view
            .condition(OWNER_REMEDIATED)
            .is_some_and(|c| c.is_false() && c.reason.as_deref() == Some(WAITING_FOR_REMEDIATION)),
    }
}

/// What is known of a Machine's Node, whether or not its cluster can be asked now. A Node that the
/// watch does not show is missing only after a live read said so (F12).
pub(super) fn node(index: &Index, cluster: &Key, name: Option<&str>) -> NodeView {
    let Some(name) = name else {
        return NodeView::NotJoined;
    };
    match index.seen_node(cluster, name) {
        Some(node) => NodeView::Present(NodeFacts {
            name: name.to_owned(),
            conditions: node
                .conditions()
                .map(|(type_, status, reason, last_transition)| Condition {
                    type_,
                    status,
                    reason: reason.unwrap_or_default(),
                    last_transition,
                })
                .collect(),
        }),
        None if index.is_absent(cluster, name) => NodeView::Missing {
            name: name.to_owned(),
        },
        None => NodeView::Unconfirmed {
            name: name.to_owned(),
        },
    }
}

/// Why a workload cluster cannot be asked; `None`: it can.
pub(super) fn unreachable(index: &Index, cluster: &Key) -> Option<String> {
    match index.connection(cluster) {
        Connection::Up => None,
        Connection::Down(why) => Some(why),
    }
}

/// Whose request of the Machine's name this is.
pub(super) fn request(
    machine_uid: &str,
    owners: &[(String, String, String)],
    deleting: bool,
) -> RequestView {
    let of_machine = |kind: &str| kind == kinds::MACHINE;
    match owners.iter().find(|(kind, _, _)| of_machine(kind)) {
        Some((_, _, uid)) if uid == machine_uid => {
            if deleting {
                RequestView::Deleting
            } else {
                RequestView::Open
            }
        }
        Some((kind, name, uid)) => RequestView::Foreign {
            owner: format!("{kind} {name} (UID {uid})"),
        },
        None => RequestView::Foreign {
            owner: "nobody (it has no ownerReference to a Machine)".into(),
        },
    }
}
