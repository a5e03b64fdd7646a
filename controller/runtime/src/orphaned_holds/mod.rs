//! Ends holds of remediations that have ended or are gone: at agents, with the outlets that were switched off for
//! them, and on BareMetalHosts (F9).
//!
//! A remediation releases its hold before it ends, at every agent of the rack that answers. One
//! that was out of reach keeps its hold in its journal, and that journal is the record of what is
//! still to be released: whenever the agent answers again, its holds are compared with the
//! remediations that exist. Until then the hold has no effect, because nobody commands through that
//! agent.

mod cordons;
mod hosts;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::{Client, ResourceExt};
use rackhand_core::remediation::{LeftHoldAction, is_left};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{AgentConnections, AgentHold, AgentHolds, CallFailure},
    clusters::Workloads,
    hosts::ActiveRemediations,
    leader::{events::Events, writer::Writer},
    store::{
        api::ApiError,
        index::Index,
        live_remediations::{has_finalizer, list_remediations},
        object::Served,
        watch::pause,
    },
};

/// Interval of the comparison, which needs no API call while every hold is needed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Ends holds of remediations that have ended or are gone.
pub(crate) struct OrphanedHolds {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) holds: AgentHolds,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    /// Remediations that may act on a host.
    pub(crate) active: Arc<ActiveRemediations>,
    /// The namespace of the remediations of this controller; `None`: all.
    pub(crate) namespace: Option<String>,
    /// Age of a BareMetalHost from which its keys are removed.
    pub(crate) age: Duration,
}

/// Runs until `cancel`.
pub(crate) async fn run(context: OrphanedHolds, cancel: CancellationToken) {
    let mut search = hosts::Search::default();
    let mut cordons = cordons::Search::default();
    while !pause(&cancel, INTERVAL).await {
        if let Err(error) = Box::pin(search.run(&context)).await {
            tracing::warn!(%error, "the remediations cannot be listed, so no orphaned hold key is removed");
        }
        if let Err(error) = Box::pin(cordons.run(&context)).await {
            tracing::warn!(%error, "the remediations cannot be listed, so no orphaned cordon is removed");
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
            match Box::pin(context.holds.end(&held)).await {
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
async fn left(context: &OrphanedHolds) -> Result<Vec<AgentHold>, ApiError> {
    let mut holds = context.holds.list();
    let remediations = context.index.remediations().into_iter();
    let needed: BTreeSet<String> = remediations
        .filter(|(id, entry)| has_finalizer(id.kind, entry.object.finalizers()))
        .filter_map(|(_, entry)| entry.object.uid())
        .collect();
    holds.retain(|held| !needed.contains(&held.owner));
    if holds.is_empty() {
        return Ok(holds);
    }
    // Listed after the agents have reported their holds. A remediation has the finalizer before it
    // has a hold.
    let namespace = context.namespace.as_deref().unwrap_or_default();
    let existing = list_remediations(&context.client, &context.served, namespace).await?;
    holds.retain(|held| is_left(existing.get(&held.owner).copied(), held.is_ours));
    Ok(holds)
}
