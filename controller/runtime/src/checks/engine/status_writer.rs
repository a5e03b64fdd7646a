//! Status writes of checks and Machines.

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::Value;

use crate::{
    checks::Context,
    leader::writer::Lane,
    store::{
        api::ApiError,
        object::{Key, Kind, api},
        time_slice::{beside_all, beside_polls},
    },
};

/// Patches the status of an object, and applies the response to the index.
///
/// # Errors
/// The API server did not answer or rejected the patch, for example with a conflict.
pub(in crate::checks) async fn patch_status(
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
    let operation = match kind {
        Kind::Machine => "machine_status",
        _ => "check_status",
    };
    let object = context
        .writer
        .on(lane)
        .write(operation, what, move || async move {
            let (params, patch) = (PatchParams::default(), Patch::Merge(body));
            let patching = objects.patch_status(&name, &params, &patch);
            match kind.names_fleet() {
                true => beside_polls(patching).await,
                false => patching.await,
            }
        })
        .await?;
    let apply = || context.index.apply(kind, object.clone());
    match kind.names_fleet() {
        true => beside_all(apply),
        false => apply(),
    }
    Ok(object)
}

/// Patches the status of a check. `None` if the check has changed or is gone; the watch delivers the change.
///
/// # Errors
/// The API server did not answer or rejected the patch.
pub(in crate::checks) async fn patch_check(
    context: &Context,
    kind: Kind,
    key: &Key,
    body: Value,
) -> Result<Option<DynamicObject>, ApiError> {
    match patch_status(context, Lane::Reports, kind, key, body).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
