//! The objects of remediations in the API server: the remediation itself, and its RemediationState.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_api::names::GROUP;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::{
    remediation_state::{STATE, spec_of, sweep::DELETIONS},
    state_format,
};
use crate::{
    leader::writer::{Lane, Writer},
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

/// Fields of the spec of a RemediationState with their new values, `null` for one that is removed.
pub(in crate::remediation) type SpecChange = Vec<(&'static str, Value)>;

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

    /// Whether remediations are being created or deleted, or are about to be.
    pub(super) fn are_created(&self) -> bool {
        self.writer.writes_checks()
    }

    /// Waits until no remediation was created or deleted for a moment.
    pub(in crate::remediation) async fn created(&self) {
        self.writer.checks_written().await;
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
        let what = (operation, Lane::Remediation);
        self.patch_on(scope, memory, what, body, status).await
    }

    /// As [`Self::patch`], in this class of writes.
    pub(super) async fn patch_on<C>(
        &self,
        scope: &Scope<C>,
        memory: &mut Memory,
        (operation, lane): (&'static str, Lane),
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
            .on(lane)
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

    fn apply_response<C>(&self, scope: &Scope<C>, memory: &mut Memory, object: DynamicObject) {
        let object = self.index.apply_shared(scope.id.kind, object);
        memory.snapshot.object = Some(Entry {
            view: RemediationObject::read(scope.id.kind, &object).map(Arc::new),
            object,
        });
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
    /// The new object is made when the write has its turn: a thousand remediations may wait for theirs.
    ///
    /// # Errors
    /// It was not written, or has changed since (409).
    pub(in crate::remediation) async fn put(
        &self,
        (id, uid): (&RemediationId, &str),
        current: Option<Arc<DynamicObject>>,
        change: impl FnOnce() -> serde_json::Result<SpecChange> + Send + 'static,
    ) -> Result<Arc<DynamicObject>, ApiError> {
        let resource = self.resource().await?;
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let (of, uid) = (id.clone(), uid.to_owned());
        let what = format!("RemediationState of {id}");
        let written = self
            .writer
            .write("remediation_record", what, move || async move {
                let change = change().map_err(kube::Error::SerdeError)?;
                let current_of = (current.as_deref(), &resource);
                let object = changed(&of, &uid, current_of, change);
                let object = object.map_err(kube::Error::SerdeError)?;
                let params = PostParams::default();
                match current {
                    Some(_) => objects.replace(&uid, &params, &object).await,
                    None => objects.create(&params, &object).await,
                }
            })
            .await?;
        Ok(self.index.apply_shared(Kind::RemediationState, written))
    }

    /// Reads the RemediationState of a remediation live, into the index.
    pub(super) async fn read(
        &self,
        (id, uid): (&RemediationId, &str),
    ) -> Result<Option<Arc<DynamicObject>>, ApiError> {
        let resource = self.resource().await?;
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let what = format!("RemediationState of {id}");
        let found = optional(call(what, objects.get(uid)).await)?;
        if found.is_none() && self.index.remediation_state(uid).is_some() {
            self.index
                .delete(Kind::RemediationState, &Key::new("", uid));
        }
        Ok(found.map(|object| self.index.apply_shared(Kind::RemediationState, object)))
    }
}

/// Makes the API server forget who manages which field, and no longer track it for this object. Only the leading controller
/// writes it, replaces it whole, and is refused where it has changed (F7), so that nothing asks for that, and tracking
/// takes a part of each write that grows with the state.
fn untracked() -> Option<Vec<ManagedFieldsEntry>> {
    Some(vec![ManagedFieldsEntry::default()])
}

/// The RemediationState with these changes; without a current one, a new one.
///
/// # Errors
/// The current one has a state that cannot be read.
fn changed(
    id: &RemediationId,
    uid: &str,
    (current, resource): (Option<&DynamicObject>, &ApiResource),
    change: SpecChange,
) -> serde_json::Result<DynamicObject> {
    let mut object = DynamicObject::new(uid, resource);
    let mut spec = Map::new();
    if let Some(current) = current {
        object.types = current.types.clone();
        object.metadata = current.metadata.clone();
        object.metadata.managed_fields = untracked();
        let fields = spec_of(current).and_then(Value::as_object);
        let is_kept = |field: &str| change.iter().all(|(changed, _)| *changed != field);
        let fields = fields.into_iter().flatten();
        for (field, value) in fields.filter(|(field, _)| is_kept(field)) {
            let value = match field.as_str() {
                STATE => state_format::as_written(value)?.into_owned(),
                _ => value.clone(),
            };
            spec.insert(field.clone(), value);
        }
    } else {
        let (label, value) = NOT_IN_BACKUPS;
        object.labels_mut().insert(label.into(), value.into());
    }
    let Key { namespace, name } = &id.key;
    spec.insert("kind".into(), id.kind.kind().into());
    spec.insert("namespace".into(), namespace.as_str().into());
    spec.insert("name".into(), name.as_str().into());
    let change = change.into_iter().filter(|(_, value)| !value.is_null());
    spec.extend(change.map(|(field, value)| (field.to_owned(), value)));
    object.data = Value::Object(Map::from_iter([("spec".to_owned(), spec.into())]));
    Ok(object)
}
