//! The objects of remediations in the API server: the remediation itself, and its RemediationState.

use std::sync::Arc;

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_api::names::GROUP;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::remediation_state::sweep::DELETIONS;
use crate::{
    leader::writer::Writer,
    remediation::{
        engine::ReconcileError,
        observe::snapshot::only_if_unchanged,
        scope::{Memory, Scope},
    },
    store::{
        api::{ApiError, call, optional, words},
        index::{Entry, Index},
        object::{Key, Kind, Served, api},
        remediation::{RemediationId, RemediationObject},
    },
};

/// A backup must not contain what it may not restore.
const NOT_IN_BACKUPS: (&str, &str) = ("velero.io/exclude-from-backup", "true");

/// Writes remediations and their RemediationStates. The responses are in the index.
pub(crate) struct RecordStore {
    pub(super) client: Client,
    pub(super) served: Arc<Served>,
    pub(super) index: Arc<Index>,
    pub(super) writer: Writer,
    /// Places for deletions of RemediationStates.
    pub(super) deletions: Semaphore,
}

impl RecordStore {
    pub(crate) fn new(
        client: Client,
        served: Arc<Served>,
        index: Arc<Index>,
        writer: Writer,
    ) -> Self {
        Self {
            client,
            served,
            index,
            writer,
            deletions: Semaphore::new(DELETIONS),
        }
    }

    /// Patches the object if it has not changed since it was observed, and adds the response to the
    /// index for the next iteration.
    pub(in crate::remediation) async fn patch<C>(
        &self,
        scope: &Scope<C>,
        memory: &mut Memory,
        operation: &'static str,
        body: Value,
        status: bool,
    ) -> Result<(), ReconcileError> {
        let what = scope.id.to_string();
        let seen = memory
            .snapshot
            .object
            .as_ref()
            .ok_or(ReconcileError::Gone)?;
        let body = only_if_unchanged(body, &seen.object);
        let resource = self
            .served
            .known(scope.id.kind)
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let key = &scope.id.key;
        let objects = api(&self.client, &resource, &key.namespace);
        let (name, patched) = (key.name.clone(), objects.clone());
        let written = self
            .writer
            .write(operation, what.clone(), move || async move {
                let params = PatchParams::default();
                let patch = Patch::Merge(body);
                if status {
                    patched.patch_status(&name, &params, &patch).await
                } else {
                    patched.patch(&name, &params, &patch).await
                }
            })
            .await;
        match written {
            Ok(object) => {
                self.apply_response(scope, memory, object);
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(ReconcileError::Gone),
            Err(error) => {
                // Changed by another, or by a write of ours without a response: read it again.
                let fresh = optional(call(what, objects.get(&scope.id.key.name)).await)?;
                self.apply_response(scope, memory, fresh.ok_or(ReconcileError::Gone)?);
                memory.shell.write_failed();
                Err(error.into())
            }
        }
    }

    fn apply_response<C>(&self, scope: &Scope<C>, memory: &mut Memory, mut object: DynamicObject) {
        object.metadata.managed_fields = None;
        memory.snapshot.object = Some(Entry {
            view: RemediationObject::read(scope.id.kind, &object).map(Arc::new),
            object: Arc::new(object.clone()),
        });
        self.index.apply(scope.id.kind, object);
    }

    /// The resource, discovered if it is not known.
    ///
    /// # Errors
    /// The CRD is not installed, or the API server does not answer.
    pub(in crate::remediation) async fn resource(&self) -> Result<ApiResource, ApiError> {
        let kind = Kind::RemediationState;
        let found = self.served.find(&self.client, GROUP, kind.kind());
        match found.await {
            Ok(Some(resource)) => Ok(resource),
            Ok(None) => Err(ApiError::other(
                kind.kind(),
                "the CRD remediationstates.rackhand.dev is not installed; install the CRDs of this version",
            )),
            Err(error) => Err(ApiError::other(kind.kind(), words(&error))),
        }
    }

    /// Creates or replaces a RemediationState; `current`: as it was read last; `change`: fields of its spec, `null`
    /// for removed ones. The response is in the index.
    ///
    /// # Errors
    /// It was not written, or has changed since (409).
    pub(in crate::remediation) async fn put(
        &self,
        (id, uid): (&RemediationId, &str),
        current: Option<&DynamicObject>,
        change: Value,
    ) -> Result<DynamicObject, ApiError> {
        let resource = self.resource().await?;
        let fresh = || {
            let (label, value) = NOT_IN_BACKUPS;
            let mut object = DynamicObject::new(uid, &resource);
            object.labels_mut().insert(label.into(), value.into());
            object
        };
        let mut object = current.cloned().unwrap_or_else(fresh);
        object.metadata.managed_fields = None;
        // Moved, not copied: a thousand remediations may wait here for their turn to write.
        let mut spec = match object.data.get_mut("spec").map(Value::take) {
            Some(Value::Object(spec)) => spec,
            _ => Map::new(),
        };
        let Key { namespace, name } = &id.key;
        spec.insert("kind".into(), id.kind.kind().into());
        spec.insert("namespace".into(), namespace.as_str().into());
        spec.insert("name".into(), name.as_str().into());
        let Value::Object(change) = change else {
            return Err(ApiError::other(id.to_string(), "not fields of a spec"));
        };
        for (field, value) in change {
            match value {
                Value::Null => drop(spec.remove(&field)),
                value => drop(spec.insert(field, value)),
            }
        }
        object.data = Value::Object(Map::from_iter([("spec".to_owned(), spec.into())]));
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let (uid, is_there) = (uid.to_owned(), current.is_some());
        let what = format!("RemediationState of {id}");
        let written = self
            .writer
            .write("remediation_record", what, move || async move {
                let params = PostParams::default();
                match is_there {
                    true => objects.replace(&uid, &params, &object).await,
                    false => objects.create(&params, &object).await,
                }
            })
            .await?;
        self.index.apply(Kind::RemediationState, written.clone());
        Ok(written)
    }

    /// Reads the RemediationState of a remediation live, into the index.
    pub(super) async fn read(
        &self,
        (id, uid): (&RemediationId, &str),
    ) -> Result<Option<DynamicObject>, ApiError> {
        let resource = self.resource().await?;
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let what = format!("RemediationState of {id}");
        let found = optional(call(what, objects.get(uid)).await)?;
        match &found {
            Some(object) => self.index.apply(Kind::RemediationState, object.clone()),
            None if self.index.remediation_state(uid).is_some() => {
                self.index
                    .delete(Kind::RemediationState, &Key::new("", uid));
            }
            None => {}
        }
        Ok(found)
    }
}
