//! The state of a remediation in its object.
//!
//! Owns where it stands: in an annotation beside CAPM3's status fields, or in the status of our own
//! kind. A write fails when the object is not as it was last seen, so that a process that leads no
//! more cannot set a state back.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_api::{
    kinds::power_remediation::PowerRemediationStatus,
    names::{BLOCKED_ANNOTATION, STATE_ANNOTATION},
};
use rackhand_core::remediation::{Because, Phase, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    engine::{Engine, Setback},
    request::{RequestView, finalizer},
    snapshot::only_if_unchanged,
    status::{Facts, merge_diff, status, unreadable},
};
use crate::{
    api::{ApiError, call, optional},
    index::Entry,
    object::{Kind, api},
};

/// What stands in the object, as far as this process knows.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) loaded: bool,
    pub(super) state: Option<State>,
    /// What was shown last.
    pub(super) shown: Option<Shown>,
    status: Option<Value>,
}

/// What a person is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) label: &'static str,
    pub(super) message: String,
    /// When the time of the step is over; `None`: the message says who ends it.
    pub(super) until: Option<Timestamp>,
    pub(super) overdue: bool,
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
    /// For people: when the time of the step is over; absent: the message says who ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

impl Annotation {
    fn new(state: Option<&State>, because: &Because, until: Option<Timestamp>) -> Self {
        Self {
            state: state.cloned(),
            reason: because.label().into(),
            message: because.to_string(),
            until,
        }
    }
}

/// Reads the state out of a request; `None`: nothing was done yet.
///
/// # Errors
/// It does not read. What was done is not known then: nothing may be done on a guess (F8).
pub(crate) fn stored_state(kind: Kind, object: &DynamicObject) -> Result<Option<State>, String> {
    let advice = "make sure that the host is on and the node carries no out-of-service taint, then \
                  remove the finalizer and delete the object";
    if kind == Kind::PowerRemediation {
        let cursor = object.data.get("status").and_then(|s| s.get("cursor"));
        return cursor
            .filter(|c| !c.is_null())
            .map(|c| serde_json::from_value::<State>(c.clone()))
            .transpose()
            .map_err(|e| format!("status.cursor: {e}; {advice}"));
    }
    let annotations = object.metadata.annotations.as_ref();
    match annotations.and_then(|a| a.get(STATE_ANNOTATION)) {
        None => Ok(None),
        Some(text) => serde_json::from_str::<Annotation>(text)
            .map(|read| read.state)
            .map_err(|e| format!("annotation {STATE_ANNOTATION}: {e}; {advice}")),
    }
}

impl Engine {
    /// Reads the state at the start, and after a write that did not go through.
    pub(super) fn load(&mut self) -> Result<(), Setback> {
        let entry = self.context.index.request(&self.id).ok_or(Setback::Gone)?;
        if entry.object.metadata.uid.as_deref() != Some(&self.uid) {
            return Err(Setback::Gone);
        }
        self.snapshot.request = Some(entry.clone());
        if self.recorded.loaded {
            return Ok(());
        }
        match stored_state(self.id.kind, &entry.object) {
            Ok(Some(state)) => self.recorded.state = Some(state),
            // What this process wrote itself is written again, see `restore`.
            _ if self.recorded.state.is_some() => {}
            Ok(None) => {}
            Err(why) => return Err(ApiError::other(self.id.to_string(), why).into()),
        }
        self.recorded.loaded = true;
        Ok(())
    }

    /// Writes the state again where somebody has removed or damaged it: this process leads, and knows
    /// what it wrote.
    pub(super) async fn restore(&mut self, now: Timestamp) -> Result<(), Setback> {
        let Some(state) = self.recorded.state.clone() else {
            return Ok(());
        };
        let entry = self.snapshot.request.clone().ok_or(Setback::Gone)?;
        if matches!(stored_state(self.id.kind, &entry.object), Ok(Some(_))) {
            return Ok(());
        }
        self.recorded.status = None;
        self.record(Some(&state), &Because::Working, None, now)
            .await?;
        let message = "the state of this remediation was removed or damaged; it was written again";
        self.tell(true, "StateRestored", message);
        Ok(())
    }

    /// Writes state and reason, then CAPM3's status where it has changed.
    pub(super) async fn record(
        &mut self,
        state: Option<&State>,
        because: &Because,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), Setback> {
        if self.id.kind == Kind::PowerRemediation {
            self.record_power(state, because, until, now).await?;
        } else {
            self.record_metal3(state, because, until).await?;
        }
        let finalizer = self.snapshot.request.as_ref().is_some_and(|e| {
            let ours = finalizer(self.id.kind);
            e.object.finalizers().iter().any(|f| f == ours)
        });
        let ended = self.tally.wrote(state, because, finalizer);
        self.count(ended);
        self.recorded.state = state.cloned();
        self.recorded.shown = Some(Shown {
            label: because.label(),
            message: because.to_string(),
            until,
            overdue: until.is_some_and(|until| until <= now),
        });
        match state {
            Some(state) if self.id.kind == Kind::Metal3Remediation => {
                self.record_phase(state).await
            }
            None if self.id.kind == Kind::Metal3Remediation
                && matches!(because, Because::StateLost(_)) =>
            {
                self.record_failed().await
            }
            _ => Ok(()),
        }
    }

    /// All of it is one status, so all of it is one write.
    async fn record_power(
        &mut self,
        state: Option<&State>,
        because: &Because,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), Setback> {
        let entry = self.snapshot.request.clone().ok_or(Setback::Gone)?;
        let there = entry.object.data.get("status").cloned();
        let there = there.unwrap_or_else(|| json!({}));
        let old: PowerRemediationStatus = serde_json::from_value(there.clone()).unwrap_or_default();
        let facts = Facts {
            state,
            because,
            generation: entry.object.metadata.generation,
            node: self.node.as_deref(),
            held: self.held,
            until,
            now,
        };
        let new =
            serde_json::to_value(status(&old, &facts)).map_err(|e| ApiError::other("status", e))?;
        let patch = json!({ "status": merge_diff(&there, &new) });
        self.patch("remediation_state", patch, true).await
    }

    /// Says in our own kind's status why nothing is done, beside a cursor that does not read.
    pub(super) async fn show_unreadable(&mut self, because: &Because, now: Timestamp) {
        let Some(entry) = self.snapshot.request.clone() else {
            return;
        };
        self.context
            .metrics
            .blocked(&self.uid, Some(because.label()));
        if self.id.kind != Kind::PowerRemediation {
            let text = format!("{}: {because}", because.label());
            let patch = json!({ "metadata": { "annotations": { BLOCKED_ANNOTATION: text } } });
            self.patch("remediation_state", patch, false).await.ok();
            self.record_failed().await.ok();
            return;
        }
        let there = entry.object.data.get("status").cloned();
        let patch = json!({
            "status": unreadable(&there.unwrap_or_else(|| json!({})), because, now),
        });
        // Whoever reads the log and the Events learns it all the same.
        self.patch("remediation_state", patch, true).await.ok();
    }

    async fn record_metal3(
        &mut self,
        state: Option<&State>,
        because: &Because,
        until: Option<Timestamp>,
    ) -> Result<(), Setback> {
        let annotation = Annotation::new(state, because, until);
        let text =
            serde_json::to_string(&annotation).map_err(|e| ApiError::other(STATE_ANNOTATION, e))?;
        let entry = self.snapshot.request.clone().ok_or(Setback::Gone)?;
        let mut patch = json!({ "metadata": { "annotations": { STATE_ANNOTATION: text } } });
        if entry.object.annotations().contains_key(BLOCKED_ANNOTATION) {
            patch["metadata"]["annotations"][BLOCKED_ANNOTATION] = Value::Null;
        }
        self.patch("remediation_state", patch, false).await
    }

    /// Nobody knows what was done, and nothing goes on: whoever looks at the phase must see it.
    async fn record_failed(&mut self) -> Result<(), Setback> {
        let status = json!({ "phase": Phase::Failed.as_str() });
        if self.recorded.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let patch = json!({ "status": status.clone() });
        self.patch("remediation_status", patch, true).await?;
        self.recorded.status = Some(status);
        Ok(())
    }

    async fn record_phase(&mut self, state: &State) -> Result<(), Setback> {
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

    /// Patches the object if it is still as it was observed; takes the answer into the index, so
    /// that the next turn sees it.
    pub(super) async fn patch(
        &mut self,
        operation: &'static str,
        body: Value,
        status: bool,
    ) -> Result<(), Setback> {
        let what = self.id.to_string();
        let seen = self.snapshot.request.as_ref().ok_or(Setback::Gone)?;
        let body = only_if_unchanged(body, &seen.object);
        let resource = self
            .context
            .served
            .known(self.id.kind)
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let key = &self.id.key;
        let objects = api(&self.context.client, &resource, &key.namespace);
        let (name, patched) = (key.name.clone(), objects.clone());
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
                let fresh = optional(call(what, objects.get(&self.id.key.name)).await)?;
                self.take_in(fresh.ok_or(Setback::Gone)?);
                self.recorded.loaded = false;
                Err(error.into())
            }
        }
    }

    fn take_in(&mut self, mut object: DynamicObject) {
        object.metadata.managed_fields = None;
        self.snapshot.request = Some(Entry {
            view: RequestView::read(self.id.kind, &object).map(Arc::new),
            object: Arc::new(object.clone()),
        });
        self.context.index.apply(self.id.kind, object);
    }
}

/// As Kubernetes writes a time: whole seconds.
pub(super) fn seconds(at: jiff::Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use rackhand_core::remediation::Step;

    use super::*;

    #[test]
    fn l1_the_annotation_says_why_and_until_when_and_is_read_back() {
        let mut state = State::new(Timestamp::UNIX_EPOCH);
        state.step = Step::PoweringOn;
        let because = Because::HeldByOthers("reboot.metal3.io/firmware".into());
        for until in [None, Some(Timestamp::UNIX_EPOCH)] {
            let annotation = Annotation::new(Some(&state), &because, until);
            let value = serde_json::to_value(&annotation).unwrap();
            assert_eq!(value["reason"], "HeldByOthers");
            assert_eq!(value["message"], because.to_string());
            let said = value.get("until").and_then(Value::as_str);
            assert_eq!(said.is_some(), until.is_some());
            let object: DynamicObject = serde_json::from_value(json!({ "metadata": {
                "name": "m", "annotations": { STATE_ANNOTATION: value.to_string() },
            }}))
            .unwrap();
            let stored = stored_state(Kind::Metal3Remediation, &object).unwrap();
            assert_eq!(stored.as_ref(), Some(&state));
        }
    }
}
