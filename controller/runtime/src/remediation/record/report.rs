//! Reports what was decided: the state with its Events and metrics, the reason of a wait, failures, and the outcome.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_core::remediation::{Decision, Progress, Reason, State, Step, is_kept};

use super::{
    Scope, StateRecorder,
    displayed_state::{self, DisplayedReason},
    history::{self, outcome_label},
    outcome_metrics::CountedOutcome,
    remediation_state::record_in_index,
};

use crate::{
    history::Finish,
    hosts::ActiveRemediations,
    remediation::{engine::ReconcileError, metrics::BlockedRemediation, scope::Memory},
    store::{api::ApiError, clock, object::Key},
};

impl StateRecorder {
    /// Writes the state into the object, before anything is done because of it (F2).
    pub(in crate::remediation) async fn write_decision(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        decision: &Decision,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let before = memory.shell.state.clone();
        self.record(
            scope,
            memory,
            Some(&decision.state),
            &decision.reason,
            until,
            now,
        )
        .await?;
        let created = memory.created().unwrap_or(now);
        scope
            .context
            .history
            .step(&scope.uid, created, &decision.state);
        if is_kept(decision.state.step) {
            history::record_history(scope, memory, None);
        }
        let mut took = String::new();
        if let Some(before) = before.filter(|b| b.step != decision.state.step) {
            let time = Duration::try_from(now.duration_since(before.since)).unwrap_or_default();
            let metrics = &scope.context.metrics;
            metrics.observe_step(before.step.label(), time);
            took = format!(
                " ({} took {:.1} s)",
                before.step.label(),
                time.as_secs_f64()
            );
            if decision.state.step == Step::Fenced {
                let failed = decision.state.failed().is_some();
                let outcome = if failed { "kept_off" } else { "fenced" };
                metrics.count_outcome(outcome, decision.reason.label());
            }
        }
        match decision.reason {
            Reason::FenceViolated(_) | Reason::HoldLost(_) => {
                scope
                    .context
                    .metrics
                    .count_violation(decision.reason.label());
            }
            Reason::FenceUnconfirmed(_) if decision.state.step == Step::AwaitingConfirmation => {
                scope.context.metrics.count_unconfirmed();
            }
            _ => {}
        }
        show(scope, memory, &decision.state, &decision.reason);
        for note in &decision.notes {
            scope.tell(note, &took);
        }
        Ok(())
    }

    /// Reports the reason of a wait, once per reason. Returns when the copy of the state, or the reason, is written, if it
    /// is not due yet.
    pub(in crate::remediation) async fn report_reason(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        reason: &Reason,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, ReconcileError> {
        let state = memory.shell.state.clone();
        if let Some(state) = &state {
            show(scope, memory, state, reason);
        }
        let new = DisplayedReason::new(reason, until, now);
        let old = self.recorded.shown.clone();
        if old.as_ref() == Some(&new) && self.recorded.is_copied(state.as_ref()) {
            return Ok(None);
        }
        let begun = begun(&scope.context.active);
        let due = (self.recorded).copy_is_due_at(state.as_ref(), reason, begun, now);
        if due.is_some() && !new.overdue {
            return Ok(due);
        }
        if scope.context.records.are_created()
            && let Some(due) = self.recorded.reason_is_due_at(state.as_ref(), now)
        {
            self.is_put_off = true;
            return Ok(Some(due));
        }
        let is_new = old.as_ref().map(|s| s.label) != Some(new.label);
        if reason.is_blocked() && is_new && !reason.is_reported_once_for_many() {
            scope.emit_event(true, reason.label(), &new.message);
        }
        if new.overdue && old.is_some_and(|s| !s.overdue) {
            let step = state.as_ref().map_or("Pending", |s| s.step.label());
            let message = format!("{step} takes longer than it should: {reason}");
            scope.emit_event(true, "Overdue", &message);
        }
        self.record(scope, memory, state.as_ref(), reason, until, now)
            .await?;
        Ok(None)
    }

    /// Reports repeated failures in the object, if it can be written (L1).
    pub(in crate::remediation) async fn report_failure(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        until: Option<Timestamp>,
        error: &ApiError,
    ) {
        let now = clock::monotonic_now();
        if displayed_state::load(scope, memory).is_err() {
            return;
        }
        // A recorded state is the only record of what was done and is not overwritten.
        let reason = match record_in_index(scope, memory) {
            Err(why) if memory.shell.state.is_none() => {
                let reason = Reason::StateUnreadable(why);
                self.show_unreadable(scope, memory, &reason, now).await;
                reason
            }
            _ => {
                let reason = Reason::ActionFailed(error.to_string());
                let is_known = memory.shell.loaded || memory.shell.state.is_some();
                if is_known
                    && self
                        .report_reason(scope, memory, &reason, until, now)
                        .await
                        .is_ok()
                {
                    return;
                }
                reason
            }
        };
        scope.emit_event(true, reason.label(), &reason.to_string());
    }
}

/// How many remediations have begun. Others may wait for weeks, and are no work for the API server.
fn begun(active: &ActiveRemediations) -> usize {
    let active = active.lock();
    let begun = active.values().filter(|r| r.progress == Progress::Begun);
    begun.count()
}

/// Updates the metrics of steps and blocks.
pub(in crate::remediation) fn show(scope: &Scope, memory: &Memory, state: &State, reason: &Reason) {
    let unfinished = !state.step.is_terminal();
    let blocked = unfinished && reason.is_blocked();
    let metrics = &scope.context.metrics;
    metrics.set_blocked(
        &scope.uid,
        blocked.then(|| blocked_by(scope, memory, reason)),
    );
    let created = memory.created().filter(|_| unfinished);
    metrics.set_step(&scope.uid, created.map(|at| (state.step.label(), at)));
}

/// The labels of a blocked remediation.
pub(in crate::remediation) fn blocked_by(
    scope: &Scope,
    memory: &Memory,
    reason: &Reason,
) -> BlockedRemediation {
    let Key { namespace, name } = scope.id.key.clone();
    BlockedRemediation {
        kind: scope.id.kind.kind(),
        namespace,
        name,
        node: memory.node.clone().unwrap_or_default(),
        reason: reason.label(),
    }
}

/// Counts the outcome, and submits it to the history of the host.
pub(in crate::remediation) fn count(scope: &Scope, memory: &Memory, ended: Option<CountedOutcome>) {
    let Some((outcome, reason)) = ended else {
        return;
    };
    let label = outcome_label(outcome);
    tracing::info!(remediation = %scope.id, outcome = label, "remediation finished");
    history::record_history(scope, memory, Some((label, reason)));
    let finish = Finish {
        remediation: scope.id.to_string(),
        state: memory.shell.state.as_ref(),
        at: clock::monotonic_now(),
        outcome: label,
        reason,
    };
    scope.context.history.finish(&scope.uid, finish);
    let metrics = &scope.context.metrics;
    metrics.count_outcome(label, reason);
    if let Some(created) = memory.created() {
        let took = clock::monotonic_now().duration_since(created);
        metrics.observe_end(label, Duration::try_from(took).unwrap_or_default());
    }
}
