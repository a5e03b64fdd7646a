//! The state of a remediation as a controller recorded it, in its RemediationState (F15).
//!
//! A RemediationState is cluster-scoped, so that nobody who may write remediations in a namespace can write it, and
//! its name is the UID of the remediation: what was copied, moved or made by somebody else has none. A write fails
//! if the object has changed since it was read, so that a deposed leader cannot reset a state.

pub(super) mod sweep;

use std::sync::Arc;

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::kinds::remediation_state::NodeBackup;
use rackhand_core::remediation::State;
use serde_json::Value;

use super::{RecordStore, Scope, displayed_state::displayed_state, state_format};
use crate::{
    remediation::{
        engine::ReconcileError,
        scope::{self, Memory},
    },
    store::{
        api::ApiError,
        index::{Entry, Index},
        live_remediations::finalizer,
        object::{Key, Kind},
        remediation::{RemediationId, RemediationObject},
    },
};

/// The field of the state.
pub(super) const STATE: &str = "state";

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

/// Whether anything is recorded about the remediation with this UID, whether or not it can be parsed.
pub(super) fn is_recorded(index: &Index, uid: &str) -> bool {
    let object = index.remediation_state(uid);
    let stored = object.as_deref().and_then(spec_of);
    state_format::is_stored(stored.and_then(|spec| spec.get(STATE)))
}

/// What this process has read or written last.
#[derive(Default)]
pub(in crate::remediation) struct Record {
    object: Option<Arc<DynamicObject>>,
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

    fn put(&mut self, object: Option<Arc<DynamicObject>>) {
        let seen = object.as_deref().map_or(0, sequence);
        self.sequence = self.sequence.max(seen);
        self.object = object;
    }
}

pub(super) fn spec_of(object: &DynamicObject) -> Option<&Value> {
    object.data.get("spec")
}

fn state(object: &DynamicObject) -> Result<Option<State>, String> {
    let stored = spec_of(object).and_then(|spec| spec.get(STATE));
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

/// Reads the state at the start and after a failed write, live: a watch that lags would show an earlier one. Where it
/// shows none, and nothing in the remediation tells of one, the first write tells whether there is one.
pub(in crate::remediation) async fn load_state(
    scope: &Scope,
    memory: &mut Memory,
) -> Result<(), ReconcileError> {
    if memory.shell.loaded {
        return Ok(());
    }
    if is_new(scope, memory) && memory.shell.assume_unrecorded() {
        return Ok(());
    }
    let found = scope.context.records.read((&scope.id, &scope.uid)).await?;
    let stored = memory.record.intact(found.as_deref());
    memory.record.put(found);
    let read = memory.shell.read_state(stored);
    read.map_err(|why| ApiError::other(scope.id.to_string(), why).into())
}

/// Whether the remediation looks as if nobody had worked on it: it has neither our finalizer nor a copy, and the index
/// has no record of it.
fn is_new(scope: &Scope, memory: &Memory) -> bool {
    let kind = scope.id.kind;
    let has_none = |entry: &Entry<RemediationObject>| {
        let ours = finalizer(kind);
        let is_ours = |f: &String| f == ours;
        !entry.object.finalizers().iter().any(is_ours)
            && matches!(displayed_state(kind, &entry.object), Ok(None))
    };
    memory.snapshot.object.as_ref().is_some_and(has_none)
        && scope.context.index.remediation_state(&scope.uid).is_none()
}

/// The state in the index, if it is what this process wrote or a later one.
pub(in crate::remediation) fn record_in_index(
    scope: &Scope,
    memory: &Memory,
) -> Result<Option<State>, String> {
    let object = scope.context.index.remediation_state(&scope.uid);
    memory.record.intact(object.as_deref())
}

/// Deletes the record of a remediation that is gone. What fails is done later, see [`RecordStore::sweep`].
pub(in crate::remediation) async fn delete_record(scope: &Scope) {
    if let Some(object) = scope.context.index.remediation_state(&scope.uid) {
        let deleted = scope.context.records.delete_unneeded(&scope.id, &object);
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
    let state = state.clone();
    scope
        .context
        .records
        .change(scope, memory, STATE, move || state_format::encode(&state))
        .await
}

impl RecordStore {
    /// Writes one field.
    pub(in crate::remediation) async fn change<C>(
        &self,
        scope: &scope::Scope<C>,
        memory: &mut Memory,
        field: &'static str,
        value: impl FnOnce() -> serde_json::Result<Value> + Send + 'static,
    ) -> Result<(), ReconcileError> {
        let next = memory.record.sequence.saturating_add(1);
        let change = move || Ok(vec![(field, value()?), ("sequence", next.into())]);
        let of = (&scope.id, scope.uid.as_str());
        match self.put(of, memory.record.object.clone(), change).await {
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
}

#[cfg(test)]
mod tests;
