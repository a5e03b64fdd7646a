//! The loop of one remediation: observe, decide, write or act, wait.
//!
//! Invariant: no command is carried out before the state that justifies it is written.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_api::views::ViewError;
use rackhand_core::{
    explanation::{RemediationFacts, observed},
    power_policy::HostWorkload,
    remediation::{
        Command, Decision, FAILURES_TOLD, Next, Observation, Pace, Reason, Shell, State, Step,
        Turn, step,
    },
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    displayed_state::{DisplayedReason, RecordedStatus},
    history::{Finish, outcome_label},
    metrics::BlockedRemediation,
    observe::Observed,
    operation::OperationStream,
    outcome_metrics::{CountedOutcome, OutcomeMetrics},
    record::Record,
    snapshot::Snapshot,
    wakeup::WatchInterest,
};
use crate::{
    clusters::RetainedConnection,
    store::{api::ApiError, clock, object::Key, request::RequestId, watch::pause},
};

/// Carries out one remediation, until it has ended.
pub(super) struct Engine {
    pub(super) context: Arc<Context>,
    pub(super) id: RequestId,
    pub(super) uid: String,
    pub(super) wake: Arc<Notify>,
    pub(super) interest: Arc<Mutex<WatchInterest>>,
    /// What is remembered between observations.
    pub(super) shell: Shell,
    /// Reason and status in the object.
    pub(super) recorded: RecordedStatus,
    /// The RemediationState.
    pub(super) record: Record,
    /// The objects that the current decision is based on.
    pub(super) snapshot: Snapshot,
    /// The events of the operation that the shell follows.
    pub(super) events: Option<OperationStream>,
    /// The Machine, Node and hold key as last observed, for the status and the escalation.
    pub(super) machine: Option<Key>,
    pub(super) node: Option<String>,
    pub(super) held: bool,
    /// Entries of inventories that do not count, as logged last.
    pub(super) ignored: Vec<String>,
    pub(super) outcome_metrics: OutcomeMetrics,
    /// What waits for the host, and when that was read.
    pub(super) host_workload: Option<(Timestamp, HostWorkload)>,
    /// Keeps the connection to the workload cluster.
    pub(super) connection: Option<RetainedConnection>,
    /// The deadline of the current step.
    until: Option<Timestamp>,
    /// When the Machine and the BareMetalHost were read for the policies.
    pub(super) labels_read: Option<Instant>,
    /// Why the spec cannot be read, as reported last.
    pub(super) unread_spec: Option<ViewError>,
}

/// Why an iteration failed.
pub(super) enum ReconcileError {
    /// The object is gone.
    Gone,
    /// Retry with backoff.
    Failed(ApiError),
}

impl From<ApiError> for ReconcileError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// Whether the decision holds the host: by the hold key, or by the power-off where there is no BareMetalHost.
fn takes_hold(state: Option<&State>, decision: &Decision) -> bool {
    let holding = state.is_some_and(|s| s.step == Step::Holding);
    holding
        && (decision.next == Next::Do(Command::AddHold) || decision.state.step == Step::PoweringOff)
}

impl Engine {
    pub(super) fn new(
        context: Arc<Context>,
        id: RequestId,
        uid: String,
        wake: Arc<Notify>,
        interest: Arc<Mutex<WatchInterest>>,
    ) -> Self {
        Self {
            context,
            id,
            shell: Shell::new(uid.clone()),
            uid,
            wake,
            interest,
            recorded: RecordedStatus::default(),
            record: Record::default(),
            snapshot: Snapshot::default(),
            events: None,
            outcome_metrics: OutcomeMetrics::default(),
            host_workload: None,
            connection: None,
            until: None,
            labels_read: None,
            unread_spec: None,
            machine: None,
            node: None,
            held: false,
            ignored: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let run_once = tokio::select! {
                () = stop.cancelled() => break,
                run_once = self.run_once() => run_once,
            };
            let (turn, error) = match run_once {
                Ok(Iteration::Turn(turn)) => (turn, None),
                Ok(Iteration::Done) | Err(ReconcileError::Gone) => break,
                Err(ReconcileError::Failed(error)) => (Turn::Failed, Some(error)),
            };
            let pace = self.shell.turned(turn, clock::monotonic_now());
            if let Some(error) = error {
                let failures = self.shell.failures;
                if error.is_conflict() && failures < FAILURES_TOLD {
                    // Somebody else wrote the object first: the next iteration reads it again.
                    tracing::debug!(remediation = %self.id, %error, failures, "not carried out; trying again");
                } else {
                    tracing::warn!(remediation = %self.id, %error, failures, "not carried out; trying again");
                }
                if failures == FAILURES_TOLD {
                    self.report_failure(&error).await;
                }
            }
            let stopped = match pace {
                Pace::Now => false,
                Pace::Pause(wait) => pause(&stop, wait).await,
                Pace::Sleep(longest) => self.sleep(longest, &stop).await,
            };
            if stopped {
                break;
            }
        }
        // The deletion may be observed before the response to the patch that caused it.
        if matches!(self.load(), Err(ReconcileError::Gone)) {
            let ended = self.outcome_metrics.deleted(self.shell.state.as_ref());
            self.count(ended);
            self.delete_record().await;
        }
        self.context.live.remove(&self.id);
        self.context.live.history.forget(&self.uid);
        self.context.active.lock().remove(&self.uid);
        self.context.metrics.forget(&self.uid);
    }

    pub(super) async fn run_once(&mut self) -> Result<Iteration, ReconcileError> {
        self.load()?;
        self.load_state().await?;
        // Taken before the observation, which may take seconds: a cluster that answers slowly must
        // not make every reading of the BMC too old.
        let now = clock::monotonic_now();
        self.restore(now).await?;
        let seen = match self.observe(now).await? {
            Ok(seen) => seen,
            Err(reason) => {
                self.report_reason(&reason, self.until, now).await?;
                return Ok(Iteration::Turn(Turn::Wait(None)));
            }
        };
        let Some((observation, decision)) = self.decide(seen, now).await? else {
            return Ok(Iteration::Turn(Turn::Again));
        };
        self.until = self
            .shell
            .state
            .as_ref()
            .and_then(|s| observation.step_until(s));
        self.context.live.put(&self.id, self.facts(&observation));
        tracing::debug!(
            remediation = %self.id,
            step = decision.state.step.label(),
            reason = decision.reason.label(),
            next = ?decision.next,
            "decided"
        );
        match decision.next.clone() {
            Next::Write => {
                let until = observation.step_until(&decision.state);
                self.write(&decision, until, now).await?;
                Ok(Iteration::Turn(Turn::Again))
            }
            Next::Do(command) => {
                for note in &decision.notes {
                    self.emit_event(note.warning, note.reason, &note.message);
                }
                if let Command::RemoveFinalizer(outcome) = command {
                    self.outcome_metrics
                        .removing_finalizer(outcome, &decision.reason);
                }
                self.act(&command, &observation).await?;
                if matches!(command, Command::RemoveFinalizer(_)) {
                    let ended = self.outcome_metrics.finalizer_removed();
                    self.count(ended);
                }
                self.shell.done(&command);
                Ok(Iteration::Turn(Turn::Did(command)))
            }
            Next::Wait(until) => {
                self.report_reason(&decision.reason, self.until, now)
                    .await?;
                Ok(Iteration::Turn(Turn::Wait(Some(until))))
            }
            Next::Done(outcome) => {
                if !observation.request.deleting {
                    self.report_reason(&decision.reason, None, now).await?;
                }
                let state = self.shell.state.as_ref();
                let ended = self
                    .outcome_metrics
                    .finished(state, outcome, &decision.reason);
                if ended.is_none() {
                    self.record_earlier_end(decision.reason.label());
                }
                self.count(ended);
                Ok(Iteration::Done)
            }
        }
    }

    /// Decides, and decides again if a concurrent remediation prevents this one from beginning
    /// (F6). `None` if a live read has found what the decision considered absent (F12), so that a
    /// new observation is required.
    async fn decide(
        &mut self,
        seen: Observed,
        now: Timestamp,
    ) -> Result<Option<(Observation, Decision)>, ReconcileError> {
        let mut observation = seen.observation;
        let mut decision = step(&observation, self.shell.state.as_ref(), now);
        if self.find_unnamed_machine(&seen.target, &decision).await? {
            return Ok(None);
        }
        if takes_hold(self.shell.state.as_ref(), &decision)
            && !observation.request.paused
            && self.finds_pause(&seen.target).await?
        {
            return Ok(None);
        }
        let mut begins = decision.begins;
        if begins {
            match self.read_policies(&seen.policy_basis).await {
                Ok(false) => {}
                Ok(true) => return Ok(None),
                Err(why) => {
                    begins = false;
                    observation.conflict.get_or_insert(why);
                }
            }
        }
        let state = self.shell.state.as_ref();
        let mut quorum = self.quorum(&seen.target, seen.guard, begins, state).await;
        if let Some(plane) = &mut quorum {
            plane.overruled = seen.overrules_quorum;
        }
        let counted = seen.me.policy.counted();
        // Windows and freezes are of the calendar.
        let wall = clock::wall_now();
        let permission = self.resolve_concurrency(seen.me, begins, quorum, &seen.policies, wall);
        for warning in &permission.warnings {
            self.emit_event(true, "PolicyLimitExceeded", warning);
        }
        if let Some(overruled) = &permission.overruled {
            let message = format!("a person has overruled this: {overruled}");
            self.emit_event(true, "QuorumOverruled", &message);
        }
        if decision.begins && begins && decision.state.step == Step::Holding {
            decision.state.counted = Some(Box::new(counted));
        }
        if begins == decision.begins
            && (permission.refused.is_none() || observation.conflict.is_some())
        {
            return Ok(Some((observation, decision)));
        }
        if observation.conflict.is_none() {
            observation.conflict = permission.refused;
        }
        let decision = step(&observation, state, now);
        Ok(Some((observation, decision)))
    }

    /// The inputs of this decision, for explanations.
    fn facts(&self, observation: &Observation) -> RemediationFacts {
        let machine = self.machine.as_ref().map(ToString::to_string);
        RemediationFacts {
            request: self.id.to_string(),
            observation: observation.clone(),
            state: self.shell.state.clone(),
            recorded: self
                .recorded
                .shown
                .as_ref()
                .map(|shown| shown.message.clone()),
            seen: observed(machine.as_deref(), observation),
            assumed: Vec::new(),
        }
    }

    /// Writes the state into the object, before anything is done because of it (F2).
    async fn write(
        &mut self,
        decision: &Decision,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let before = self.shell.state.clone();
        self.record(Some(&decision.state), &decision.reason, until, now)
            .await?;
        let created = self.created().unwrap_or(now);
        self.context
            .live
            .history
            .step(&self.uid, created, &decision.state);
        self.record_history(None);
        let mut took = String::new();
        if let Some(before) = before.filter(|b| b.step != decision.state.step) {
            let time = Duration::try_from(now.duration_since(before.since)).unwrap_or_default();
            let metrics = &self.context.metrics;
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
                self.context
                    .metrics
                    .count_violation(decision.reason.label());
            }
            Reason::FenceUnconfirmed(_) if decision.state.step == Step::AwaitingConfirmation => {
                self.context.metrics.count_unconfirmed();
            }
            _ => {}
        }
        self.show(&decision.state, &decision.reason);
        for note in &decision.notes {
            self.emit_event(
                note.warning,
                note.reason,
                &format!("{}{took}", note.message),
            );
        }
        Ok(())
    }

    /// Updates the metrics of steps and blocks.
    fn show(&self, state: &State, reason: &Reason) {
        let unfinished = !state.step.is_terminal();
        let blocked = unfinished && reason.is_blocked();
        let metrics = &self.context.metrics;
        metrics.set_blocked(&self.uid, blocked.then(|| self.blocked_by(reason)));
        let created = self.created().filter(|_| unfinished);
        metrics.set_step(&self.uid, created.map(|at| (state.step.label(), at)));
    }

    /// The labels of a blocked remediation.
    pub(super) fn blocked_by(&self, reason: &Reason) -> BlockedRemediation {
        let Key { namespace, name } = self.id.key.clone();
        BlockedRemediation {
            kind: self.id.kind.kind(),
            namespace,
            name,
            node: self.node.clone().unwrap_or_default(),
            reason: reason.label(),
        }
    }

    /// When the object was created.
    pub(super) fn created(&self) -> Option<Timestamp> {
        let entry = self.snapshot.request.as_ref()?;
        Some(entry.object.metadata.creation_timestamp.as_ref()?.0)
    }

    /// Reports the reason of a wait, once per reason.
    async fn report_reason(
        &mut self,
        reason: &Reason,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let state = self.shell.state.clone();
        if let Some(state) = &state {
            self.show(state, reason);
        }
        let new = DisplayedReason {
            label: reason.label(),
            message: reason.to_string(),
            until,
            overdue: until.is_some_and(|until| until <= now),
        };
        let old = self.recorded.shown.clone();
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        let is_new = old.as_ref().map(|s| s.label) != Some(new.label);
        if reason.is_blocked() && is_new && !reason.is_reported_once_for_many() {
            self.emit_event(true, reason.label(), &new.message);
        }
        if new.overdue && old.is_some_and(|s| !s.overdue) {
            let step = state.as_ref().map_or("Pending", |s| s.step.label());
            let message = format!("{step} takes longer than it should: {reason}");
            self.emit_event(true, "Overdue", &message);
        }
        self.record(state.as_ref(), reason, until, now).await
    }

    /// Reports repeated failures in the object, as far as that can be written (L1).
    async fn report_failure(&mut self, error: &ApiError) {
        let now = clock::monotonic_now();
        if self.load().is_err() {
            return;
        }
        // A recorded state is the only record of what was done and is not overwritten.
        let reason = match self.record_in_index() {
            Err(why) if self.shell.state.is_none() => {
                let reason = Reason::StateUnreadable(why);
                self.show_unreadable(&reason, now).await;
                reason
            }
            _ => {
                let reason = Reason::ActionFailed(error.to_string());
                let is_known = self.shell.loaded || self.shell.state.is_some();
                if is_known && self.report_reason(&reason, self.until, now).await.is_ok() {
                    return;
                }
                reason
            }
        };
        self.emit_event(true, reason.label(), &reason.to_string());
    }

    pub(super) fn emit_event(&self, warning: bool, reason: &'static str, message: &str) {
        tracing::info!(remediation = %self.id, reason, "{message}");
        self.context.metrics.count_event(reason);
        if let Some(entry) = self.context.index.request(&self.id) {
            self.context
                .events
                .send(&entry.object, warning, reason, message);
        }
    }

    pub(super) fn count(&self, ended: Option<CountedOutcome>) {
        let Some((outcome, reason)) = ended else {
            return;
        };
        let label = outcome_label(outcome);
        tracing::info!(remediation = %self.id, outcome = label, "remediation finished");
        self.record_history(Some((label, reason)));
        let finish = Finish {
            request: self.id.to_string(),
            state: self.shell.state.as_ref(),
            at: clock::monotonic_now(),
            outcome: label,
            reason,
        };
        self.context.live.history.finish(&self.uid, finish);
        let metrics = &self.context.metrics;
        metrics.count_outcome(label, reason);
        if let Some(created) = self.created() {
            let took = clock::monotonic_now().duration_since(created);
            metrics.observe_end(label, Duration::try_from(took).unwrap_or_default());
        }
    }

    /// Waits for a change or an event of the operation. Returns whether to stop.
    async fn sleep(&mut self, longest: Duration, stop: &CancellationToken) -> bool {
        let wake = self.wake.clone();
        tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(longest) => false,
            () = wake.notified() => false,
            () = self.next_operation_event() => false,
        }
    }
}

/// The result of an iteration.
pub(super) enum Iteration {
    Turn(Turn),
    Done,
}

#[cfg(test)]
mod tests;
