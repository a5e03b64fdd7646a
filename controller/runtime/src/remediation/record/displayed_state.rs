//! The copy of the state of a remediation in its own object, for people, with reason and deadline.
//!
//! It stands in an annotation beside CAPM3's status fields, or in the status of our own kind, where others may
//! write as well: nothing is begun, and nothing goes on, because of it (F15). It is written before the record, and
//! only if the object has not changed since it was observed, so that a decision which the change would have altered
//! is not recorded.

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    kinds::power_remediation::PowerRemediationStatus,
    names::{BLOCKED_ANNOTATION, STATE_ANNOTATION},
};
use rackhand_core::remediation::{
    Phase, Reason, State, copy_is_due_at, is_passed_at_once, on_wall, reason_is_due_at,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    leader::writer::Lane,
    remediation::{
        engine::ReconcileError,
        record::{
            Scope, StateRecorder,
            remediation_state::{self, is_recorded},
            report,
            state_format::{self, StateError},
            status::{Facts, merge_diff, status, unreadable},
        },
        scope::Memory,
    },
    store::{
        api::ApiError,
        clock::{self, whole_seconds},
        index::Index,
        live_remediations::finalizer,
        object::Kind,
    },
};

/// Reason and status in the object, as last read or written by this process.
#[derive(Default)]
pub(in crate::remediation) struct RecordedStatus {
    /// The reason that was reported last.
    pub(in crate::remediation) shown: Option<DisplayedReason>,
    /// The state of which the object has a copy, if this process has written it.
    copied: Option<State>,
    /// The first wait since a state was recorded without its copy.
    waits_since: Option<Timestamp>,
    status: Option<Value>,
}

impl RecordedStatus {
    /// Whether the object has a copy of this state, as far as this process knows.
    pub(super) fn is_copied(&self, state: Option<&State>) -> bool {
        self.copied.as_ref() == state
    }

    /// When the copy of this state and reason is due while the remediation waits, if the state was recorded without it, or
    /// the object shows a reason that usually passes at once; `None`: now, or the object has one. `begun`: how many
    /// remediations have begun.
    pub(super) fn copy_is_due_at(
        &mut self,
        state: Option<&State>,
        reason: &Reason,
        begun: usize,
        now: Timestamp,
    ) -> Option<Timestamp> {
        // A process that has just started tells what it does.
        self.copied.as_ref()?;
        let shown = self.shown.as_ref();
        let passes = shown.is_some_and(|shown| shown.label == Reason::Tainting.label());
        let state = state.filter(|state| passes || self.copied.as_ref() != Some(state))?;
        let since = *self.waits_since.get_or_insert(now);
        copy_is_due_at(state, reason, begun, since, now)
    }

    /// When a reason is due that is to be written while remediations are created or deleted; `None`: now.
    pub(super) fn reason_is_due_at(
        &mut self,
        state: Option<&State>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        reason_is_due_at(state, *self.waits_since.get_or_insert(now), now)
    }
}

/// A reason as reported to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::remediation) struct DisplayedReason {
    pub(super) label: &'static str,
    pub(in crate::remediation) message: String,
    /// The deadline of the step; `None` if the message names what ends it.
    pub(super) until: Option<Timestamp>,
    pub(super) overdue: bool,
    /// Whether somebody has to act.
    blocked: bool,
}

impl DisplayedReason {
    pub(super) fn new(reason: &Reason, until: Option<Timestamp>, now: Timestamp) -> Self {
        Self {
            label: reason.label(),
            message: reason.to_string(),
            until,
            overdue: until.is_some_and(|until| until <= now),
            blocked: reason.is_blocked(),
        }
    }
}

/// The deadline of the step and the time of the decision, by the clock of the decisions.
#[derive(Clone, Copy)]
struct StepTime {
    until: Option<Timestamp>,
    now: Timestamp,
    /// How far the wall clock, which people read, is ahead of it.
    ahead: SignedDuration,
}

/// The contents of the annotation.
#[derive(Serialize, Deserialize)]
struct Annotation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
    /// CamelCase reason, for users.
    reason: String,
    /// Message, for users.
    message: String,
    /// The deadline of the step, for users; absent if the message names what ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

impl Annotation {
    fn new(
        state: Option<&State>,
        reason: &Reason,
        time: StepTime,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            state: state.map(state_format::encode).transpose()?,
            reason: reason.label().into(),
            message: reason.to_string(),
            until: time.until.map(|until| on_wall(until, time.ahead)),
        })
    }
}

/// The copy of the state in the object, where nothing is recorded about the remediation.
pub(in crate::remediation) fn unrecorded_copy(
    index: &Index,
    kind: Kind,
    object: &DynamicObject,
) -> Option<State> {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    if is_recorded(index, uid) {
        return None;
    }
    displayed_state(kind, object).ok().flatten()
}

/// Reads the copy in a remediation; `None` if it has none.
///
/// # Errors
/// It cannot be parsed.
pub(in crate::remediation) fn displayed_state(
    kind: Kind,
    object: &DynamicObject,
) -> Result<Option<State>, String> {
    if kind == Kind::PowerRemediation {
        let cursor = object.data.get("status").and_then(|s| s.get("cursor"));
        return state_format::decode(cursor).map_err(|e| format!("status.cursor: {e}"));
    }
    let annotations = object.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|a| a.get(STATE_ANNOTATION)) else {
        return Ok(None);
    };
    let read = serde_json::from_str::<Annotation>(text).map_err(StateError::from);
    let read = read.and_then(|annotation| state_format::decode(annotation.state.as_ref()));
    read.map_err(|e| format!("annotation {STATE_ANNOTATION}: {e}"))
}

impl StateRecorder {
    /// Writes the state again if somebody removed or damaged it, or its copy, because this process leads and
    /// knows what it wrote.
    pub(in crate::remediation) async fn restore(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        if memory.shell.state.is_none() {
            return Ok(());
        }
        let entry = memory.snapshot.object.clone().ok_or(ReconcileError::Gone)?;
        let lost = memory
            .shell
            .state_to_restore(&remediation_state::record_in_index(scope, memory))
            .cloned();
        // Another text at the start is that of a leader that ended before it had recorded it.
        let is_told = lost.is_some() || self.recorded.shown.is_some();
        let displayed = displayed_state(scope.id.kind, &entry.object).ok().flatten();
        let copied = self.recorded.copied.as_ref();
        let wanted = copied.or(memory.shell.state.as_ref());
        let changed = || {
            let state = memory.shell.state.clone();
            state.filter(|_| wanted != displayed.as_ref())
        };
        let Some(state) = lost.or_else(changed) else {
            return Ok(());
        };
        self.recorded.status = None;
        self.record(scope, memory, Some(&state), &Reason::Working, None, now)
            .await?;
        if is_told {
            let message = "the state of this remediation, or its copy, was removed or changed by another; it was \
                           written again";
            scope.emit_event(true, "StateRestored", message);
        }
        Ok(())
    }

    /// Writes state and reason, then CAPM3's status if it has changed. The copy of a state that is passed at once is
    /// written when the remediation waits there.
    pub(in crate::remediation) async fn record(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        state: Option<&State>,
        reason: &Reason,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let time = StepTime {
            until,
            now,
            ahead: clock::wall_ahead(),
        };
        let before = memory.shell.state.as_ref();
        // Nobody is told to act on what is over.
        let shows_blocked = self.recorded.shown.as_ref().is_some_and(|s| s.blocked);
        let is_passed = state.filter(|_| !shows_blocked).is_some_and(|after| {
            let goes_with_finalizer = ends_with_finalizer(scope, memory, after);
            is_passed_at_once(before, after, reason, goes_with_finalizer)
        });
        self.recorded.waits_since = None;
        if is_passed {
            // Recorded below. The object still shows what was recorded before, maybe by an earlier leader.
            if self.recorded.copied.is_none() {
                self.recorded.copied = before.cloned();
            }
        } else if scope.id.kind == Kind::PowerRemediation {
            record_power(scope, memory, state, reason, time).await?;
            self.recorded.copied = state.cloned();
        } else {
            record_metal3(scope, memory, state, reason, time).await?;
            self.recorded.copied = state.cloned();
        }
        if let Some(state) = state {
            let is_first = memory.shell.state.is_none();
            let written = remediation_state::write_record(scope, memory, state).await;
            if written.is_err() && is_first {
                // Where there is a record already, its copy is not this one.
                self.recorded.copied = None;
            }
            written?;
        }
        let finalizer = memory.snapshot.object.as_ref().is_some_and(|e| {
            let ours = finalizer(scope.id.kind);
            e.object.finalizers().iter().any(|f| f == ours)
        });
        let ended = self.outcome_metrics.state_written(state, reason, finalizer);
        report::count(scope, memory, ended);
        memory.shell.written(state);
        self.recorded.shown = Some(DisplayedReason::new(reason, until, now));
        match state {
            Some(state) if scope.id.kind == Kind::Metal3Remediation => {
                self.record_phase(scope, memory, state, time.ahead).await
            }
            None if scope.id.kind == Kind::Metal3Remediation
                && matches!(reason, Reason::StateLost(_)) =>
            {
                self.record_failed(scope, memory).await
            }
            _ => Ok(()),
        }
    }

    /// The copy of the state that is recorded last, to be written with the removal of our finalizer; `None` if the
    /// object has it, or shows it in its status.
    pub(in crate::remediation) fn copy_for_the_end(
        &self,
        scope: &Scope,
        memory: &Memory,
        reason: &Reason,
        now: Timestamp,
    ) -> Result<Option<Value>, ReconcileError> {
        let state = memory.shell.state.as_ref();
        if scope.id.kind != Kind::Metal3Remediation || self.recorded.is_copied(state) {
            return Ok(None);
        }
        let time = StepTime {
            until: None,
            now,
            ahead: clock::wall_ahead(),
        };
        Ok(Some(metal3_copy(memory, state, reason, time)?))
    }

    /// The object has a copy of the state that is recorded last.
    pub(in crate::remediation) fn copied(&mut self, memory: &Memory) {
        self.recorded.copied.clone_from(&memory.shell.state);
    }

    /// Reports a stored state that cannot be parsed, which is left as it is.
    pub(in crate::remediation) async fn show_unreadable(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        reason: &Reason,
        now: Timestamp,
    ) {
        let Some(entry) = memory.snapshot.object.clone() else {
            return;
        };
        scope
            .context
            .metrics
            .set_blocked(&scope.uid, Some(report::blocked_by(scope, memory, reason)));
        if scope.id.kind != Kind::PowerRemediation {
            let text = format!("{}: {reason}", reason.label());
            let body = json!({ "metadata": { "annotations": { BLOCKED_ANNOTATION: text } } });
            scope
                .context
                .records
                .patch(scope, memory, "remediation_state", body, false)
                .await
                .ok();
            self.record_failed(scope, memory).await.ok();
            return;
        }
        let there = entry.object.data.get("status").cloned();
        let body = json!({
            "status": unreadable(&there.unwrap_or_else(|| json!({})), reason, now, clock::wall_ahead()),
        });
        // The log and the Events report it as well.
        scope
            .context
            .records
            .patch(scope, memory, "remediation_state", body, true)
            .await
            .ok();
    }

    /// Sets phase Failed for a remediation whose stored state is lost or cannot be parsed.
    async fn record_failed(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
    ) -> Result<(), ReconcileError> {
        let status = json!({ "phase": Phase::Failed.as_str() });
        if self.recorded.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let body = json!({ "status": status.clone() });
        scope
            .context
            .records
            .patch(scope, memory, "remediation_status", body, true)
            .await?;
        self.recorded.status = Some(status);
        Ok(())
    }

    async fn record_phase(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        state: &State,
        ahead: SignedDuration,
    ) -> Result<(), ReconcileError> {
        let status = metal3_status(state, ahead);
        if self.recorded.status.as_ref() == Some(&status) {
            return Ok(());
        }
        scope
            .context
            .records
            .patch(
                scope,
                memory,
                "remediation_status",
                json!({ "status": status.clone() }),
                true,
            )
            .await?;
        self.recorded.status = Some(status);
        Ok(())
    }
}

/// Takes the latest version of the object.
pub(in crate::remediation) fn load(
    scope: &Scope,
    memory: &mut Memory,
) -> Result<(), ReconcileError> {
    let entry = scope
        .context
        .index
        .remediation(&scope.id)
        .ok_or(ReconcileError::Gone)?;
    if entry.object.metadata.uid.as_deref() != Some(&scope.uid) {
        return Err(ReconcileError::Gone);
    }
    memory.snapshot.object = Some(entry);
    Ok(())
}

/// CAPM3's status of a Metal3Remediation.
fn metal3_status(state: &State, ahead: SignedDuration) -> Value {
    let mut status = json!({
        "phase": state.phase().as_str(),
        "lastRemediated": whole_seconds(on_wall(state.attempt.started, ahead)),
    });
    if state.retry_count() > 0
        && let Some(fields) = status.as_object_mut()
    {
        fields.insert("retryCount".into(), state.retry_count().into());
    }
    status
}

/// Writes the status of our own kind in one patch.
async fn record_power(
    scope: &Scope,
    memory: &mut Memory,
    state: Option<&State>,
    reason: &Reason,
    time: StepTime,
) -> Result<(), ReconcileError> {
    let entry = memory.snapshot.object.clone().ok_or(ReconcileError::Gone)?;
    let there = entry.object.data.get("status").cloned();
    let there = there.unwrap_or_else(|| json!({}));
    let old: PowerRemediationStatus = serde_json::from_value(there.clone()).unwrap_or_default();
    let facts = Facts {
        state,
        reason,
        generation: entry.object.metadata.generation,
        node: memory.node.as_deref(),
        held: memory.held,
        until: time.until,
        now: time.now,
        ahead: time.ahead,
    };
    let new =
        serde_json::to_value(status(&old, &facts)).map_err(|e| ApiError::other("status", e))?;
    let body = json!({ "status": merge_diff(&there, &new) });
    let records = &scope.context.records;
    let what = ("remediation_state", lane_of(state));
    records.patch_on(scope, memory, what, body, true).await
}

/// Whether the end is followed by the removal of our finalizer from an object whose copy is an annotation.
fn ends_with_finalizer(scope: &Scope, memory: &Memory, end: &State) -> bool {
    let ours = finalizer(scope.id.kind);
    let object = memory.snapshot.object.as_ref();
    let has_ours = object.is_some_and(|e| e.object.finalizers().iter().any(|f| f == ours));
    scope.id.kind == Kind::Metal3Remediation && has_ours && end.finalizer && end.rival.is_none()
}

async fn record_metal3(
    scope: &Scope,
    memory: &mut Memory,
    state: Option<&State>,
    reason: &Reason,
    time: StepTime,
) -> Result<(), ReconcileError> {
    let body = metal3_copy(memory, state, reason, time)?;
    let records = &scope.context.records;
    let what = ("remediation_state", lane_of(state));
    records.patch_on(scope, memory, what, body, false).await
}

/// The class of the writes of a state and its reason: one that nothing is recorded of delays none that has begun.
fn lane_of(state: Option<&State>) -> Lane {
    match state {
        Some(_) => Lane::Remediation,
        None => Lane::Reports,
    }
}

/// The patch of a Metal3Remediation with the copy of a state.
fn metal3_copy(
    memory: &Memory,
    state: Option<&State>,
    reason: &Reason,
    time: StepTime,
) -> Result<Value, ReconcileError> {
    let entry = memory.snapshot.object.clone().ok_or(ReconcileError::Gone)?;
    let there = entry.object.annotations().get(STATE_ANNOTATION);
    let there = there.and_then(|text| serde_json::from_str::<Annotation>(text).ok());
    let text = Annotation::new(state, reason, time)
        .map(|new| Annotation {
            // What was done without a record remains to be seen.
            state: new.state.or_else(|| there?.state),
            ..new
        })
        .and_then(|annotation| serde_json::to_string(&annotation))
        .map_err(|e| ApiError::other(STATE_ANNOTATION, e))?;
    let mut body = json!({ "metadata": { "annotations": { STATE_ANNOTATION: text } } });
    if entry.object.annotations().contains_key(BLOCKED_ANNOTATION) {
        body["metadata"]["annotations"][BLOCKED_ANNOTATION] = Value::Null;
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use rackhand_core::remediation::Step;

    use super::*;

    #[test]
    fn l1_state_annotation_holds_reason_and_deadline_and_round_trips() {
        let mut state = State::new(Timestamp::UNIX_EPOCH);
        state.step = Step::PoweringOn;
        let reason = Reason::HeldByOthers("reboot.metal3.io/firmware".into());
        for until in [None, Some(Timestamp::UNIX_EPOCH)] {
            let time = StepTime {
                until,
                now: Timestamp::UNIX_EPOCH,
                ahead: SignedDuration::ZERO,
            };
            let annotation = Annotation::new(Some(&state), &reason, time).unwrap();
            let value = serde_json::to_value(&annotation).unwrap();
            assert_eq!(value["reason"], "HeldByOthers");
            assert_eq!(value["message"], reason.to_string());
            let said = value.get("until").and_then(Value::as_str);
            assert_eq!(said.is_some(), until.is_some());
            let object: DynamicObject = serde_json::from_value(json!({ "metadata": {
                "name": "m", "annotations": { STATE_ANNOTATION: value.to_string() },
            }}))
            .unwrap();
            let displayed = displayed_state(Kind::Metal3Remediation, &object).unwrap();
            assert_eq!(displayed.as_ref(), Some(&state));
        }
    }

    #[test]
    fn times_of_a_metal3_remediation_follow_a_step_of_the_wall_clock() {
        let state = State::new(Timestamp::UNIX_EPOCH);
        let hour = SignedDuration::from_hours(1);
        let time = StepTime {
            until: Some(Timestamp::UNIX_EPOCH),
            now: Timestamp::UNIX_EPOCH,
            ahead: hour,
        };
        let annotation = Annotation::new(Some(&state), &Reason::Working, time).unwrap();
        assert_eq!(annotation.until, Some(Timestamp::UNIX_EPOCH + hour));
        let status = metal3_status(&state, hour);
        assert_eq!(status["lastRemediated"], "1970-01-01T01:00:00Z");
        // The state itself keeps the clock of the decisions.
        let decoded = state_format::decode(annotation.state.as_ref()).unwrap();
        assert_eq!(decoded, Some(state));
    }
}
