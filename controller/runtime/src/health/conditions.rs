//! What an evaluation leaves in the objects: conditions, counts, Events.
//!
//! Must never write what stands there already: two controllers that do so wake each other for ever.

use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use rackhand_api::{
    names::{
        CLUSTER_NAME_LABEL, FIELD_MANAGER,
        conditions::{
            EXTERNALLY_REMEDIATED, HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED, REMEDIATION_ALLOWED,
        },
        kinds,
    },
    views::{ClusterView, MachineHealthCheckView, MachineView, Shape},
};
use rackhand_core::health::{HealthConditionWrite, Plan, Verdict};
use serde_json::{Value, json};

use super::{Context, actions::Acted, shown};
use crate::{
    api::ApiError,
    index::Entry,
    object::{Key, Kind, api},
    remediation::{NewCondition, both_lists},
};

const WAITING: &str = "WaitingForRemediation";
/// The schema takes no more names (machinehealthcheck.md 1.2).
const MOST_TARGETS: usize = 10_000;

/// The conditions of one Machine.
pub(super) async fn machine_conditions(
    context: &Context,
    check: &Key,
    entry: &Entry<MachineView>,
    machine: &MachineView,
    health: Option<&HealthConditionWrite>,
    acted: Option<&Acted>,
    verdict: Option<&Verdict>,
) -> Result<(), ApiError> {
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
        Some(Acted::NotRequested { reason, why }) => new.push(NewCondition {
            type_: EXTERNALLY_REMEDIATED,
            status: "False",
            reason,
            message: why,
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
        Some(Acted::Withdrawn) | None => {}
    }
    // A recovered Machine waits for nobody any more.
    if matches!(verdict, Some(Verdict::Healthy)) {
        gone.push(EXTERNALLY_REMEDIATED);
    }
    let now = Timestamp::now();
    let Some(body) = both_lists(&entry.object, machine.shape, &old, &new, &gone, now) else {
        return Ok(());
    };
    let was_healthy = machine
        .condition(HEALTH_CHECK_SUCCEEDED)
        .is_none_or(|c| !c.is_false());
    let object = patch_status(context, Kind::Machine, &Key::of(&entry.object), body).await?;
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

async fn patch_status(
    context: &Context,
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
        .write(operation, what, move || async move {
            objects
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
                .await
        })
        .await
}

/// Status, label and owner of the check.
pub(super) async fn check_conditions(
    context: &Context,
    object: &DynamicObject,
    view: &MachineHealthCheckView,
    cluster: &ClusterView,
    planned: &Plan,
    paused: bool,
    failed: Option<(&str, &str)>,
) -> Result<(), ApiError> {
    let key = Key::of(object);
    let now = Timestamp::now();
    let (status, reason) = if planned.gate.open {
        ("True", REMEDIATION_ALLOWED)
    } else {
        ("False", "TooManyUnhealthy")
    };
    let message = planned.gate.message.as_str();
    let mut old = Vec::new();
    let why = shown::pauses(&view.meta, cluster);
    let mut new: Vec<NewCondition<'_>> = shown::paused(&view.meta, paused, &why)
        .into_iter()
        .collect();
    let (complaint, gone) = shown::external(view, failed);
    old.extend(complaint);
    if !paused {
        old.push(NewCondition {
            type_: REMEDIATION_ALLOWED,
            status,
            reason: if planned.gate.open { "" } else { reason },
            message,
            severity: (!planned.gate.open).then_some("Warning"),
        });
        new.push(NewCondition {
            type_: REMEDIATION_ALLOWED,
            status,
            reason,
            message,
            severity: None,
        });
    }
    let conditions = both_lists(object, view.shape, &old, &new, &gone, now);
    let counts = counts(view, planned);
    let mut latest = object.clone();
    let closing = !planned.gate.open
        && view
            .condition(REMEDIATION_ALLOWED)
            .and_then(|c| c.message.as_deref())
            != Some(message);
    if (conditions.is_some() || counts.is_some()) && !paused || conditions.is_some() {
        let mut body = conditions.unwrap_or_else(|| {
            json!({ "metadata": { "resourceVersion": object.metadata.resource_version }, "status": {} })
        });
        if let (Some(Value::Object(counts)), Some(status)) = (
            counts.filter(|_| !paused),
            body.get_mut("status").and_then(Value::as_object_mut),
        ) {
            status.extend(counts);
        }
        match patch_status(context, Kind::MachineHealthCheck, &key, body).await {
            Ok(object) => {
                context
                    .index
                    .apply(Kind::MachineHealthCheck, object.clone());
                latest = object;
            }
            // Changed meanwhile: the watch brings it back here.
            Err(error) if error.is_conflict() || error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    if closing && planned.status.unhealthy > 0 && !paused {
        context
            .events
            .send(object, true, "RemediationRestricted", message);
    }
    belongs(context, &latest, view, cluster).await
}

/// The counts; `None`: they stand there already.
fn counts(view: &MachineHealthCheckView, planned: &Plan) -> Option<Value> {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let status = &planned.status;
    let targets = status.targets.get(..MOST_TARGETS);
    let targets = targets.unwrap_or(&status.targets);
    let same = view.expected_machines.unwrap_or(0) == number(status.expected)
        && view.current_healthy.unwrap_or(0) == number(status.healthy)
        && view.remediations_allowed.unwrap_or(0) == number(planned.gate.remediations_allowed)
        && view.observed_generation == view.meta.generation
        && view.targets == *targets;
    (!same).then(|| {
        json!({
            "expectedMachines": status.expected,
            "currentHealthy": status.healthy,
            "remediationsAllowed": planned.gate.remediations_allowed,
            "observedGeneration": view.meta.generation,
            "targets": targets,
        })
    })
}

/// Label and ownerReference that tie a check to its Cluster.
async fn belongs(
    context: &Context,
    object: &DynamicObject,
    view: &MachineHealthCheckView,
    cluster: &ClusterView,
) -> Result<(), ApiError> {
    let labelled = view.meta.labels.get(CLUSTER_NAME_LABEL) == Some(&cluster.meta.name);
    let owned = view.meta.owners.iter().any(|o| o.uid == cluster.meta.uid);
    if labelled && owned {
        return Ok(());
    }
    let mut owners = object.metadata.owner_references.clone().unwrap_or_default();
    owners.retain(|o| !(o.kind == kinds::CLUSTER && o.name == cluster.meta.name));
    let mut owners = serde_json::to_value(owners).unwrap_or_default();
    if let Some(list) = owners.as_array_mut() {
        list.push(json!({
            "apiVersion": cluster.meta.api_version,
            "kind": kinds::CLUSTER,
            "name": cluster.meta.name,
            "uid": cluster.meta.uid,
        }));
    }
    let body = json!({ "metadata": {
        "resourceVersion": object.metadata.resource_version,
        "labels": { CLUSTER_NAME_LABEL: cluster.meta.name },
        "ownerReferences": owners,
    }});
    let key = Key::of(object);
    let what = format!("MachineHealthCheck {key}");
    let resource = context
        .served
        .known(Kind::MachineHealthCheck)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let checks = api(&context.client, &resource, &key.namespace);
    let name = key.name.clone();
    let patched = context
        .writer
        .write("check_metadata", what, move || async move {
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.into()),
                ..Default::default()
            };
            checks.patch(&name, &params, &Patch::Merge(body)).await
        })
        .await;
    match patched {
        Ok(object) => {
            context.index.apply(Kind::MachineHealthCheck, object);
            Ok(())
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// A check that cannot be evaluated says so on itself, and the others go on.
pub(super) async fn report_invalid(
    context: &Context,
    object: &DynamicObject,
    reason: &str,
    message: &str,
) -> Result<(), ApiError> {
    let version = object
        .types
        .as_ref()
        .map(|t| t.api_version.as_str())
        .unwrap_or_default();
    let shape = if version.ends_with("v1beta2") {
        Shape::V1Beta2
    } else {
        Shape::V1Beta1
    };
    let condition = |severity| NewCondition {
        type_: REMEDIATION_ALLOWED,
        status: "False",
        reason,
        message,
        severity,
    };
    let body = both_lists(
        object,
        shape,
        &[condition(Some("Error"))],
        &[condition(None)],
        &[],
        Timestamp::now(),
    );
    let Some(body) = body else { return Ok(()) };
    context.events.send(object, true, reason, message);
    match patch_status(context, Kind::MachineHealthCheck, &Key::of(object), body).await {
        Ok(object) => {
            context.index.apply(Kind::MachineHealthCheck, object);
            Ok(())
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
