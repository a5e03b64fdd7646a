//! Deletes the RemediationStates of remediations that are gone.

use std::time::Duration;

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Preconditions},
};
use tokio_util::sync::CancellationToken;

use super::{RecordStore, remediation};
use crate::store::{
    api::{ApiError, call, optional, words},
    object::{Kind, api},
    remediation::RemediationId,
    watch::pause,
};

/// Interval of the search, which needs no API call while every state is needed.
const INTERVAL: Duration = Duration::from_secs(60);
/// Deletions of one search.
const AT_ONCE: usize = 100;
/// Deletions in flight. Each takes two calls, and hundreds of remediations may end at once, whose deletion matters more.
pub(in crate::remediation::record) const DELETIONS: usize = 4;

impl RecordStore {
    /// Deletes the RemediationStates of remediations in this namespace, or in all, that are gone, until `cancel`.
    pub(in crate::remediation) async fn sweep(
        &self,
        only: Option<&str>,
        cancel: &CancellationToken,
    ) {
        while !pause(cancel, INTERVAL).await {
            let unneeded = self.index.unneeded_states().into_iter();
            let named = unneeded.filter_map(|object| Some((remediation(&object)?, object)));
            let ours = named.filter(|(id, _)| only.is_none_or(|only| only == id.key.namespace));
            for (id, object) in ours.take(AT_ONCE) {
                if let Err(error) = self.delete_unneeded(&id, &object).await {
                    let uid = object.name_any();
                    tracing::warn!(uid, %error, "the RemediationState of a remediation that is gone is not deleted; trying again");
                }
            }
        }
    }

    /// Deletes it if a live read does not find its remediation (F12), and it has not changed since.
    pub(in crate::remediation) async fn delete_unneeded(
        &self,
        id: &RemediationId,
        object: &DynamicObject,
    ) -> Result<(), ApiError> {
        let uid = object.name_any();
        // It is never closed.
        let _place = self.deletions.acquire().await.ok();
        let found = self
            .served
            .find(&self.client, id.kind.group(), id.kind.kind());
        let found = found.await;
        let found = found.map_err(|e| ApiError::other(id.to_string(), words(&e)))?;
        // Without its kind there is no proof that it is gone.
        let Some(of) = found else { return Ok(()) };
        let remediations = api(&self.client, &of, &id.key.namespace);
        let remediation = optional(call(id.to_string(), remediations.get(&id.key.name)).await)?;
        if remediation
            .is_some_and(|remediation| remediation.metadata.uid.as_deref() == Some(uid.as_str()))
        {
            return Ok(());
        }
        let resource = self.resource().await?;
        let states: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: object.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let name = uid.clone();
        let deleted = self
            .writer
            .write(
                "remediation_record",
                format!("RemediationState {uid}"),
                move || async move { states.delete(&name, &params).await },
            )
            .await;
        match deleted {
            Ok(_) => self.index.deleted(Kind::RemediationState, object),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
