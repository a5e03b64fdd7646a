//! The loop of one remediation: observe, decide, write or act, wait.
//!
//! Must never act on a state that is not written.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::remediation::{
    Because, BmcAccess, Command, Decision, Next, Observation, Outcome, PowerView, State, Step, step,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Context, Interest, RequestId,
    observe::Seen,
    operation::Tracked,
    record::{Recorded, Shown},
    snapshot::Snapshot,
    tally::{Ended, Tally},
};
use crate::{api::ApiError, cluster::KeptConnection, object::Key, steady, watch::pause};

/// However quiet everything is, look again after this.
const RESYNC: Duration = Duration::from_secs(10);
/// Backoff after a failure: first and longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Failures in a row after which an Event says so.
const FAILURES_TOLD: u32 = 3;

/// One remediation.
pub(super) struct Engine {
    pub(super) context: Arc<Context>,
    pub(super) id: RequestId,
    pub(super) uid: String,
    pub(super) bell: Arc<Notify>,
    pub(super) interest: Arc<Mutex<Interest>>,
    /// What stands in the object.
    pub(super) recorded: Recorded,
    /// What the present decision rests on.
    pub(super) snapshot: Snapshot,
    pub(super) operation: Option<Tracked>,
    pub(super) power: Option<PowerView>,
    /// What was missing the last time that the BMC was to be reached.
    pub(super) access: BmcAccess,
    /// Since when this process has heard nothing from the BMC.
    pub(super) silent_since: Option<Timestamp>,
    pub(super) completed: BTreeSet<Command>,
    /// Its Machine, Node and hold, as seen last: for the status and for handing over.
    pub(super) machine: Option<Key>,
    pub(super) node: Option<String>,
    pub(super) held: bool,
    pub(super) tally: Tally,
    /// Keeps the workload cluster connected.
    pub(super) connection: Option<KeptConnection>,
    /// The Machine of a Node that names none was read live before the end.
    pub(super) machine_sought: bool,
    /// When the time of the present step is over.
    until: Option<Timestamp>,
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
        id: RequestId,
        uid: String,
        bell: Arc<Notify>,
        interest: Arc<Mutex<Interest>>,
    ) -> Self {
        Self {
            context,
            id,
            uid,
            bell,
            interest,
            recorded: Recorded::default(),
            snapshot: Snapshot::default(),
            operation: None,
            power: None,
            access: BmcAccess::Known,
            silent_since: None,
            completed: BTreeSet::new(),
            tally: Tally::default(),
            connection: None,
            machine_sought: false,
            until: None,
            machine: None,
            node: None,
            held: false,
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
                    tracing::warn!(remediation = %self.id, %error, failures, "not carried out; trying again");
                    if failures == FAILURES_TOLD {
                        self.cannot(&error).await;
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
        // The news that the object is gone may overtake the answer to what made it go.
        if matches!(self.load(), Err(Setback::Gone)) {
            let ended = self.tally.gone(self.recorded.state.as_ref());
            self.count(ended);
        }
        self.context.active.lock().remove(&self.uid);
        self.context.metrics.blocked(&self.uid, None);
    }

    async fn turn(&mut self) -> Result<Turn, Setback> {
        self.load()?;
        // Before the look, which may take seconds: what was read counts as of its beginning, and a
        // cluster that answers slowly cannot make every reading of the BMC too old.
        let now = steady::now();
        self.restore(now).await?;
        let seen = match self.observe(now).await? {
            Ok(seen) => seen,
            Err(because) => {
                self.show(&because, self.until, now).await?;
                return Ok(Turn::Wait(None));
            }
        };
        let Some((observation, decision)) = self.decide(seen, now).await? else {
            return Ok(Turn::Again);
        };
        self.until = self
            .recorded
            .state
            .as_ref()
            .and_then(|s| observation.step_until(s));
        tracing::debug!(
            remediation = %self.id,
            step = decision.state.step.label(),
            because = decision.because.label(),
            next = ?decision.next,
            "decided"
        );
        match decision.next.clone() {
            Next::Write => {
                let until = observation.step_until(&decision.state);
                self.write(&decision, until, now).await?;
                Ok(Turn::Again)
            }
            Next::Do(command) => {
                for note in &decision.notes {
                    self.tell(note.warning, note.reason, &note.message);
                }
                if let Command::RemoveFinalizer(outcome) = command {
                    self.tally.leaves(outcome, &decision.because);
                }
                self.act(&command, &observation).await?;
                if matches!(command, Command::RemoveFinalizer(_)) {
                    let ended = self.tally.left();
                    self.count(ended);
                }
                self.completed.insert(command.clone());
                Ok(Turn::Did(command))
            }
            Next::Wait(until) => {
                self.show(&decision.because, self.until, now).await?;
                Ok(Turn::Wait(Some(until)))
            }
            Next::Done(outcome) => {
                if !observation.request.deleting {
                    self.show(&decision.because, None, now).await?;
                }
                let state = self.recorded.state.as_ref();
                let ended = self.tally.over(state, outcome, &decision.because);
                self.count(ended);
                Ok(Turn::Done)
            }
        }
    }

    /// One that would begin asks for the right of way (F6), and decides again where it has not got it.
    /// `None`: a live read has found what the decision took for absent (F12), so it is observed anew.
    async fn decide(
        &mut self,
        seen: Seen,
        now: Timestamp,
    ) -> Result<Option<(Observation, Decision)>, Setback> {
        let mut observation = seen.observation;
        let decision = step(&observation, self.recorded.state.as_ref(), now);
        if self.find_unnamed_machine(&seen.place, &decision).await? {
            return Ok(None);
        }
        let state = self.recorded.state.as_ref();
        let quorum = self
            .quorum(&seen.place, seen.guard, decision.begins, state)
            .await;
        let refused = self.right_of_way(seen.me, decision.begins, quorum);
        if refused.is_none() || observation.conflict.is_some() {
            return Ok(Some((observation, decision)));
        }
        observation.conflict = refused;
        let decision = step(&observation, state, now);
        Ok(Some((observation, decision)))
    }

    /// The state is in the object before anything is done because of it (F2).
    async fn write(
        &mut self,
        decision: &Decision,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), Setback> {
        let before = self.recorded.state.clone();
        self.record(Some(&decision.state), &decision.because, until, now)
            .await?;
        self.completed.clear();
        let mut took = String::new();
        if let Some(before) = before.filter(|b| b.step != decision.state.step) {
            let time = Duration::try_from(now.duration_since(before.since)).unwrap_or_default();
            let metrics = &self.context.metrics;
            metrics.step_done(before.step.label(), time);
            took = format!(
                " ({} took {:.1} s)",
                before.step.label(),
                time.as_secs_f64()
            );
            if decision.state.step == Step::Fenced {
                let failed = decision.state.failed().is_some();
                let outcome = if failed { "kept_off" } else { "fenced" };
                metrics.remediation_done(outcome, decision.because.label());
            }
        }
        match decision.because {
            Because::FenceViolated(_) | Because::HoldLost(_) => {
                self.context
                    .metrics
                    .fence_violated(decision.because.label());
            }
            Because::FenceUnconfirmed(_) if decision.state.step == Step::AwaitingConfirmation => {
                self.context.metrics.fence_unconfirmed();
            }
            _ => {}
        }
        self.blocked(&decision.state, &decision.because);
        for note in &decision.notes {
            self.tell(
                note.warning,
                note.reason,
                &format!("{}{took}", note.message),
            );
        }
        Ok(())
    }

    fn blocked(&self, state: &State, because: &Because) {
        let blocked = because.is_blocked() && !state.step.is_terminal();
        self.context
            .metrics
            .blocked(&self.uid, blocked.then(|| because.label()));
    }

    /// Shows why nothing happens, once per reason.
    async fn show(
        &mut self,
        because: &Because,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), Setback> {
        let state = self.recorded.state.clone();
        if let Some(state) = &state {
            self.blocked(state, because);
        }
        let new = Shown {
            label: because.label(),
            message: because.to_string(),
            until,
            overdue: until.is_some_and(|until| until <= now),
        };
        let old = self.recorded.shown.clone();
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        if because.is_blocked() && old.as_ref().map(|s| s.label) != Some(new.label) {
            self.tell(true, because.label(), &new.message);
        }
        if new.overdue && old.is_some_and(|s| !s.overdue) {
            let step = state.as_ref().map_or("Pending", |s| s.step.label());
            let message = format!("{step} takes longer than it should: {because}");
            self.tell(true, "Overdue", &message);
        }
        self.record(state.as_ref(), because, until, now).await
    }

    /// L1: what cannot be carried out is in the object, as far as that can be written.
    async fn cannot(&mut self, error: &ApiError) {
        let now = steady::now();
        let because = match self.load() {
            Err(Setback::Gone) => return,
            // What stands there is the only trace of what was done: it is not written over.
            Err(Setback::Failed(why)) => {
                let because = Because::StateUnreadable(why.to_string());
                self.show_unreadable(&because, now).await;
                because
            }
            Ok(()) => {
                let because = Because::ActionFailed(error.to_string());
                if self.show(&because, self.until, now).await.is_ok() {
                    return;
                }
                because
            }
        };
        self.tell(true, because.label(), &because.to_string());
    }

    pub(super) fn tell(&self, warning: bool, reason: &'static str, message: &str) {
        tracing::info!(remediation = %self.id, reason, "{message}");
        self.context.metrics.note(reason);
        if let Some(entry) = self.context.index.request(&self.id) {
            self.context
                .events
                .send(&entry.object, warning, reason, message);
        }
    }

    pub(super) fn count(&self, ended: Option<Ended>) {
        let Some((outcome, because)) = ended else {
            return;
        };
        let label = match outcome {
            Outcome::Succeeded => "succeeded",
            Outcome::Escalated => "escalated",
            Outcome::Failed => "failed",
            Outcome::Withdrawn => "withdrawn",
        };
        tracing::info!(remediation = %self.id, outcome = label, "remediation finished");
        self.context.metrics.remediation_done(label, because);
    }

    /// Waits for whatever comes first; true: stop.
    async fn sleep(&mut self, until: Option<Timestamp>, stop: &CancellationToken) -> bool {
        let left = until.map_or(RESYNC, |t| {
            Duration::try_from(
                steady::now()
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

#[cfg(test)]
mod tests;
