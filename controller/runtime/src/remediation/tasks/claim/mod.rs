//! What a new leader does before it lets any remediation begin: it lists the remediations and what is recorded about
//! them, and claims those that have not begun.
//!
//! A watch that lags would not show what an earlier leader has begun (F6). And the write with which an earlier
//! leader lets a remediation begin may still be in flight: the API server could take it after this leader has
//! let another remediation of the same host begin, or the last one that a budget permits. The claim is written
//! into the RemediationState, which it creates if there is none, so that the earlier write is refused (F7).

use futures::{StreamExt, stream};
use kube::api::DynamicObject;
use rackhand_core::remediation::Progress;
use serde_json::json;

use crate::{
    remediation::{
        Context,
        record::remediation_state::{self, claimed_by, recorded_state},
        tasks::shard::is_of_shard,
    },
    store::{
        api::{ApiError, words},
        object::{Key, Kind, list},
        remediation::RemediationId,
    },
};

/// Claims in flight at once.
const CONCURRENT_CLAIMS: usize = 16;

/// Lists all remediations and their states into the index, and claims those of this controller that have not begun.
///
/// # Errors
/// A remediation cannot be listed or claimed now, so nothing may begin yet. Those that were claimed stay claimed;
/// the caller tries again.
pub(super) async fn claim_remediations(context: &Context) -> Result<(), ApiError> {
    let states = remediation_state::resource(context).await?;
    let kind = Kind::RemediationState;
    for object in list(&context.client, &states, "", kind.kind()).await? {
        context.index.apply(kind, object);
    }
    let mut unclaimed = Vec::new();
    for kind in Kind::REMEDIATIONS {
        // What is not known to be absent is not skipped (F12).
        let served = context
            .served
            .find(&context.client, kind.group(), kind.kind());
        let served = served.await;
        let Some(resource) = served.map_err(|e| ApiError::other(kind.kind(), words(&e)))? else {
            continue;
        };
        let namespace = context.config.namespace.as_deref().unwrap_or_default();
        for object in list(&context.client, &resource, namespace, kind.kind()).await? {
            context.index.apply(kind, object.clone());
            if needs_claim(context, &object) {
                unclaimed.push((kind, object));
            }
        }
    }
    let claims = unclaimed
        .into_iter()
        .map(|(kind, object)| claim(context, kind, object));
    let mut claims = stream::iter(claims).buffer_unordered(CONCURRENT_CLAIMS);
    let mut result = Ok(());
    while let Some(claimed) = claims.next().await {
        result = result.and(claimed);
    }
    result
}

/// Whether an earlier leader may still write that this remediation begins.
fn needs_claim(context: &Context, object: &DynamicObject) -> bool {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let recorded = recorded_state(&context.index, uid);
    let may_begin = recorded.is_ok_and(|s| Progress::of(s.as_ref()) == Progress::Ready);
    let state = context.index.remediation_state(uid);
    let is_claimed = state.is_some_and(|s| claimed_by(&s) == Some(context.identity.as_str()));
    let filter = context.config.watch_filter.as_deref();
    may_begin && !is_claimed && is_of_shard(filter, object)
}

/// Claims one remediation, if its state has not changed since it was listed.
async fn claim(context: &Context, kind: Kind, object: DynamicObject) -> Result<(), ApiError> {
    let id = RemediationId::new(kind, Key::of(&object));
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let listed = context.index.remediation_state(&uid);
    let claim = json!({ "claimedBy": context.identity });
    match remediation_state::put(context, (&id, &uid), listed.as_deref(), claim).await {
        Ok(_) => Ok(()),
        // The API server refuses the write of an earlier leader as well; others must not wait for this one.
        Err(error) if error.is_client_error() && !error.is_conflict() && !error.is_not_found() => {
            let message =
                format!("the API server does not let this controller record its state: {error}");
            context.events.send(&object, true, "ClaimRefused", &message);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
