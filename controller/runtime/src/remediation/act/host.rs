//! Carries out the commands that change the BareMetalHost.

use std::collections::BTreeSet;

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_api::names::{
    self, BLOCK_MOVE_ANNOTATION, HOLD_ANNOTATION_PREFIX, HOLD_ANNOTATION_VALUE,
    SOFT_HOLD_ANNOTATION_VALUE,
};
use rackhand_core::remediation::{MoveBlock, Observation, Step};
use serde_json::{Map, Value, json};

use crate::{
    remediation::{act::Scope, engine::ReconcileError, scope::Memory},
    store::{
        api::{ApiError, call},
        clock,
        object::{Key, Kind, api},
    },
};

/// Sets our own hold key (F2), and with it what makes a move wait (F16), where the host has none. With its first
/// power-off, baremetal-operator asks the operating system to shut down where the remediation does, and cuts the power
/// if that fails.
pub(super) async fn add_hold(
    scope: &Scope,
    memory: &Memory,
    o: &Observation,
    host: &Key,
) -> Result<(), ReconcileError> {
    let key = names::hold_annotation(&scope.uid);
    let state = memory.shell.state.as_ref();
    let is_soft = state.is_some_and(|s| s.step == Step::Holding && s.attempt.soft_off);
    let value = match is_soft {
        true => SOFT_HOLD_ANNOTATION_VALUE,
        false => HOLD_ANNOTATION_VALUE,
    };
    let mut body = annotation(&key, Some(value));
    if o.bmh.as_ref().is_some_and(|b| b.move_block.is_missing()) {
        let block = names::move_block(&scope.uid);
        body["metadata"]["annotations"][BLOCK_MOVE_ANNOTATION] = block.into();
    }
    patch_host(scope, memory, host, "hold", body).await
}

/// Changes the value of our own hold key, so that baremetal-operator looks at the host at once (F16).
pub(super) async fn renew_hold(
    scope: &Scope,
    memory: &Memory,
    host: &Key,
) -> Result<(), ReconcileError> {
    let key = names::hold_annotation(&scope.uid);
    let at = clock::whole_seconds(clock::wall_now());
    let value = json!({ "mode": "hard", names::HOLD_RENEWED_FIELD: at }).to_string();
    patch_host(scope, memory, host, "hold", annotation(&key, Some(&value))).await
}

/// Removes our own hold key, and no other (F9). Where it is not set, a write of a former leader that
/// sets it may still be on its way. Another annotation, set and removed, gives the BareMetalHost
/// another resourceVersion, with which that write is refused (F7).
pub(super) async fn remove_hold(
    scope: &Scope,
    memory: &Memory,
    host: &Key,
) -> Result<(), ReconcileError> {
    let key = names::hold_annotation(&scope.uid);
    let Some(seen) = memory.snapshot.host(host) else {
        return Ok(());
    };
    let version = seen.resource_version();
    if seen.annotations().contains_key(&key) {
        let body = annotation(&key, None);
        return patch_host(scope, memory, host, "hold", body).await;
    }
    let mark = |value| annotation(names::HOLD_WITHDRAWN_ANNOTATION, value);
    let marked = patch_host_version(scope, host, version, "hold", mark(Some(&scope.uid))).await?;
    patch_host_version(scope, host, marked, "hold", mark(None)).await?;
    Ok(())
}

/// Removes hold keys of remediations that are gone, then what agents still hold for them.
pub(super) async fn remove_orphaned_holds(
    scope: &Scope,
    memory: &Memory,
    host: &Key,
    keys: &BTreeSet<String>,
) -> Result<(), ReconcileError> {
    let removed: Map<String, Value> = (keys.iter())
        .map(|key| (key.clone(), Value::Null))
        .collect();
    let body = json!({ "metadata": { "annotations": removed } });
    patch_host(scope, memory, host, "hold", body).await?;
    let names = keys.iter().map(String::as_str).collect::<Vec<_>>();
    let message = format!(
        "removed {} from BareMetalHost {host}: a hold key of Rackhand whose remediation is gone",
        names.join(", ")
    );
    scope.emit_event(false, "OrphanedHoldRemoved", &message);
    let of = keys
        .iter()
        .filter_map(|key| key.strip_prefix(HOLD_ANNOTATION_PREFIX));
    scope.context.holds.end_of(&of.collect()).await;
    Ok(())
}

/// Makes clusterctl wait before it moves the object or the host (F16).
pub(super) async fn block_move(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    host: Option<String>,
) -> Result<(), ReconcileError> {
    let value = names::move_block(&scope.uid);
    let body = annotation(BLOCK_MOVE_ANNOTATION, Some(&value));
    patch_both(scope, memory, o, host, MoveBlock::is_missing, body).await
}

/// Lets clusterctl move the object and the host again, where we made it wait (F9).
pub(super) async fn unblock_move(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    host: Option<String>,
) -> Result<(), ReconcileError> {
    let body = annotation(BLOCK_MOVE_ANNOTATION, None);
    patch_both(scope, memory, o, host, MoveBlock::is_ours, body).await
}

/// Lets clusterctl move the host again, where we made it wait (F9).
pub(super) async fn unblock_host(
    scope: &Scope,
    memory: &Memory,
    host: &Key,
) -> Result<(), ReconcileError> {
    let body = annotation(BLOCK_MOVE_ANNOTATION, None);
    patch_host(scope, memory, host, "move_block", body).await
}

/// Patches the BareMetalHost and the object, where such a block was observed.
async fn patch_both(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    host: Option<String>,
    wanted: fn(MoveBlock) -> bool,
    body: Value,
) -> Result<(), ReconcileError> {
    let of_host = o
        .bmh
        .as_ref()
        .filter(|b| !b.deleting && wanted(b.move_block));
    if let (Some(_), Some(host)) = (of_host, host) {
        let host = Key::parse(&host);
        patch_host(scope, memory, &host, "move_block", body.clone()).await?;
    }
    if wanted(o.object.move_block) {
        let records = &scope.context.records;
        records
            .patch(scope, memory, "move_block", body, false)
            .await?;
    }
    Ok(())
}

/// Patches the BareMetalHost if it has not changed since it was observed. A delayed write of a
/// process that lost its Lease would otherwise set an annotation that switches a healthy host
/// off, or remove one from a host that is tainted.
pub(super) async fn patch_host(
    scope: &Scope,
    memory: &Memory,
    host: &Key,
    operation: &'static str,
    body: Value,
) -> Result<(), ReconcileError> {
    let seen = memory.snapshot.host(host);
    let version = seen.and_then(ResourceExt::resource_version);
    patch_host_version(scope, host, version, operation, body).await?;
    Ok(())
}

/// Patches the BareMetalHost if it still has this version, and returns the new one. Without a version
/// the BareMetalHost is gone, and its annotations with it.
async fn patch_host_version(
    scope: &Scope,
    host: &Key,
    version: Option<String>,
    operation: &'static str,
    mut body: Value,
) -> Result<Option<String>, ReconcileError> {
    let what = format!("BareMetalHost {host}");
    let Some(version) = version else {
        return Ok(None);
    };
    body["metadata"]["resourceVersion"] = version.into();
    let resource = scope
        .context
        .served
        .known(Kind::BareMetalHost)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let hosts = api(&scope.context.client, &resource, &host.namespace);
    let name = host.name.clone();
    let patching = hosts.clone();
    let asked = what.clone();
    let patched = scope
        .context
        .writer
        .write(operation, asked, move || async move {
            patching
                .patch(&name, &PatchParams::default(), &Patch::Merge(body))
                .await
        })
        .await;
    match patched {
        Ok(object) => {
            let version = object.resource_version();
            scope.context.index.apply(Kind::BareMetalHost, object);
            Ok(version)
        }
        Err(error) if error.is_not_found() => {
            scope.context.index.delete(Kind::BareMetalHost, host);
            Ok(None)
        }
        Err(error) if error.is_conflict() => {
            // The next iteration decides by the current version, even if the watch lags.
            if let Ok(fresh) = call(what, hosts.get(&host.name)).await {
                scope.context.index.apply(Kind::BareMetalHost, fresh);
            }
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// A patch that sets one annotation, or removes it.
fn annotation(key: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}
