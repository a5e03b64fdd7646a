//! What a new leader does before it lets any remediation begin: it lists the remediations, and claims those
//! that have not begun.
//!
//! A watch that lags would not show what an earlier leader has begun (F6). And the write with which an earlier
//! leader lets a remediation begin may still be in flight: the API server could take it after this leader has
//! let another remediation of the same host begin, or the last one that a budget permits. The claim is an
//! annotation. It gives the object another resourceVersion, so that the earlier write is refused (F7).

use futures::{StreamExt, stream};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use rackhand_api::names::CLAIMED_BY_ANNOTATION;
use rackhand_core::remediation::Progress;
use serde_json::json;

use super::{Context, shard::is_of_shard, snapshot::only_if_unchanged, stored_state::stored_state};
use crate::store::{
    api::ApiError,
    object::{Key, Kind, api, list},
    request::RequestId,
};

/// Claims in flight at once.
const CONCURRENT_CLAIMS: usize = 16;

/// Lists all remediations into the index, and claims those of this controller that have not begun.
///
/// # Errors
/// A remediation cannot be listed or claimed now, so nothing may begin yet. Those that were claimed stay claimed;
/// the caller tries again.
pub(super) async fn claim_requests(context: &Context) -> Result<(), ApiError> {
    let mut unclaimed = Vec::new();
    for kind in Kind::REQUESTS {
        let Some(resource) = context.served.known(kind) else {
            continue;
        };
        let namespace = context.config.namespace.as_deref().unwrap_or_default();
        for object in list(&context.client, &resource, namespace, kind.kind()).await? {
            context.index.apply(kind, object.clone());
            if needs_claim(context, kind, &object) {
                unclaimed.push((kind, resource.clone(), object));
            }
        }
    }
    let claims = unclaimed
        .into_iter()
        .map(|(kind, resource, object)| claim(context, kind, resource, object));
    let mut claims = stream::iter(claims).buffer_unordered(CONCURRENT_CLAIMS);
    let mut result = Ok(());
    while let Some(claimed) = claims.next().await {
        result = result.and(claimed);
    }
    result
}

/// Whether an earlier leader may still write that this remediation begins.
fn needs_claim(context: &Context, kind: Kind, object: &DynamicObject) -> bool {
    let stored = stored_state(kind, object);
    let may_begin = stored.is_ok_and(|s| Progress::of(s.as_ref()) == Progress::Ready);
    let claimed = object.annotations().get(CLAIMED_BY_ANNOTATION) == Some(&context.identity);
    let filter = context.config.watch_filter.as_deref();
    may_begin && !claimed && is_of_shard(filter, object)
}

/// Claims one remediation, if it has not changed since it was listed.
async fn claim(
    context: &Context,
    kind: Kind,
    resource: ApiResource,
    object: DynamicObject,
) -> Result<(), ApiError> {
    let id = RequestId::new(kind, Key::of(&object));
    let annotations = json!({ CLAIMED_BY_ANNOTATION: context.identity });
    let body = json!({ "metadata": { "annotations": annotations } });
    let body = only_if_unchanged(body, &object);
    let objects = api(&context.client, &resource, &id.key.namespace);
    let what = id.to_string();
    let claimed = context
        .writer
        .write("claim", what, move || async move {
            let params = PatchParams::default();
            let patch = Patch::Merge(body);
            objects.patch(&id.key.name, &params, &patch).await
        })
        .await;
    match claimed {
        Ok(object) => {
            context.index.apply(kind, object);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        // The API server refuses the write of an earlier leader as well; others must not wait for this one.
        Err(error) if error.is_client_error() && !error.is_conflict() => {
            let message = format!("the API server does not let this controller change it: {error}");
            context.events.send(&object, true, "ClaimRefused", &message);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
