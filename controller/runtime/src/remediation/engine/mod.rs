//! The loop of one remediation: observe, decide, write or act, wait.
//!
//! Invariant: no command is carried out before the state that justifies it is written.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::{
    explanation::RemediationFacts,
    limits::beginnings::{TURN_POLL, TurnWait},
    remediation::{
        Command, Decision, FAILURES_TOLD, HoldRefusal, Next, Observation, Pace, Progress, Reason,
        State, Step, Turn,
    },
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Context, act,
    observe::{self, Observed, Observer, concurrency, live_reads, quorum},
    record::{self, StateRecorder, displayed_state, history, remediation_state, report},
    scope::{Memory, Scope},
    tasks::wakeup::WatchInterest,
};
use crate::store::{api::ApiError, clock, remediation::RemediationId, watch::pause};

/// Carries out one remediation, until it has ended.
pub(super) struct RemediationLoop {
    pub(super) scope: Scope<Context>,
    pub(super) observing: observe::Scope,
    pub(super) acting: act::Scope,
    pub(super) recording: record::Scope,
    pub(super) memory: Memory,
    pub(super) observer: Observer,
    pub(super) recorder: StateRecorder,
    wake: Arc<Notify>,
    /// The deadline of the current step.
    until: Option<Timestamp>,
    /// Its wait for its turn, while the API server of its cluster is slow.
    turn: Option<TurnWait>,
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
fn takes_hold(state: Option<&State>, o: &Observation, decision: &Decision) -> bool {
    let holding = state.is_some_and(|s| s.step == Step::Holding);
    let is_held = o.bmh.as_ref().is_some_and(|b| b.our_hold);
    let takes_off = decision.state.step == Step::PoweringOff && !is_held;
    holding && (decision.next == Next::Do(Command::AddHold) || takes_off)
}

/// Logs a failed iteration. That somebody else wrote the object first is no warning, unless it happens again and
/// again: the next iteration reads it.
fn log_failure(remediation: &RemediationId, error: &ApiError, failures: u32) {
    if error.is_conflict() && failures < FAILURES_TOLD {
        tracing::debug!(%remediation, %error, failures, "reconcile failed; retrying");
    } else {
        tracing::warn!(%remediation, %error, failures, "reconcile failed; retrying");
    }
}

impl RemediationLoop {
    pub(super) fn new(
        context: &Arc<Context>,
        id: RemediationId,
        uid: String,
        wake: Arc<Notify>,
        interest: Arc<Mutex<WatchInterest>>,
    ) -> Self {
        let memory = Memory::new(uid.clone());
        let reporter = context.reporter.clone();
        let scope = Scope::new(context.clone(), (id, uid), interest, reporter);
        Self {
            observing: scope.with(context.observe.clone()),
            acting: scope.with(context.act.clone()),
            recording: scope.with(context.record.clone()),
            scope,
            memory,
            observer: Observer::default(),
            recorder: StateRecorder::default(),
            wake,
            until: None,
            turn: None,
        }
    }

    // Boxed, because a future has an argument twice: as it came, and as it is used.
    pub(super) async fn run(mut self: Box<Self>, stop: CancellationToken) {
        let mut ended = false;
        loop {
            let run_once = tokio::select! {
                () = stop.cancelled() => break,
                // Boxed, so that a remediation that waits for a change takes no memory for an iteration.
                run_once = Box::pin(self.run_once()) => run_once,
            };
            self.memory.snapshot.drop_indexed();
            let (turn, error) = match run_once {
                Ok(Iteration::Turn(turn)) => (turn, None),
                Ok(Iteration::Done) => {
                    ended = true;
                    break;
                }
                Err(ReconcileError::Gone) => break,
                Err(ReconcileError::Failed(error)) => {
                    let turn = error.put_off().map_or(Turn::Failed, Turn::PutOff);
                    (turn, Some(error))
                }
            };
            let pace = self.memory.shell.turned(turn, clock::monotonic_now());
            if let Some(error) = error {
                let failures = self.memory.shell.failures;
                log_failure(&self.scope.id, &error, failures);
                if failures == FAILURES_TOLD {
                    let reported = self.recorder.report_failure(
                        &self.recording,
                        &mut self.memory,
                        self.until,
                        &error,
                    );
                    Box::pin(reported).await;
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
        let is_gone = matches!(
            displayed_state::load(&self.recording, &mut self.memory),
            Err(ReconcileError::Gone)
        );
        if is_gone {
            let outcome = self
                .recorder
                .outcome_metrics
                .deleted(self.memory.shell.state.as_ref());
            report::count(&self.recording, &self.memory, outcome);
            ended = false;
        }
        let live = &self.scope.context.live;
        match ended {
            true => live.end(&self.scope.id, clock::monotonic_now(), clock::wall_ahead()),
            false => live.remove(&self.scope.id),
        }
        self.scope.context.live.history.forget(&self.scope.uid);
        self.scope.context.active.lock().remove(&self.scope.uid);
        self.scope.context.metrics.forget(&self.scope.uid);
        if is_gone {
            if Progress::of(self.memory.shell.state.as_ref()) != Progress::Begun {
                let uid = self.scope.uid.clone();
                self.scope.context.unbegun.lock().insert(uid);
            }
            // Last, because many may wait for this.
            Box::pin(remediation_state::delete_record(&self.recording)).await;
        }
    }

    pub(super) async fn run_once(&mut self) -> Result<Iteration, ReconcileError> {
        displayed_state::load(&self.recording, &mut self.memory)?;
        let loaded = remediation_state::load_state(&self.recording, &mut self.memory);
        Box::pin(loaded).await?;
        // Taken before the observation, which may take seconds: a cluster that answers slowly must
        // not make every reading of the BMC too old.
        let now = clock::monotonic_now();
        let restored = self
            .recorder
            .restore(&self.recording, &mut self.memory, now);
        Box::pin(restored).await?;
        if self.turn.is_some_and(|turn| turn.stands(now))
            && !self.is_deleted()
            && concurrency::still_waits_for_turn(&self.observing)
        {
            return Ok(Iteration::Turn(await_turn(now)));
        }
        // Boxed like each large part: what waits takes memory for the part in which it waits.
        let observed = self
            .observer
            .observe(&self.observing, &mut self.memory, now);
        let seen = match Box::pin(observed).await? {
            Ok(seen) => seen,
            Err(_) if self.memory.shell.rests_on_unread(None) => {
                return Ok(Iteration::Turn(Turn::Again));
            }
            Err(reason) => {
                let reported = self.recorder.report_reason(
                    &self.recording,
                    &mut self.memory,
                    &reason,
                    self.until,
                    now,
                );
                let copied_at = Box::pin(reported).await?;
                return Ok(Iteration::Turn(Turn::Wait(copied_at)));
            }
        };
        let decided = match Box::pin(self.decide(seen, now)).await? {
            Decided::Step(decided) => decided,
            Decided::Again => return Ok(Iteration::Turn(Turn::Again)),
            Decided::AwaitTurn(observation) => {
                return Box::pin(self.report_turn(*observation, now)).await;
            }
        };
        let (observation, decision) = &*decided;
        self.until = self
            .memory
            .shell
            .state
            .as_ref()
            .and_then(|s| observation.step_until(s));
        self.scope
            .context
            .live
            .put(&self.scope.id, self.facts(observation));
        tracing::debug!(
            remediation = %self.scope.id,
            step = decision.state.step.label(),
            reason = decision.reason.label(),
            next = ?decision.next,
            "decided"
        );
        match decision.next.clone() {
            Next::Write => {
                let until = observation.step_until(&decision.state);
                let written = self.recorder.write_decision(
                    &self.recording,
                    &mut self.memory,
                    decision,
                    until,
                    now,
                );
                Box::pin(written).await?;
                // An explanation never shows an older step than the object does.
                let facts = self.facts(observation);
                self.scope.context.live.put(&self.scope.id, facts);
                Ok(Iteration::Turn(Turn::Again))
            }
            Next::Do(command) => {
                for note in &decision.notes {
                    self.scope.tell(note, "");
                }
                if let Command::RemoveFinalizer(outcome) = command {
                    self.recorder
                        .outcome_metrics
                        .removing_finalizer(outcome, &decision.reason);
                    self.memory.copy_for_the_end = self.recorder.copy_for_the_end(
                        &self.recording,
                        &self.memory,
                        &decision.reason,
                        now,
                    )?;
                }
                let with_copy = self.memory.copy_for_the_end.is_some();
                let begun = act::carry_out(&self.acting, &mut self.memory, &command, observation);
                let begun = Box::pin(begun).await;
                if let Err(ReconcileError::Failed(error)) = &begun {
                    let now = clock::monotonic_now();
                    let refusal = error.absent_webhook();
                    let refusal = refusal.map(|why| HoldRefusal::new(&why, now));
                    self.memory.shell.failed(&command, refusal);
                }
                let begun = begun?;
                if let Some(host) = begun {
                    self.observer
                        .follow(&self.observing, &mut self.memory, &host);
                }
                if with_copy {
                    self.recorder.copied(&self.memory);
                }
                if matches!(command, Command::RemoveFinalizer(_)) {
                    let ended = self.recorder.outcome_metrics.finalizer_removed();
                    report::count(&self.recording, &self.memory, ended);
                }
                self.memory.shell.done(&command);
                Ok(Iteration::Turn(Turn::Did(command)))
            }
            Next::Wait(until) => {
                let reported = self.recorder.report_reason(
                    &self.recording,
                    &mut self.memory,
                    &decision.reason,
                    self.until,
                    now,
                );
                let copied_at = Box::pin(reported).await?;
                let until = copied_at.map_or(until, |due| until.min(due));
                Ok(Iteration::Turn(Turn::Wait(Some(until))))
            }
            Next::Done(outcome) => {
                if !observation.object.deleting {
                    let reported = self.recorder.report_reason(
                        &self.recording,
                        &mut self.memory,
                        &decision.reason,
                        None,
                        now,
                    );
                    Box::pin(reported).await?;
                }
                let state = self.memory.shell.state.as_ref();
                let ended =
                    self.recorder
                        .outcome_metrics
                        .finished(state, outcome, &decision.reason);
                if ended.is_none() {
                    history::record_earlier_end(
                        &self.recording,
                        &self.memory,
                        decision.reason.label(),
                    );
                }
                report::count(&self.recording, &self.memory, ended);
                Ok(Iteration::Done)
            }
        }
    }

    /// Decides, and decides again if a concurrent remediation prevents this one from beginning
    /// (F6).
    async fn decide(&mut self, seen: Observed, now: Timestamp) -> Result<Decided, ReconcileError> {
        let mut observation = seen.observation;
        let mut decision = self.memory.shell.decide(&observation, now);
        if self.memory.shell.rests_on_unread(Some(&decision)) {
            return Ok(Decided::Again);
        }
        if live_reads::find_unnamed_machine(
            &self.observing,
            &mut self.memory,
            &seen.target,
            &decision,
        )
        .await?
        {
            return Ok(Decided::Again);
        }
        if takes_hold(self.memory.shell.state.as_ref(), &observation, &decision)
            && !observation.object.paused
            && live_reads::finds_pause(&self.observing, &seen.target).await?
        {
            return Ok(Decided::Again);
        }
        let mut begins = decision.begins;
        if begins {
            match self
                .observer
                .read_policies(&self.observing, &seen.policy_basis)
                .await
            {
                Ok(false) => {}
                Ok(true) => return Ok(Decided::Again),
                Err(why) => {
                    begins = false;
                    observation.conflict.get_or_insert(why);
                }
            }
        }
        let state = self.memory.shell.state.as_ref();
        let mut quorum =
            quorum::read(&self.observing, &seen.target, seen.guard, begins, state).await;
        if let Some(plane) = &mut quorum {
            plane.overruled = seen.overrules_quorum;
        }
        let counted = seen.me.policy.counted();
        // Windows and freezes are of the calendar.
        let wall = clock::wall_now();
        let permission = concurrency::resolve_concurrency(
            &self.observing,
            &self.memory,
            seen.me,
            (begins, seen.unmarked),
            quorum,
            &seen.policies,
            wall,
        );
        if permission.waits_for_turn {
            self.turn = Some(TurnWait::evaluated(self.turn, now));
            return Ok(Decided::AwaitTurn(Box::new(observation)));
        }
        self.turn = None;
        for warning in &permission.warnings {
            self.scope.emit_event(true, "PolicyLimitExceeded", warning);
        }
        if let Some(overruled) = &permission.overruled {
            let message = format!("a person has overruled this: {overruled}");
            self.scope.emit_event(true, "QuorumOverruled", &message);
        }
        if decision.begins && begins && decision.state.step.takes_host() {
            decision.state.counted = Some(Box::new(counted));
        }
        // A quorum that would be lost outweighs a mark that is missing.
        if permission.refused.is_some()
            && (observation.conflict.as_ref()).is_some_and(Reason::is_of_marks)
        {
            observation.conflict = None;
        }
        if begins == decision.begins
            && (permission.refused.is_none() || observation.conflict.is_some())
        {
            return Ok(Decided::Step(Box::new((observation, decision))));
        }
        if observation.conflict.is_none() {
            observation.conflict = permission.refused;
        }
        let decision = self.memory.shell.decide(&observation, now);
        if !self.memory.shell.node.suffices(state, &decision, now) {
            self.memory.shell.node.forget();
            return Ok(Decided::Again);
        }
        Ok(Decided::Step(Box::new((observation, decision))))
    }

    /// Waits for the turn of this remediation, explains that at once, and reports it after a while (L1).
    async fn report_turn(
        &mut self,
        observation: Observation,
        now: Timestamp,
    ) -> Result<Iteration, ReconcileError> {
        let cluster = self.scope.interest.lock().cluster.clone();
        let cluster = cluster.map_or_else(String::new, |cluster| cluster.to_string());
        let reason = Reason::ApiServerSlow(cluster);
        let facts = RemediationFacts {
            awaits_turn: Some(reason.clone()),
            ..self.facts(&observation)
        };
        self.scope.context.live.put(&self.scope.id, facts);
        if self.turn.is_some_and(|turn| turn.is_told(now)) {
            if self.memory.shell.rests_on_unread(None) {
                return Ok(Iteration::Turn(Turn::Again));
            }
            self.recorder
                .report_reason(&self.recording, &mut self.memory, &reason, self.until, now)
                .await?;
        }
        Ok(Iteration::Turn(await_turn(now)))
    }

    /// Whether the object is being deleted, as it was observed last.
    fn is_deleted(&self) -> bool {
        let object = self.memory.snapshot.object.as_ref();
        object.is_none_or(|entry| entry.object.metadata.deletion_timestamp.is_some())
    }

    /// The inputs of this decision, for explanations.
    fn facts(&self, observation: &Observation) -> RemediationFacts {
        RemediationFacts {
            remediation: self.scope.id.to_string(),
            observation: observation.clone(),
            state: self.memory.shell.state.clone(),
            awaits_turn: None,
            recorded: self
                .recorder
                .recorded
                .shown
                .as_ref()
                .map(|shown| shown.message.clone()),
            machine: self.memory.machine.as_ref().map(ToString::to_string),
        }
    }

    /// Waits for a change or an event of the operation. Returns whether to stop.
    async fn sleep(&mut self, longest: Duration, stop: &CancellationToken) -> bool {
        let wake = self.wake.clone();
        let is_put_off = std::mem::take(&mut self.recorder.is_put_off);
        let records = &self.recording.context.records;
        tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(longest) => false,
            () = wake.notified() => false,
            () = records.created(), if is_put_off => false,
            () = self.observer.next_operation_event(&self.observing, &mut self.memory) => false,
        }
    }
}

fn await_turn(now: Timestamp) -> Turn {
    let until = now.checked_add(TURN_POLL).unwrap_or(Timestamp::MAX);
    Turn::Wait(Some(until))
}

/// The result of a decision.
enum Decided {
    /// The step, and the observation on which it rests.
    Step(Box<(Observation, Decision)>),
    /// A live read has found what the decision considered absent (F12), so that a new observation is required.
    Again,
    /// It may begin, but has no turn yet.
    AwaitTurn(Box<Observation>),
}

/// The result of an iteration.
pub(super) enum Iteration {
    Turn(Turn),
    Done,
}

#[cfg(test)]
mod tests;
