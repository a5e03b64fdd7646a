//! Ends holds of remediations that have ended or are gone: at agents, with the outlets that were switched off for
//! them, and on BareMetalHosts (F9).
//!
//! A remediation releases its hold before it ends, at every agent of the rack that answers. One
//! that was out of reach keeps its hold in its journal, and that journal is the record of what is
//! still to be released: whenever the agent answers again, its holds are compared with the
//! remediations that exist. Until then the hold has no effect, because nobody commands through that
//! agent.

mod hosts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{ResourceExt, api::ListParams};
use rackhand_core::remediation::LeftHoldAction;
use tokio_util::sync::CancellationToken;

pub(super) use hosts::traces;

use super::{Context, policy::finalizer};
use crate::{
    agents::{AgentHold, CallFailure},
    store::{
        api::{ApiError, words},
        object::{Kind, api, list_pages},
        watch::pause,
    },
};

/// Interval of the comparison, which needs no API call while every hold is needed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Runs until `cancel`.
pub(super) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    let mut search = hosts::Search::default();
    while !pause(&cancel, INTERVAL).await {
        if let Err(error) = Box::pin(search.run(&context)).await {
            tracing::warn!(%error, "the remediations cannot be listed, so no orphaned hold key is removed");
        }
        let left = match left(&context).await {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(%error, "the remediations cannot be listed, so no hold that was left is released");
                continue;
            }
        };
        for held in left {
            let AgentHold {
                agent, host, owner, ..
            } = &held;
            match Box::pin(context.agents.end_hold(&held)).await {
                Ok(LeftHoldAction::Wait) => {}
                Ok(LeftHoldAction::SwitchOutletsOn { .. }) => {
                    tracing::info!(
                        agent,
                        host,
                        owner,
                        "switching on outlets that were left off, before their hold is released"
                    );
                }
                Ok(LeftHoldAction::Release) => {
                    tracing::info!(agent, host, owner, "released a hold that was left");
                }
                Err(CallFailure::Retryable(why) | CallFailure::Rejected(why)) => {
                    tracing::warn!(
                        agent,
                        host,
                        owner,
                        why,
                        "a hold that was left is not released; trying again"
                    );
                }
            }
        }
    }
}

/// The holds that no remediation needs, by a live read (F12).
async fn left(context: &Context) -> Result<Vec<AgentHold>, ApiError> {
    let mut holds = context.agents.holds();
    let requests = context.index.requests().into_iter();
    let needed: BTreeSet<String> = requests
        .filter(|(id, entry)| has_finalizer(id.kind, entry.object.finalizers()))
        .filter_map(|(_, entry)| entry.object.uid())
        .collect();
    holds.retain(|held| !needed.contains(&held.owner));
    if holds.is_empty() {
        return Ok(holds);
    }
    // Listed after the agents have reported their holds. A remediation has the finalizer before it
    // has a hold.
    let namespace = context.config.namespace.as_deref().unwrap_or_default();
    let existing = existing(context, namespace).await?;
    holds.retain(|held| is_left(held, &existing));
    Ok(holds)
}

/// Those of these UIDs that no remediation has, by a live list of all kinds in all namespaces (F12).
pub(super) async fn gone(
    context: &Context,
    mut uids: BTreeSet<String>,
) -> Result<BTreeSet<String>, ApiError> {
    if !uids.is_empty() {
        let existing = existing(context, "").await?;
        uids.retain(|uid| !existing.contains_key(uid));
    }
    Ok(uids)
}

/// Ends what agents hold for remediations that are gone. A hold at an agent that does not answer stays.
pub(super) async fn end_agent_holds(context: &Context, of: &BTreeSet<&str>) {
    let held = context.agents.holds().into_iter();
    for held in held.filter(|held| of.contains(held.owner.as_str())) {
        if let Err(error) = Box::pin(context.agents.end_hold(&held)).await {
            let AgentHold { agent, host, .. } = &held;
            tracing::warn!(
                agent,
                host,
                ?error,
                "a hold of a remediation that is gone is not released"
            );
        }
    }
}

/// Remediations by UID, and whether our finalizer is on them; of all namespaces, if `namespace` is empty.
async fn existing(context: &Context, namespace: &str) -> Result<BTreeMap<String, bool>, ApiError> {
    let mut existing = BTreeMap::new();
    let every = ListParams::default();
    for kind in Kind::REQUESTS {
        let found = context
            .served
            .find(&context.client, kind.group(), kind.kind());
        let found = found
            .await
            .map_err(|e| ApiError::other(kind.kind(), words(&e)))?;
        let Some(resource) = found else {
            continue;
        };
        let objects = api(&context.client, &resource, namespace);
        let read = |params: ListParams| {
            let objects = objects.clone();
            async move { objects.list_metadata(&params).await }
        };
        for object in list_pages(kind.kind(), &every, read).await? {
            let finalizer = has_finalizer(kind, object.finalizers());
            existing.extend(object.uid().map(|uid| (uid, finalizer)));
        }
    }
    Ok(existing)
}

fn has_finalizer(kind: Kind, finalizers: &[String]) -> bool {
    finalizers.iter().any(|held| held == finalizer(kind))
}

/// Whether no remediation needs a hold. A remediation has the finalizer from before its first power-off until
/// its end. A hold of an unknown owner is kept unless the agent reports that it belongs to this election,
/// because one agent may serve several management clusters.
fn is_left(held: &AgentHold, existing: &BTreeMap<String, bool>) -> bool {
    match existing.get(&held.owner) {
        Some(has_finalizer) => !has_finalizer,
        None => held.is_ours == Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_only_own_holds_of_ended_remediations_are_orphaned() {
        let held = |owner: &str, is_ours| AgentHold {
            agent: "a".into(),
            rack: "r".into(),
            host: "h".into(),
            owner: owner.into(),
            is_ours,
        };
        let existing = BTreeMap::from([("runs".to_owned(), true), ("ended".to_owned(), false)]);
        for (owner, is_ours, left) in [
            ("runs", Some(true), false),
            ("runs", None, false),
            ("ended", Some(true), true),
            ("ended", None, true),
            ("deleted", Some(true), true),
            ("deleted", None, false),
            ("deleted", Some(false), false),
        ] {
            let held = held(owner, is_ours);
            assert_eq!(is_left(&held, &existing), left, "{held:?}");
        }
    }
}
