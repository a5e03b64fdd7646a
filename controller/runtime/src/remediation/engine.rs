//! The loop of one remediation: observe, decide, write or act, wait.
//!
//! Must never act on a state that is not written.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::remediation::{
    Because, Command, Decision, Next, Outcome, PowerView, State, step,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Context, Interest, operation::Tracked, record::Recorded};
use crate::{api::ApiError, object::Key, watch::pause};

/// However quiet everything is, look again after this.
const RESYNC: Duration = Duration::from_secs(10);
/// Backoff after a failure: first and longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Failures in a row after which an Event says so.
const FAILURES_TOLD: u32 = 3;

/// One remediation.
pub(super) struct Engine {
    pub(super) context: Arc<Context>,
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) bell: Arc<Notify>,
    pub(super) interest: Arc<Mutex<Interest>>,
    /// What stands in the object.
    pub(super) recorded: Recorded,
    pub(super) operation: Option<Tracked>,
    pub(super) power: Option<PowerView>,
    pub(super) completed: BTreeSet<Command>,
}

/// Why a turn of the loop came to nothing.
pub(super) enum Setback {
    /// The object is gone.
    Gone,
    /// Try again a little later.
    Failed(ApiError),
}

impl From<ApiError> for Setback {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl Engine {
    pub(super) fn new(
        context: Arc<Context>,
        key: Key,
        uid: String,
        bell: Arc<Notify>,
        interest: Arc<Mutex<Interest>>,
    ) -> Self {
        Self {
            context,
            key,
            uid,
            bell,
            interest,
            recorded: Recorded::default(),
            operation: None,
            power: None,
            completed: BTreeSet::new(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut failures = 0_u32;
        let mut last: Option<Command> = None;
        loop {
            let turn = tokio::select! {
                () = stop.cancelled() => break,
                turn = self.turn() => turn,
            };
            match turn {
                Ok(Turn::Again) => failures = 0,
                Ok(Turn::Did(command)) => {
                    failures = 0;
                    // The same effect twice without progress: give the world time to show it.
                    if last.as_ref() == Some(&command) && pause(&stop, BACKOFF.0 * 5).await {
                        break;
                    }
                    last = Some(command);
                    continue;
                }
                Ok(Turn::Wait(until)) => {
                    failures = 0;
                    if self.sleep(until, &stop).await {
                        break;
                    }
                }
                Ok(Turn::Done) | Err(Setback::Gone) => break,
                Err(Setback::Failed(error)) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(remediation = %self.key, %error, failures, "not carried out; trying again");
                    if failures == FAILURES_TOLD {
                        self.tell(true, "ActionFailed", &error.to_string());
                    }
                    let wait = BACKOFF
                        .0
                        .saturating_mul(1 << failures.min(6))
                        .min(BACKOFF.1);
                    if pause(&stop, wait).await {
                        break;
                    }
                }
            }
            last = None;
        }
        self.context.active.lock().remove(&self.uid);
    }

    async fn turn(&mut self) -> Result<Turn, Setback> {
        self.load()?;
        let observation = match self.observe().await? {
            Ok(observation) => observation,
            Err(because) => {
                self.show(&because).await?;
                return Ok(Turn::Wait(None));
            }
        };
        let now = Timestamp::now();
        let decision = step(&observation, self.recorded.state.as_ref(), now);
        tracing::debug!(
            remediation = %self.key,
            step = decision.state.step.label(),
            because = decision.because.label(),
            next = ?decision.next,
            "decided"
        );
        match decision.next.clone() {
            Next::Write => {
                self.write(&decision, now).await?;
                Ok(Turn::Again)
            }
            Next::Do(command) => {
                for note in &decision.notes {
                    self.tell(note.warning, note.reason, &note.message);
                }
                self.act(&command, &observation).await?;
                // The object may be gone before anybody can look at it again.
                if let Command::RemoveFinalizer(outcome) = command {
                    self.finished(outcome);
                }
                self.completed.insert(command.clone());
                Ok(Turn::Did(command))
            }
            Next::Wait(until) => {
                self.show(&decision.because).await?;
                Ok(Turn::Wait(until))
            }
            Next::Done(_) => Ok(Turn::Done),
        }
    }

    /// The state is in the object before anything is done because of it (F2).
    async fn write(&mut self, decision: &Decision, now: Timestamp) -> Result<(), Setback> {
        let before = self.recorded.state.clone();
        self.record(&decision.state, &decision.because).await?;
        self.completed.clear();
        if let Some(before) = before.filter(|b| b.step != decision.state.step) {
            let took = now.duration_since(before.since);
            self.context
                .metrics
                .step_done(before.step.label(), took.try_into().unwrap_or_default());
        }
        self.register(&decision.state);
        for note in &decision.notes {
            self.tell(note.warning, note.reason, &note.message);
        }
        Ok(())
    }

    /// Others see that this host is taken (F6).
    fn register(&self, state: &State) {
        if let Some(active) = self.context.active.lock().get_mut(&self.uid) {
            active.begun = state.step != rackhand_core::remediation::Step::Pending;
        }
    }

    /// Shows why nothing happens, once per reason.
    async fn show(&mut self, because: &Because) -> Result<(), Setback> {
        let shown = (because.label(), because.to_string());
        if self.recorded.shown.as_ref() == Some(&shown) {
            return Ok(());
        }
        if because.is_blocked() && self.recorded.shown.as_ref().map(|s| s.0) != Some(shown.0) {
            self.tell(true, because.label(), &shown.1);
        }
        let state = self.recorded.state.clone();
        self.record_because(state.as_ref(), because).await?;
        Ok(())
    }

    pub(super) fn tell(&self, warning: bool, reason: &'static str, message: &str) {
        tracing::info!(remediation = %self.key, reason, "{message}");
        self.context.metrics.note(reason);
        if let Some(entry) = self.context.index.remediation(&self.key) {
            self.context
                .events
                .send(&entry.object, warning, reason, message);
        }
    }

    fn finished(&self, outcome: Outcome) {
        let label = match outcome {
            Outcome::Succeeded => "succeeded",
            Outcome::Escalated => "escalated",
            Outcome::Failed => "failed",
            Outcome::Withdrawn => "withdrawn",
        };
        tracing::info!(remediation = %self.key, outcome = label, "remediation finished");
        self.context.metrics.remediation_done(label);
    }

    /// Waits for whatever comes first; true: stop.
    async fn sleep(&mut self, until: Option<Timestamp>, stop: &CancellationToken) -> bool {
        let left = until.map_or(RESYNC, |t| {
            Duration::try_from(
                Timestamp::now()
                    .until(t)
                    .map(jiff::SignedDuration::try_from)
                    .ok()
                    .and_then(Result::ok)
                    .unwrap_or_default(),
            )
            .unwrap_or_default()
        });
        let bell = self.bell.clone();
        tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(left.min(RESYNC)) => false,
            () = bell.notified() => false,
            () = self.operation_news() => false,
        }
    }
}

/// What a turn of the loop came to.
enum Turn {
    Again,
    Did(Command),
    Wait(Option<Timestamp>),
    Done,
}
