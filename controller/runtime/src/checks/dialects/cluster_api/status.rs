//! Conditions, counts and Events of a check after an evaluation.
//!
//! Invariant: unchanged values are never written, because two controllers that do so trigger each other
//! endlessly.

use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, conditions::REMEDIATION_ALLOWED, kinds},
    views::{ClusterView, MachineHealthCheckView, Meta, Shape},
};
use rackhand_core::checks::machines::FleetCounts;
use serde_json::{Value, json};

use crate::{
    checks::{Context, conditions, engine::status_writer::patch_check, machines::dialect::Summary},
    store::{
        api::ApiError,
        conditions::{NewCondition, both_lists},
        object::{Key, Kind, api},
        time_slice::beside,
    },
};

/// Maximum number of names in `status.targets` by the schema (docs/reference/cluster-api.md, Fields).
const MOST_TARGETS: usize = 10_000;

/// Writes status, label and ownerReference of the check.
pub(super) async fn check_status(
    context: &Context,
    key: &Key,
    summary: &Summary,
) -> Result<(), ApiError> {
    let Some(entry) = context.index.check(key) else {
        return Ok(());
    };
    let Ok(view) = entry.view.as_deref() else {
        return Ok(());
    };
    let of = view.cluster_name.clone().unwrap_or_default();
    let cluster = context.index.cluster(&Key::new(&key.namespace, of));
    let Some(Ok(cluster)) = cluster.map(|c| c.view) else {
        return Ok(());
    };
    let object = entry.object.as_ref();
    let Summary { gate, paused, .. } = summary;
    let paused = *paused;
    let now = Timestamp::now();
    let (status, reason) = if gate.open {
        ("True", REMEDIATION_ALLOWED)
    } else {
        ("False", "TooManyUnhealthy")
    };
    let message = gate.message.as_str();
    let mut old = Vec::new();
    let why = conditions::pauses(&view.meta, &cluster);
    let mut new: Vec<NewCondition<'_>> = conditions::paused(&view.meta, paused, &why)
        .into_iter()
        .collect();
    let failed = summary.failed.as_ref().map(|f| (f.reason, f.why.as_str()));
    let (complaint, mut gone) = conditions::external(|t| view.condition(t).is_some(), failed);
    old.extend(complaint);
    let mut news = Vec::new();
    if !paused {
        let carried = |type_: &str| view.condition(type_).and_then(|c| c.message.as_deref());
        gone.extend(summary.notices.resolved(|t| view.condition(t).is_some()));
        for said in summary.notices.conditions() {
            if carried(said.type_) != Some(said.message) {
                news.push((said.reason, said.message));
            }
            new.push(said);
        }
        old.push(NewCondition {
            type_: REMEDIATION_ALLOWED,
            status,
            reason: if gate.open { "" } else { reason },
            message,
            severity: (!gate.open).then_some("Warning"),
        });
        new.push(NewCondition {
            type_: REMEDIATION_ALLOWED,
            status,
            reason,
            message,
            severity: None,
        });
    }
    let lists = both_lists(object, view.shape, &old, &new, &gone, now);
    let named = summary.targets.as_ref().map_or(0, Vec::len);
    let counts = beside(named, || counts(view, summary));
    let mut latest = entry.object.clone();
    let closing = !gate.open
        && view
            .condition(REMEDIATION_ALLOWED)
            .and_then(|c| c.message.as_deref())
            != Some(message);
    if lists.is_some() || (counts.is_some() && !paused) {
        let mut body = lists.unwrap_or_else(|| {
            json!({ "metadata": { "resourceVersion": object.metadata.resource_version }, "status": {} })
        });
        if let (Some(Value::Object(counts)), Some(status)) = (
            counts.filter(|_| !paused),
            body.get_mut("status").and_then(Value::as_object_mut),
        ) {
            status.extend(counts);
        }
        match patch_check(context, Kind::MachineHealthCheck, key, body).await? {
            Some(object) => latest = object.into(),
            None => return Ok(()),
        }
    }
    for (reason, words) in news {
        context.events.send(object, true, reason, words);
    }
    if closing && summary.tally.unhealthy > 0 && !paused {
        context
            .events
            .send(object, true, "RemediationRestricted", message);
    }
    belongs(context, &latest, &cluster).await
}

/// The changed counts; `None` if they are unchanged.
fn counts(view: &MachineHealthCheckView, summary: &Summary) -> Option<Value> {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let Summary {
        tally,
        targets,
        gate,
        ..
    } = summary;
    let FleetCounts {
        expected, healthy, ..
    } = tally;
    let targets = targets
        .as_ref()
        .map(|names| names.get(..MOST_TARGETS).unwrap_or(names))
        .filter(|names| view.targets != *names);
    let same = view.expected_machines.unwrap_or(0) == number(*expected)
        && view.current_healthy.unwrap_or(0) == number(*healthy)
        && view.remediations_allowed.unwrap_or(0) == number(gate.remediations_allowed)
        && view.observed_generation == view.meta.generation
        && targets.is_none();
    if same {
        return None;
    }
    let mut counts = json!({
        "expectedMachines": expected,
        "currentHealthy": healthy,
        "remediationsAllowed": gate.remediations_allowed,
        "observedGeneration": view.meta.generation,
    });
    if let (Some(names), Some(counts)) = (targets, counts.as_object_mut()) {
        counts.insert("targets".into(), names.into());
    }
    Some(counts)
}

fn is_tied(check: &Meta, cluster: &ClusterView) -> bool {
    check.labels.get(CLUSTER_NAME_LABEL) == Some(&cluster.meta.name)
        && check.owners.iter().any(|o| o.uid == cluster.meta.uid)
}

/// The Cluster that a check names, whether or not the rest of the check can be read.
pub(super) fn cluster_name(check: &DynamicObject) -> Option<&str> {
    let name = check.data.pointer("/spec/clusterName")?.as_str()?;
    (!name.is_empty()).then_some(name)
}

/// Label and ownerReference that tie a check to its Cluster.
async fn belongs(
    context: &Context,
    object: &DynamicObject,
    cluster: &ClusterView,
) -> Result<(), ApiError> {
    if is_tied(&Meta::of(object), cluster) {
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
            let params = PatchParams::default();
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

/// Reports on a check why it cannot be evaluated. The check still gets label and ownerReference of its
/// Cluster, because it is deleted and moved with the Cluster (docs/reference/cluster-api.md, Evaluation).
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
    let key = Key::of(object);
    let mut latest = object.clone();
    if let Some(body) = body {
        context.events.send(object, true, reason, message);
        match patch_check(context, Kind::MachineHealthCheck, &key, body).await? {
            Some(object) => latest = object,
            None => return Ok(()),
        }
    }
    let cluster = cluster_name(&latest).map(|name| Key::new(&key.namespace, name));
    match cluster.and_then(|cluster| context.index.cluster(&cluster)?.view.ok()) {
        Some(cluster) => belongs(context, &latest, &cluster).await,
        None => Ok(()),
    }
}
