//! What was decided is done. Each action may be repeated, and changes only what it names by UID or by its mark.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::TypeMeta,
};
use rackhand_api::names::{
    API_VERSION, CAUSE_ANNOTATION, CLUSTER_NAME_LABEL, MACHINE_OF_REMEDIATION_ANNOTATION,
    MADE_BY_ANNOTATION, MAINTENANCE_ANNOTATION, MAINTENANCE_FINALIZER,
    MEDIK8S_NODE_NAME_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, WATCH_FILTER_LABEL, kinds,
};
use rackhand_core::maintenance::{LED_LIT_FOR, MaintenanceAction, Mark, skip_value};
use serde_json::{Value, json};

use super::{
    Maintenances, lease,
    memory::{Change, Memory},
    observe::Seen,
    resolve::Subject,
};
use crate::{
    agents::CallFailure,
    hosts::{EndpointError, bmc_endpoint},
    store::{
        api::{ApiError, optional},
        maintenance::{StoredMaintenance, lease_holder, remediation_key},
        object::{Key, Kind, api},
        remediation::RemediationId,
    },
};

/// Carries out actions of a decision. A failure of one does not keep the others from being done.
pub(super) async fn act(
    context: &Maintenances,
    memory: &mut Memory,
    (key, stored): (&Key, &StoredMaintenance),
    seen: &Seen,
    actions: &[MaintenanceAction],
    now: Timestamp,
) -> Result<(), ApiError> {
    let mut first = Ok(());
    for action in actions {
        let done = match action {
            MaintenanceAction::AddFinalizer => finalize(context, key, stored, true).await,
            MaintenanceAction::RemoveFinalizer => finalize(context, key, stored, false).await,
            MaintenanceAction::CreateRemediation => {
                create(context, key, stored, &seen.subject).await
            }
            MaintenanceAction::UpdateRemediation => update(context, key, stored).await,
            _ => {
                let whose = (key, stored.meta.uid.as_str());
                take_back_or_set(context, memory, whose, seen, *action, now).await
            }
        };
        first = first.and(done);
    }
    first
}

/// What needs no more of the maintenance than its name and UID, so that it is done for one that is gone as well.
pub(super) async fn take_back_or_set(
    context: &Maintenances,
    memory: &mut Memory,
    (key, uid): (&Key, &str),
    seen: &Seen,
    action: MaintenanceAction,
    now: Timestamp,
) -> Result<(), ApiError> {
    let change = match action {
        MaintenanceAction::Set(mark) => Some((mark, Change::Set)),
        MaintenanceAction::TakeBack(mark) => Some((mark, Change::TakeBack)),
        _ => None,
    };
    if change.is_some_and(|change| memory.has_failed(change, now)) {
        return Ok(());
    }
    let whose = (key, uid);
    let done = carry_out(context, memory, whose, seen, action, now).await;
    if let Some(change) = change {
        memory.tried(change, &done, now);
    }
    done
}

async fn carry_out(
    context: &Maintenances,
    memory: &mut Memory,
    (key, uid): (&Key, &str),
    seen: &Seen,
    action: MaintenanceAction,
    now: Timestamp,
) -> Result<(), ApiError> {
    let (subject, me) = (&seen.subject, lease_holder(&key.name, uid));
    let about = (subject, seen.facts.record.leased);
    match action {
        MaintenanceAction::DeleteRemediation => match &seen.remediation {
            Some(of) => delete(context, &remediation_key(&key.namespace, uid), of).await,
            None => Ok(()),
        },
        MaintenanceAction::Set(Mark::SkipRemediation) => {
            mark(context, subject, key, Some(uid)).await
        }
        MaintenanceAction::TakeBack(Mark::SkipRemediation) => {
            mark(context, subject, key, None).await
        }
        MaintenanceAction::Set(Mark::Lease) => {
            lease::take(&context.leases(), memory, about, &me, now).await
        }
        MaintenanceAction::TakeBack(Mark::Lease) => {
            lease::release(&context.leases(), memory, about, &me).await
        }
        MaintenanceAction::Set(Mark::LocatorLED) => {
            led(context, memory, subject, uid, true, now).await
        }
        MaintenanceAction::TakeBack(Mark::LocatorLED) => {
            led(context, memory, subject, uid, false, now).await
        }
        MaintenanceAction::AddFinalizer
        | MaintenanceAction::RemoveFinalizer
        | MaintenanceAction::CreateRemediation
        | MaintenanceAction::UpdateRemediation
        | MaintenanceAction::Set(Mark::Remediation)
        | MaintenanceAction::TakeBack(Mark::Remediation) => Ok(()),
    }
}

async fn finalize(
    context: &Maintenances,
    key: &Key,
    stored: &StoredMaintenance,
    add: bool,
) -> Result<(), ApiError> {
    let what = format!("HostMaintenance {key}");
    let resource = context
        .served
        .known(Kind::HostMaintenance)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    // The status was written since; the version is that of the index now.
    let latest = context.index.maintenance(key);
    let Some(latest) = latest.filter(|e| e.object.uid().as_deref() == Some(&*stored.meta.uid))
    else {
        return Ok(());
    };
    let mut finalizers = latest.object.finalizers().to_vec();
    finalizers.retain(|held| held != MAINTENANCE_FINALIZER);
    if add {
        finalizers.push(MAINTENANCE_FINALIZER.to_owned());
    }
    let body = json!({ "metadata": {
        "resourceVersion": latest.object.resource_version(),
        "finalizers": finalizers,
    }});
    let objects = api(&context.client, &resource, &key.namespace);
    let name = key.name.clone();
    let patch = move || async move {
        objects
            .patch(&name, &PatchParams::default(), &Patch::Merge(body))
            .await
    };
    match optional(
        context
            .writer
            .write("maintenance_finalizer", what, patch)
            .await,
    ) {
        Ok(Some(object)) => context.index.apply(Kind::HostMaintenance, object),
        Ok(None) => {}
        // It has changed since, and is looked at again.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The strategy of the remediation. At its end nothing is done to the Machine: the maintenance was no failure.
fn strategy(stored: &StoredMaintenance) -> Value {
    let Ok((spec, _)) = &stored.spec else {
        return Value::Null;
    };
    let kind = match spec.power_off {
        true => "PowerOff",
        false => "Evict",
    };
    json!({
        "type": kind,
        "retryLimit": 0,
        "onExhausted": "Notify",
        "evictionPolicy": spec.eviction.when_not_finished,
        "timeouts": {
            "evictionSeconds": spec.eviction.seconds,
            "softOffSeconds": spec.soft_off_seconds,
        },
    })
}

/// The remediation of a maintenance.
fn remediation_body(
    key: &Key,
    stored: &StoredMaintenance,
    subject: &Subject,
    machine: Option<(&DynamicObject, Option<String>)>,
    filter: Option<&str>,
) -> DynamicObject {
    let uid = &stored.meta.uid;
    let name = remediation_key(&key.namespace, uid);
    let reason = stored
        .spec
        .as_ref()
        .map_or("", |(spec, _)| spec.reason.as_str());
    let by = stored
        .spec
        .as_ref()
        .ok()
        .and_then(|(spec, _)| spec.requested_by.clone());
    let cause = match by {
        Some(by) => format!("planned work, by {by}: {reason}"),
        None => format!("planned work: {reason}"),
    };
    let mut annotations = BTreeMap::from([
        (
            MADE_BY_ANNOTATION.to_owned(),
            format!("{}/{}/{uid}", kinds::HOST_MAINTENANCE, key.name),
        ),
        (CAUSE_ANNOTATION.to_owned(), cause),
    ]);
    let mut labels = BTreeMap::new();
    if let Some(filter) = filter {
        labels.insert(WATCH_FILTER_LABEL.to_owned(), filter.to_owned());
    }
    // It lasts as long as its maintenance. The Machine owns it as well, so that clusterctl finds it and waits: once that
    // is gone, the garbage collector takes that reference away alone, and the annotation still names the Machine.
    let mut owners = vec![json!({
        "apiVersion": API_VERSION, "kind": kinds::HOST_MAINTENANCE, "name": key.name, "uid": uid,
    })];
    match machine {
        Some((object, cluster)) => {
            let api_version = object.types.clone().unwrap_or_default().api_version;
            let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
            annotations.insert(
                MACHINE_OF_REMEDIATION_ANNOTATION.to_owned(),
                format!("{api_version}/{name}/{uid}"),
            );
            owners.push(json!({
                "apiVersion": api_version, "kind": kinds::MACHINE, "name": name, "uid": uid,
            }));
            labels.extend(cluster.map(|name| (CLUSTER_NAME_LABEL.to_owned(), name)));
        }
        None => {
            let node = subject.node.clone().unwrap_or_default();
            annotations.insert(MEDIK8S_NODE_NAME_ANNOTATION.to_owned(), node);
        }
    }
    let metadata = json!({
        "name": name.name,
        "namespace": name.namespace,
        "annotations": annotations,
        "labels": labels,
        "ownerReferences": owners,
    });
    DynamicObject {
        types: Some(TypeMeta {
            api_version: API_VERSION.to_owned(),
            kind: kinds::POWER_REMEDIATION.to_owned(),
        }),
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        data: json!({ "spec": { "strategy": strategy(stored) } }),
    }
}

async fn create(
    context: &Maintenances,
    key: &Key,
    stored: &StoredMaintenance,
    subject: &Subject,
) -> Result<(), ApiError> {
    let name = remediation_key(&key.namespace, &stored.meta.uid);
    let what = format!("PowerRemediation {name}");
    let resource = context
        .served
        .known(Kind::PowerRemediation)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    // A Machine owns the remediation only within its namespace. Where the Node was named, it names the host.
    let by_node = subject.cluster == Some(Key::local());
    let machine = subject.machine.as_ref().filter(|(kind, machine)| {
        machine.namespace == key.namespace && (!by_node || *kind == Kind::OpenShiftMachine)
    });
    let found = machine.and_then(|(kind, machine)| match kind {
        Kind::OpenShiftMachine => context.index.openshift_machine(machine),
        _ => context.index.machine(machine),
    });
    let owner = found.as_ref().map(|entry| {
        let view = entry.view.as_ref().ok();
        (
            entry.object.as_ref(),
            view.and_then(|view| view.cluster_name.clone()),
        )
    });
    let body = remediation_body(key, stored, subject, owner, context.watch_filter.as_deref());
    let remediations = api(&context.client, &resource, &name.namespace);
    let create = move || async move { remediations.create(&PostParams::default(), &body).await };
    match context.writer.write("create_request", what, create).await {
        Ok(object) => {
            context.index.apply(Kind::PowerRemediation, object);
            Ok(())
        }
        // Created before, and not observed yet.
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the spec has been changed since the remediation was made from it.
pub(super) fn is_outdated(stored: &StoredMaintenance, remediation: &DynamicObject) -> bool {
    let wanted = changeable(stored);
    let made = &remediation.data["spec"]["strategy"];
    !wanted.is_null()
        && (wanted.get("type").is_some_and(|kind| made["type"] != *kind)
            || made["evictionPolicy"] != wanted["evictionPolicy"]
            || made["timeouts"]["softOffSeconds"] != wanted["timeouts"]["softOffSeconds"])
}

/// The part of the strategy that may be changed while the maintenance runs. When the time of the pods is over was
/// decided as it began.
fn changeable(stored: &StoredMaintenance) -> Value {
    let strategy = strategy(stored);
    if strategy.is_null() {
        return strategy;
    }
    let mut changeable = json!({
        "evictionPolicy": strategy["evictionPolicy"],
        "timeouts": { "softOffSeconds": strategy["timeouts"]["softOffSeconds"] },
    });
    // A host that was to be left on may be switched after all, never the other way round.
    if stored.spec.as_ref().is_ok_and(|(spec, _)| spec.power_off) {
        changeable["type"] = strategy["type"].clone();
    }
    changeable
}

/// Changes the strategy of the remediation to that of the spec.
async fn update(
    context: &Maintenances,
    key: &Key,
    stored: &StoredMaintenance,
) -> Result<(), ApiError> {
    let name = remediation_key(&key.namespace, &stored.meta.uid);
    let what = format!("PowerRemediation {name}");
    let id = RemediationId::new(Kind::PowerRemediation, name.clone());
    let resource = context
        .served
        .known(Kind::PowerRemediation)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let Some(entry) = context.index.remediation(&id) else {
        return Ok(());
    };
    let body = json!({
        "metadata": { "resourceVersion": entry.object.resource_version() },
        "spec": { "strategy": changeable(stored) },
    });
    let remediations = api(&context.client, &resource, &name.namespace);
    let patch = move || async move {
        let params = PatchParams::default();
        remediations
            .patch(&name.name, &params, &Patch::Merge(body))
            .await
    };
    let patched = context
        .writer
        .write("maintenance_update", what, patch)
        .await;
    match optional(patched) {
        Ok(Some(object)) => context.index.apply(Kind::PowerRemediation, object),
        Ok(None) => {}
        // It has changed since, and is looked at again.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Deletes the remediation with this UID, never a later one of the same name.
async fn delete(context: &Maintenances, name: &Key, uid: &str) -> Result<(), ApiError> {
    let what = format!("PowerRemediation {name}");
    let resource = context
        .served
        .known(Kind::PowerRemediation)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let remediations = api(&context.client, &resource, &name.namespace);
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let of = name.name.clone();
    let delete = move || async move {
        let deleted = remediations.delete(&of, &only).await;
        deleted.map(|answer| answer.left())
    };
    match optional(context.writer.write("delete_request", what, delete).await) {
        Ok(Some(Some(object))) => context.index.apply(Kind::PowerRemediation, object),
        Ok(_) => context.index.delete(Kind::PowerRemediation, name),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Sets the annotation `skip-remediation` on the Machine, or takes back what this maintenance has set.
async fn mark(
    context: &Maintenances,
    subject: &Subject,
    key: &Key,
    uid: Option<&str>,
) -> Result<(), ApiError> {
    let Some((kind, machine)) = &subject.machine else {
        return Ok(());
    };
    let (kind, what) = (*kind, format!("Machine {machine}"));
    let found = match kind {
        Kind::OpenShiftMachine => context.index.openshift_machine(machine),
        _ => context.index.machine(machine),
    };
    let Some(entry) = found else {
        return Ok(());
    };
    let ours = skip_value(&key.to_string());
    let present = entry.object.annotations().get(SKIP_REMEDIATION_ANNOTATION);
    let mut annotations = json!({ MAINTENANCE_ANNOTATION: uid });
    match (uid, present) {
        _ if kind == Kind::OpenShiftMachine => {}
        (Some(_), Some(_)) => return Ok(()),
        (Some(_), None) => annotations[SKIP_REMEDIATION_ANNOTATION] = ours.into(),
        (None, Some(value)) if *value == ours => {
            annotations[SKIP_REMEDIATION_ANNOTATION] = Value::Null;
        }
        // Somebody has written it anew since, so it is theirs.
        (None, _) => {}
    }
    let body = json!({ "metadata": {
        "resourceVersion": entry.object.resource_version(),
        "annotations": annotations,
    }});
    let resource = context
        .served
        .known(kind)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let machines = api(&context.client, &resource, &machine.namespace);
    let name = machine.name.clone();
    let patch = move || async move {
        machines
            .patch(&name, &PatchParams::default(), &Patch::Merge(body))
            .await
    };
    match optional(context.writer.write("maintenance_mark", what, patch).await) {
        Ok(Some(object)) => context.index.apply(kind, object),
        Ok(None) => {}
        // It has changed since, and is looked at again.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Lights the locator LED for a while, or puts it out.
async fn led(
    context: &Maintenances,
    memory: &mut Memory,
    subject: &Subject,
    uid: &str,
    lit: bool,
    now: Timestamp,
) -> Result<(), ApiError> {
    let what = "the locator LED";
    let host = memory.host.clone().or_else(|| subject.host_ref.clone());
    let Some(host) = host else {
        return Err(ApiError::other(what, "its host is not known any more"));
    };
    let known = context.agents.has_host(&host.rack, &host.host);
    let bmh = host.bmh.as_deref().filter(|_| !known).map(Key::parse);
    let endpoint = match bmh {
        None => None,
        Some(key) => {
            let view = context.index.host(&key).and_then(|entry| entry.view.ok());
            let view = view
                .ok_or_else(|| ApiError::other(what, format!("there is no BareMetalHost {key}")))?;
            let read = bmc_endpoint(&context.client, &key, &view).await;
            Some(read.map_err(|error| match error {
                EndpointError::Api(error) => error,
                missing => ApiError::other(what, missing),
            })?)
        }
    };
    let for_ = lit.then_some(LED_LIT_FOR);
    match context.commands.identify(&host, endpoint, uid, for_).await {
        Ok(()) => {
            memory.lit = lit.then_some(now);
            memory.out = !lit;
            Ok(())
        }
        Err(CallFailure::Retryable(why)) => Err(ApiError::other(what, why)),
        Err(CallFailure::Rejected(why)) => {
            // A host without such a LED is not asked again at once.
            memory.lit = lit.then_some(now);
            Err(ApiError::other(what, why))
        }
    }
}

#[cfg(test)]
mod tests;
