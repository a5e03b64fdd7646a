//! Conditions and Event of a Machine after an evaluation.
//!
//! Invariant: unchanged conditions are never written, because two controllers that do so trigger each other
//! endlessly.

use jiff::Timestamp;
use rackhand_api::names::conditions::{
    EXTERNALLY_REMEDIATED, HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED,
};

use super::facts::WAITING_FOR_REMEDIATION as WAITING;
use crate::{
    checks::{
        Context, engine::status_writer::patch_status, machines::dialect::MachineStatus,
        remediations::lifecycle::EffectOutcome,
    },
    leader::writer::Lane,
    store::{
        api::ApiError,
        conditions::{NewCondition, both_lists},
        object::{Key, Kind},
    },
};

/// Writes the conditions of one Machine that have changed.
pub(super) async fn write(
    context: &Context,
    check: &Key,
    key: &Key,
    status: &MachineStatus,
) -> Result<(), ApiError> {
    let MachineStatus {
        uid,
        health,
        outcome,
        healthy,
    } = status;
    let health = health.as_ref();
    // The index announces a Machine that was deleted or replaced after the evaluation.
    let Some(entry) = context.index.machine(key) else {
        return Ok(());
    };
    let Some(machine) = entry.view.as_ref().ok().filter(|m| m.meta.uid == *uid) else {
        return Ok(());
    };
    let mut old = Vec::new();
    let mut new = Vec::new();
    let mut gone = Vec::new();
    if let Some(health) = health {
        let status = if health.succeeded { "True" } else { "False" };
        old.push(NewCondition {
            type_: HEALTH_CHECK_SUCCEEDED,
            status,
            reason: health.reason_v1beta1,
            message: &health.message_v1beta1,
            severity: (!health.succeeded).then_some("Warning"),
        });
        new.push(NewCondition {
            type_: HEALTH_CHECK_SUCCEEDED,
            status,
            reason: health.reason,
            message: &health.message,
            severity: None,
        });
    }
    match outcome {
        Some(EffectOutcome::RemediationCreated) => new.push(NewCondition {
            type_: EXTERNALLY_REMEDIATED,
            status: "False",
            reason: WAITING,
            message: "",
            severity: None,
        }),
        Some(EffectOutcome::RemediationNotCreated(unusable)) => new.push(NewCondition {
            type_: EXTERNALLY_REMEDIATED,
            status: "False",
            reason: unusable.reason,
            message: &unusable.why,
            severity: None,
        }),
        Some(EffectOutcome::OwnerMarked) => {
            for (list, severity) in [(&mut old, Some("Warning")), (&mut new, None)] {
                list.push(NewCondition {
                    type_: OWNER_REMEDIATED,
                    status: "False",
                    reason: WAITING,
                    message: "",
                    severity,
                });
            }
        }
        Some(EffectOutcome::OwnerUnmarked) => gone.push(OWNER_REMEDIATED),
        _ => {}
    }
    // A recovered Machine no longer waits for remediation.
    if *healthy {
        gone.push(EXTERNALLY_REMEDIATED);
    }
    let now = Timestamp::now();
    let Some(body) = both_lists(&entry.object, machine.shape, &old, &new, &gone, now) else {
        return Ok(());
    };
    let was_healthy = machine
        .condition(HEALTH_CHECK_SUCCEEDED)
        .is_none_or(|c| !c.is_false());
    // The owner acts on this condition, so it is not sent in the class of reports.
    let lane = match outcome {
        Some(EffectOutcome::OwnerMarked | EffectOutcome::OwnerUnmarked) => Lane::Checks,
        _ => Lane::Reports,
    };
    patch_status(context, lane, Kind::Machine, key, body).await?;
    if was_healthy && health.is_some_and(|h| !h.succeeded) {
        let why = health.map(|h| h.message.clone()).unwrap_or_default();
        let message = format!(
            "Machine {} has been marked as unhealthy by MachineHealthCheck {check}: {why}",
            machine.meta.name
        );
        context
            .events
            .send(&entry.object, false, "MachineMarkedUnhealthy", &message);
    }
    Ok(())
}
