//! Conversion of a check of Cluster API, its Cluster and its Machines into facts of the core.

use rackhand_api::{
    names::{
        CAPI_PAUSED_ANNOTATION, REMEDIATE_MACHINE_ANNOTATION, SKIP_REMEDIATION_ANNOTATION,
        conditions::{
            CONTROL_PLANE_INITIALIZED, HEALTH_CHECK_SUCCEEDED, INFRASTRUCTURE_READY,
            OWNER_REMEDIATED,
        },
    },
    views::{ClusterView, Condition as ConditionView, MachineHealthCheckView, MachineView},
};
use rackhand_core::checks::machines::{
    Check, ClusterFacts, Condition, Limit, MachineFacts, SkipReason,
};
use rackhand_core::values::int_or_percent::IntOrPercent;

use crate::checks::facts::{DEFAULT_STARTUP_TIMEOUT, rule};

/// The reason on a Machine that waits for its owner to remediate it.
pub(super) const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";

pub(in crate::checks) fn check(view: &MachineHealthCheckView, paused: bool) -> Check {
    let startup = view.node_startup_timeout.unwrap_or(DEFAULT_STARTUP_TIMEOUT);
    let limit = match (&view.unhealthy_range, view.max_unhealthy) {
        (Some(range), _) => Limit::Range {
            min: range.min,
            max: range.max,
        },
        (None, Some(limit)) => Limit::AtMost(limit.without_negative_percentage()),
        (None, None) => Limit::AtMost(IntOrPercent::Percent(100)),
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

pub(in crate::checks) fn cluster(view: &ClusterView) -> ClusterFacts {
    let since = |type_: &str, said: Option<bool>| {
        match view.condition(type_) {
            Some(c) => c
                .is_true()
                .then(|| c.last_transition.or(view.meta.created))
                .flatten(),
            // Older versions of Cluster API report it only in a field.
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

pub(in crate::checks) fn machine(view: &MachineView) -> MachineFacts {
    let failure: Vec<&str> = [&view.failure_reason, &view.failure_message]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let status = |type_: &str| view.condition(type_).map(ConditionView::is_true);
    MachineFacts {
        name: view.meta.name.clone(),
        uid: view.meta.uid.clone(),
        starting_since: Some(view.meta.created.unwrap_or_default()),
        deleting: view.meta.is_deleting(),
        control_plane: view.is_control_plane(),
        skipped: if view.meta.has_annotation(CAPI_PAUSED_ANNOTATION) {
            Some(SkipReason::Paused)
        } else {
            let skips = view.meta.has_annotation(SKIP_REMEDIATION_ANNOTATION);
            skips.then_some(SkipReason::SkipRemediation)
        },
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
