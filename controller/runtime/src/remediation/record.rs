//! The state of a remediation in its object.
//!
//! Owns the annotation and CAPM3's status fields. A write fails when the object is not as it was
//! last seen, so that a process that leads no more cannot set a state back.

use kube::api::{DynamicObject, Patch, PatchParams};
use rackhand_api::names::STATE_ANNOTATION;
use rackhand_core::remediation::{Because, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::engine::{Engine, Setback};
use crate::{
    api::{ApiError, call, optional},
    object::{Kind, api},
};

/// What stands in the object, as far as this process knows.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) loaded: bool,
    pub(super) state: Option<State>,
    /// Label and message of the reason that was shown last.
    pub(super) shown: Option<(&'static str, String)>,
    status: Option<Value>,
}

/// The annotation.
#[derive(Serialize, Deserialize)]
struct Annotation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// For people: CamelCase reason.
    reason: String,
    /// For people.
    message: String,
}

impl Engine {
    /// Reads the state at the start, and after a write that did not go through.
    pub(super) fn load(&mut self) -> Result<(), Setback> {
        let entry = self
            .context
            .index
            .remediation(&self.key)
            .ok_or(Setback::Gone)?;
        if entry.object.metadata.uid.as_deref() != Some(&self.uid) {
            return Err(Setback::Gone);
        }
        if self.recorded.loaded {
            return Ok(());
        }
        let text = entry
            .object
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(STATE_ANNOTATION));
        self.recorded.state = match text {
            None => None,
            Some(text) => {
                let read: Annotation = serde_json::from_str(text).map_err(|e| {
                    // What was done is not known: nothing may be done on a guess (F8).
                    ApiError::other(
                        format!(
                            "annotation {STATE_ANNOTATION} of Metal3Remediation {}",
                            self.key
                        ),
                        format!(
                            "{e}; make sure that the host is on and the node carries no \
                             out-of-service taint, then remove the finalizer and delete the object"
                        ),
                    )
                })?;
                read.state
            }
        };
        self.recorded.loaded = true;
        Ok(())
    }

    pub(super) async fn record(&mut self, state: &State, because: &Because) -> Result<(), Setback> {
        self.record_because(Some(state), because).await
    }

    /// Writes state and reason, then CAPM3's status where it has changed.
    pub(super) async fn record_because(
        &mut self,
        state: Option<&State>,
        because: &Because,
    ) -> Result<(), Setback> {
        let annotation = Annotation {
            state: state.cloned(),
            reason: because.label().into(),
            message: because.to_string(),
        };
        let text =
            serde_json::to_string(&annotation).map_err(|e| ApiError::other(STATE_ANNOTATION, e))?;
        let entry = self
            .context
            .index
            .remediation(&self.key)
            .ok_or(Setback::Gone)?;
        let patch = json!({ "metadata": {
            "resourceVersion": entry.object.metadata.resource_version,
            "annotations": { STATE_ANNOTATION: text },
        }});
        self.patch("remediation_state", patch, false).await?;
        self.recorded.state = state.cloned();
        self.recorded.shown = Some((because.label(), because.to_string()));
        if let Some(state) = state {
            self.record_status(state).await?;
        }
        Ok(())
    }

    async fn record_status(&mut self, state: &State) -> Result<(), Setback> {
        let mut status = json!({
            "phase": state.phase().as_str(),
            "lastRemediated": seconds(state.attempt_started),
        });
        if state.retry_count() > 0
            && let Some(fields) = status.as_object_mut()
        {
            fields.insert("retryCount".into(), state.retry_count().into());
        }
        if self.recorded.status.as_ref() == Some(&status) {
            return Ok(());
        }
        self.patch(
            "remediation_status",
            json!({ "status": status.clone() }),
            true,
        )
        .await?;
        self.recorded.status = Some(status);
        Ok(())
    }

    /// Patches the object; takes the answer into the index, so that the next look sees it.
    pub(super) async fn patch(
        &mut self,
        operation: &'static str,
        body: Value,
        status: bool,
    ) -> Result<(), Setback> {
        let what = format!("Metal3Remediation {}", self.key);
        let resource = self
            .context
            .served
            .known(Kind::Metal3Remediation)
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let objects = api(&self.context.client, &resource, &self.key.namespace);
        let (name, patched) = (self.key.name.clone(), objects.clone());
        let written = self
            .context
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
                self.take_in(object);
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(Setback::Gone),
            Err(error) => {
                // Changed by another meanwhile, or by us without our hearing of it: look again.
                let fresh = optional(call(what, objects.get(&self.key.name)).await)?;
                self.take_in(fresh.ok_or(Setback::Gone)?);
                self.recorded.loaded = false;
                Err(error.into())
            }
        }
    }

    fn take_in(&self, mut object: DynamicObject) {
        object.metadata.managed_fields = None;
        self.context.index.apply(Kind::Metal3Remediation, object);
    }
}

/// As Kubernetes writes a time: whole seconds.
pub(super) fn seconds(at: jiff::Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}
