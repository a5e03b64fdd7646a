//! The state of a remediation as a controller recorded it, in its RemediationState (F15).
//!
//! A RemediationState is cluster-scoped, so that nobody who may write remediations in a namespace can write it, and
//! its name is the UID of the remediation: what was copied, moved or made by somebody else has none. A write fails
//! if the object has changed since it was read, so that a deposed leader cannot reset a state.

mod sweep;

use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, PostParams},
};
use rackhand_api::{kinds::remediation_state::NodeBackup, names::GROUP};
use rackhand_core::remediation::State;
use serde_json::{Value, json};

use crate::{
    remediation::{
        Context,
        engine::ReconcileError,
        record::state_format,
        scope::{Memory, Scope},
    },
    store::{
        api::{ApiError, call, optional, words},
        index::Index,
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

pub(in crate::remediation) use sweep::run as delete_unneeded;

/// A backup must not contain what it may not restore.
const NOT_IN_BACKUPS: (&str, &str) = ("velero.io/exclude-from-backup", "true");

/// The recorded state of the remediation with this UID; `None` if nothing was done yet.
///
/// # Errors
/// It cannot be parsed. What was done is unknown then, and nothing may be done on a guess (F8).
pub(crate) fn recorded_state(index: &Index, uid: &str) -> Result<Option<State>, String> {
    match index.remediation_state(uid) {
        Some(object) => state(&object),
        None => Ok(None),
    }
}

/// What this process has read or written last.
#[derive(Default)]
pub(in crate::remediation) struct Record {
    object: Option<DynamicObject>,
    /// The highest [`sequence`] seen.
    sequence: i64,
}

impl Record {
    /// The state in the object; `None` if it is missing, or an earlier copy was put in its place.
    fn intact(&self, object: Option<&DynamicObject>) -> Result<Option<State>, String> {
        match object {
            Some(object) if sequence(object) >= self.sequence => state(object),
            _ => Ok(None),
        }
    }

    fn put(&mut self, object: Option<DynamicObject>) {
        let seen = object.as_ref().map_or(0, sequence);
        self.sequence = self.sequence.max(seen);
        self.object = object;
    }
}

fn spec_of(object: &DynamicObject) -> Option<&Value> {
    object.data.get("spec")
}

fn state(object: &DynamicObject) -> Result<Option<State>, String> {
    let stored = spec_of(object).and_then(|spec| spec.get("state"));
    let read = state_format::decode(stored);
    read.map_err(|e| format!("RemediationState {}: {e}", object.name_any()))
}

fn sequence(object: &DynamicObject) -> i64 {
    let number = spec_of(object).and_then(|spec| spec.get("sequence"));
    number.and_then(Value::as_i64).unwrap_or_default()
}

/// The leader that claimed the remediation before it had begun.
pub(in crate::remediation) fn claimed_by(object: &DynamicObject) -> Option<&str> {
    spec_of(object)?.get("claimedBy")?.as_str()
}

/// The remediation that it belongs to; `None` if it names none that a controller carries out.
pub(in crate::remediation) fn remediation(object: &DynamicObject) -> Option<RemediationId> {
    let spec = spec_of(object)?;
    let text = |field: &str| spec.get(field)?.as_str();
    let of = text("kind")?;
    let kind = Kind::REMEDIATIONS
        .into_iter()
        .find(|kind| kind.kind() == of)?;
    let key = Key::new(text("namespace")?, text("name")?);
    Some(RemediationId::new(kind, key))
}

/// The saved labels and annotations of the Node that the remediation with this UID has deleted.
pub(in crate::remediation) fn node_backup(index: &Index, uid: &str) -> Option<NodeBackup> {
    let object = index.remediation_state(uid)?;
    let saved = spec_of(&object)?.get("nodeBackup")?;
    serde_json::from_value(saved.clone()).ok()
}

/// The resource, discovered if it is not known.
///
/// # Errors
/// The CRD is not installed, or the API server does not answer.
pub(in crate::remediation) async fn resource(context: &Context) -> Result<ApiResource, ApiError> {
    let kind = Kind::RemediationState;
    let found = context.served.find(&context.client, GROUP, kind.kind());
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
    context: &Context,
    (id, uid): (&RemediationId, &str),
    current: Option<&DynamicObject>,
    change: Value,
) -> Result<DynamicObject, ApiError> {
    let resource = resource(context).await?;
    let fresh = || {
        let (label, value) = NOT_IN_BACKUPS;
        let mut object = DynamicObject::new(uid, &resource);
        object.labels_mut().insert(label.into(), value.into());
        object
    };
    let mut object = current.cloned().unwrap_or_else(fresh);
    object.metadata.managed_fields = None;
    let mut spec = spec_of(&object).cloned().unwrap_or_else(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        let Key { namespace, name } = &id.key;
        spec.insert("kind".into(), id.kind.kind().into());
        spec.insert("namespace".into(), namespace.as_str().into());
        spec.insert("name".into(), name.as_str().into());
        for (field, value) in change.as_object().into_iter().flatten() {
            match value {
                Value::Null => drop(spec.remove(field)),
                value => drop(spec.insert(field.clone(), value.clone())),
            }
        }
    }
    object.data = json!({ "spec": spec });
    let objects: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
    let (uid, is_there) = (uid.to_owned(), current.is_some());
    let what = format!("RemediationState of {id}");
    let written = context
        .writer
        .write("remediation_record", what, move || async move {
            let params = PostParams::default();
            match is_there {
                true => objects.replace(&uid, &params, &object).await,
                false => objects.create(&params, &object).await,
            }
        })
        .await?;
    context.index.apply(Kind::RemediationState, written.clone());
    Ok(written)
}

/// Reads the state at the start and after a failed write, live: a watch that lags would show an earlier one.
pub(in crate::remediation) async fn load_state(
    scope: &Scope,
    memory: &mut Memory,
) -> Result<(), ReconcileError> {
    if memory.shell.loaded {
        return Ok(());
    }
    let resource = resource(&scope.context).await?;
    let objects: Api<DynamicObject> = Api::all_with(scope.context.client.clone(), &resource);
    let what = format!("RemediationState of {}", scope.id);
    let found = optional(call(what, objects.get(&scope.uid)).await)?;
    match &found {
        Some(object) => scope
            .context
            .index
            .apply(Kind::RemediationState, object.clone()),
        None => {
            let key = Key::new("", scope.uid.as_str());
            if scope.context.index.remediation_state(&scope.uid).is_some() {
                scope.context.index.delete(Kind::RemediationState, &key);
            }
        }
    }
    let stored = memory.record.intact(found.as_ref());
    memory.record.put(found);
    let read = memory.shell.read_state(stored);
    read.map_err(|why| ApiError::other(scope.id.to_string(), why).into())
}

/// The state in the index, if it is what this process wrote or a later one.
pub(in crate::remediation) fn record_in_index(
    scope: &Scope,
    memory: &Memory,
) -> Result<Option<State>, String> {
    let object = scope.context.index.remediation_state(&scope.uid);
    memory.record.intact(object.as_deref())
}

/// Deletes the record of a remediation that is gone. What fails is done later, see [`delete_unneeded`].
pub(in crate::remediation) async fn delete_record(scope: &Scope) {
    if let Some(object) = scope.context.index.remediation_state(&scope.uid) {
        let deleted = sweep::delete_unneeded(&scope.context, &scope.id, &object);
        if let Err(error) = deleted.await {
            tracing::debug!(remediation = %scope.id, %error, "its RemediationState is not deleted yet");
        }
    }
}

/// Records a state that differs from the recorded one.
pub(in crate::remediation) async fn write_record(
    scope: &Scope,
    memory: &mut Memory,
    state: &State,
) -> Result<(), ReconcileError> {
    let known = record_in_index(scope, memory);
    if known.is_ok_and(|known| known.as_ref() == Some(state)) {
        return Ok(());
    }
    let encoded = state_format::encode(state);
    let encoded = encoded.map_err(|e| ApiError::other(scope.id.to_string(), e))?;
    change_record(scope, memory, "state", encoded).await
}

/// Writes one field.
pub(in crate::remediation) async fn change_record(
    scope: &Scope,
    memory: &mut Memory,
    field: &'static str,
    value: Value,
) -> Result<(), ReconcileError> {
    let next = memory.record.sequence.saturating_add(1);
    let change = json!({ field: value, "sequence": next });
    let of = (&scope.id, scope.uid.as_str());
    match put(&scope.context, of, memory.record.object.as_ref(), change).await {
        Ok(written) => {
            memory.record.put(Some(written));
            Ok(())
        }
        Err(error) => {
            // Changed by another, or by a write of ours without a response: read it again.
            memory.shell.write_failed();
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests;
