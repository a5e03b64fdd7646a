//! What an evaluation leaves in a Machine: conditions, and an Event.
//!
//! Must never write what stands there already: two controllers that do so wake each other for ever.

use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use rackhand_api::names::conditions::{
    EXTERNALLY_REMEDIATED, HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED,
};
use rackhand_core::health::HealthConditionWrite;
use serde_json::Value;

use super::{Context, actions::Acted, facts::WAITING_FOR_REMEDIATION as WAITING};
use crate::{
    api::ApiError,
    object::{Key, Kind, api},
    remediation::{NewCondition, both_lists},
    writer::Lane,
};

/// What a Machine shall show.
pub(super) struct Shown {
    pub(super) uid: String,
    pub(super) health: Option<HealthConditionWrite>,
    pub(super) acted: Option<Acted>,
    /// It is healthy.
    pub(super) healthy: bool,
}

/// The conditions of one Machine, as far as they do not stand there already.
pub(super) async fn machine_conditions(
    context: &Context,
    check: &Key,
    key: &Key,
    shown: &Shown,
) -> Result<(), ApiError> {
    let Shown {
        uid,
        health,
        acted,
        healthy,
    } = shown;
    let health = health.as_ref();
    // One that is gone, or that came after the one that was judged, is told of by the index.
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
    match acted {
        Some(Acted::Requested) => new.push(NewCondition {
            type_: EXTERNALLY_REMEDIATED,
            status: "False",
            reason: WAITING,
            message: "",
            severity: None,
        }),
        Some(Acted::NotRequested(unusable)) => new.push(NewCondition {
            type_: EXTERNALLY_REMEDIATED,
            status: "False",
            reason: unusable.reason,
            message: &unusable.why,
            severity: None,
        }),
        Some(Acted::ForOwner) => {
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
        Some(Acted::TakenBack) => gone.push(OWNER_REMEDIATED),
        Some(Acted::Withdrawn) | None => {}
    }
    // A recovered Machine waits for nobody any more.
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
    // What its owner acts upon is not only said.
    let lane = match acted {
        Some(Acted::ForOwner | Acted::TakenBack) => Lane::Requests,
        _ => Lane::Words,
    };
    let object = patch_status(context, lane, Kind::Machine, key, body).await?;
    context.index.apply(Kind::Machine, object);
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

pub(super) async fn patch_status(
    context: &Context,
    lane: Lane,
    kind: Kind,
    key: &Key,
    body: Value,
) -> Result<DynamicObject, ApiError> {
    let what = format!("status of {} {key}", kind.kind());
    let resource = context
        .served
        .known(kind)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let objects = api(&context.client, &resource, &key.namespace);
    let name = key.name.clone();
    let operation = if kind == Kind::Machine {
        "machine_status"
    } else {
        "check_status"
    };
    context
        .writer
        .on(lane)
        .write(operation, what, move || async move {
            objects
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
                .await
        })
        .await
}
