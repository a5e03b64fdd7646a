//! What a new leader does before it lets any remediation begin: it lists the remediations and what is recorded about
//! them, and claims those that have not begun.
//!
//! A watch that lags would not show what an earlier leader has begun (F6). And the write with which an earlier
//! leader lets a remediation begin may still be in flight: the API server could take it after this leader has
//! let another remediation of the same host begin, or the last one that a budget permits. The claim is written
//! into the RemediationState, which it creates if there is none, so that the earlier write is refused (F7).

use futures::{StreamExt, stream};
use kube::{Client, api::DynamicObject};
use rackhand_core::remediation::Progress;

use std::sync::Arc;

use crate::{
    leader::events::Events,
    remediation::{
        record::{
            RecordStore,
            remediation_state::{claimed_by, recorded_state},
        },
        tasks::shard::is_of_shard,
    },
    store::{
        api::{ApiError, words},
        index::Index,
        object::{Key, Kind, Served, list},
        remediation::RemediationId,
    },
};

/// Claims in flight at once.
const CONCURRENT_CLAIMS: usize = 16;

/// Claims remediations for this leader.
pub(crate) struct Claims {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) records: Arc<RecordStore>,
    pub(crate) events: Events,
    /// The identity of this process in the leader Lease, which no other process has.
    pub(crate) identity: String,
    /// The namespace of the remediations of this controller; `None`: all.
    pub(crate) namespace: Option<String>,
    pub(crate) watch_filter: Option<String>,
}

impl Claims {
    /// The shard of this controller; `None`: all.
    pub(super) fn watch_filter(&self) -> Option<&str> {
        self.watch_filter.as_deref()
    }

    /// Lists all remediations and their states into the index, and claims those of this controller that have not begun.
    ///
    /// # Errors
    /// A remediation cannot be listed or claimed now, so nothing may begin yet. Those that were claimed stay claimed;
    /// the caller tries again.
    pub(in crate::remediation) async fn claim_remediations(&self) -> Result<(), ApiError> {
        let states = self.records.resource().await?;
        let kind = Kind::RemediationState;
        for object in list(&self.client, &states, "", kind.kind()).await? {
            self.index.apply(kind, object);
        }
        let mut unclaimed = Vec::new();
        for kind in Kind::REMEDIATIONS {
            // What is not known to be absent is not skipped (F12).
            let served = self.served.find(&self.client, kind.group(), kind.kind());
            let served = served.await;
            let Some(resource) = served.map_err(|e| ApiError::other(kind.kind(), words(&e)))?
            else {
                continue;
            };
            let namespace = self.namespace.as_deref().unwrap_or_default();
            for object in list(&self.client, &resource, namespace, kind.kind()).await? {
                self.index.apply(kind, object.clone());
                if self.needs_claim(&object) {
                    unclaimed.push((kind, object));
                }
            }
        }
        let claims = unclaimed
            .into_iter()
            .map(|(kind, object)| self.claim(kind, object));
        let mut claims = stream::iter(claims).buffer_unordered(CONCURRENT_CLAIMS);
        let mut result = Ok(());
        while let Some(claimed) = claims.next().await {
            result = result.and(claimed);
        }
        result
    }

    /// Whether an earlier leader may still write that this remediation begins.
    fn needs_claim(&self, object: &DynamicObject) -> bool {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let recorded = recorded_state(&self.index, uid);
        let may_begin = recorded.is_ok_and(|s| Progress::of(s.as_ref()) == Progress::Ready);
        let state = self.index.remediation_state(uid);
        let is_claimed = state.is_some_and(|s| claimed_by(&s) == Some(self.identity.as_str()));
        let filter = self.watch_filter();
        may_begin && !is_claimed && is_of_shard(filter, object)
    }

    /// Claims one remediation, if its state has not changed since it was listed.
    async fn claim(&self, kind: Kind, object: DynamicObject) -> Result<(), ApiError> {
        let id = RemediationId::new(kind, Key::of(&object));
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let listed = self.index.remediation_state(&uid);
        let identity = self.identity.clone();
        let claim = move || Ok(vec![("claimedBy", identity.into())]);
        match self.records.put((&id, &uid), listed, claim).await {
            Ok(_) => Ok(()),
            // The API server refuses the write of an earlier leader as well; others must not wait for this one.
            Err(error)
                if error.is_client_error() && !error.is_conflict() && !error.is_not_found() =>
            {
                let message = format!(
                    "the API server does not let this controller record its state: {error}"
                );
                self.events.send(&object, true, "ClaimRefused", &message);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
