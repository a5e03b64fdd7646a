//! The status of a maintenance: what was decided, for people, and for the next evaluation.

use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use rackhand_api::{
    kinds::{
        conditions::{ConditionStatus, StatusCondition},
        host_maintenance::HostMaintenanceStatus,
    },
    names::conditions::{BLOCKED, PARKED},
};
use rackhand_core::{
    maintenance::{
        MaintenanceDecision, MaintenancePhase, MaintenanceReason, MaintenanceWarning, Mark,
    },
    values::time::whole_second,
};
use serde_json::{Value, json};

use super::{Maintenances, memory::Memory, observe::Seen};
use crate::store::{
    api::{ApiError, optional},
    object::{Key, Kind, api},
};

/// Characters of a message that are kept.
const LONGEST: usize = 2000;

/// The status after a decision.
pub(super) fn status(
    old: &HostMaintenanceStatus,
    decision: &MaintenanceDecision,
    seen: &Seen,
    generation: Option<i64>,
    now: Timestamp,
) -> HostMaintenanceStatus {
    let d = decision;
    let (record, subject) = (&d.record, &seen.subject);
    let is_made = d.in_place.contains(&Mark::Remediation);
    let made = is_made.then(|| Key::parse(&seen.facts.remediation_name).name);
    let message = shortened(&d.message);
    let reason = d.reason.label();
    let conditions = [
        (PARKED, d.phase == MaintenancePhase::Parked),
        (BLOCKED, is_blocked(d)),
    ]
    .map(|(name, holds)| condition(old, name, holds, (reason, &message), generation, now));
    let cluster = subject
        .cluster
        .as_ref()
        .filter(|cluster| **cluster != Key::local());
    HostMaintenanceStatus {
        observed_generation: generation,
        conditions: conditions.into(),
        phase: d.phase,
        reason: Some(reason.to_owned()),
        message: Some(message),
        node_name: subject.node.clone().or_else(|| old.node_name.clone()),
        cluster: cluster
            .map(ToString::to_string)
            .or_else(|| old.cluster.clone()),
        machine: subject
            .machine
            .as_ref()
            .map(|(_, key)| key.to_string())
            .or_else(|| old.machine.clone()),
        host: subject.host.clone().or_else(|| old.host.clone()),
        remediation: made.or_else(|| old.remediation.clone()),
        remediation_uid: (seen.remediation.clone()).or_else(|| old.remediation_uid.clone()),
        begun: record.begun,
        marked: record.marked,
        evicted_pods: seen.evicted.map(i64::from).or(old.evicted_pods),
        parked_since: record.parked_since,
        ends_at: d.ends.map(whole_second),
        ending: record.ending,
        ending_message: record.ending.map(|_| shortened(&record.ending_message)),
        ended_at: d
            .phase
            .is_over()
            .then(|| old.ended_at.unwrap_or(whole_second(now))),
        in_place: d.in_place.clone(),
        locator_lit_until: d.led_until,
    }
}

/// Whether a person has to act before it goes on.
fn is_blocked(d: &MaintenanceDecision) -> bool {
    stops(d.reason) || !d.warnings.is_empty()
}

/// Whether a person has to act because of this reason.
fn stops(reason: MaintenanceReason) -> bool {
    matches!(
        reason,
        MaintenanceReason::TargetNotFound
            | MaintenanceReason::CheckWouldAct
            | MaintenanceReason::NodeLeaseHeld
            | MaintenanceReason::MarkRefused
            | MaintenanceReason::TaintLeft
            | MaintenanceReason::HoldLeft
            | MaintenanceReason::MarkLeft
            | MaintenanceReason::AnnotationLeft
    )
}

/// Sends what a decision warns of as Events of the maintenance, each once until it is over.
pub(super) fn warn(
    context: &Maintenances,
    memory: &mut Memory,
    object: &DynamicObject,
    warnings: &[MaintenanceWarning],
) {
    for warning in memory.new_warnings(warnings) {
        let event = format!("Maintenance{}", warning.reason);
        context.events.send(object, true, &event, &warning.message);
    }
}

fn condition(
    old: &HostMaintenanceStatus,
    name: &str,
    holds: bool,
    (reason, message): (&str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> StatusCondition {
    let status = match holds {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    let condition = StatusCondition {
        condition_type: name.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now,
        observed_generation: generation,
    };
    condition.since_last_transition(&old.conditions)
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// Writes the status after a decision with this reason, with an Event if the phase has changed.
pub(super) async fn write(
    context: &Maintenances,
    key: &Key,
    object: &DynamicObject,
    old: &HostMaintenanceStatus,
    (new, decided): (&HostMaintenanceStatus, MaintenanceReason),
) -> Result<(), ApiError> {
    let what = format!("status of HostMaintenance {key}");
    let resource = context
        .served
        .known(Kind::HostMaintenance)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let mut body = json!({ "status": new });
    // A merge patch keeps what it does not name.
    if let (Ok(Value::Object(before)), Some(after)) =
        (serde_json::to_value(old), body["status"].as_object_mut())
    {
        for field in before.keys() {
            after.entry(field).or_insert(Value::Null);
        }
    }
    // Nothing is recorded for a later object of the same name, nor over what another leader has recorded.
    body["metadata"] = json!({ "resourceVersion": object.metadata.resource_version });
    let objects = api(&context.client, &resource, &key.namespace);
    let name = key.name.clone();
    let patch = move || async move {
        objects
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
            .await
    };
    let written = optional(
        context
            .writer
            .write("maintenance_status", what, patch)
            .await,
    )?;
    if let Some(written) = written {
        context.index.apply(Kind::HostMaintenance, written);
    }
    let (reason, message) = (
        new.reason.as_deref().unwrap_or_default(),
        new.message.as_deref().unwrap_or_default(),
    );
    if old.phase != new.phase || old.reason != new.reason {
        let warning = new.phase == MaintenancePhase::Failed || stops(decided);
        let event = match new.phase {
            MaintenancePhase::Ended | MaintenancePhase::Failed => {
                format!("Maintenance{:?}", new.phase)
            }
            _ => format!("Maintenance{reason}"),
        };
        context.events.send(object, warning, &event, message);
    }
    Ok(())
}
