//! What the engine offers to its dialect: the bookkeeping for members, timers, tasks and watches.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use rackhand_core::checks::dispatch::{Members, Schedule, StatusSchedule};

use super::{Done, Tasks, Timer, watches::Watches};
use crate::{
    checks::{Context, dialect::Dialect},
    store::{api::ApiError, clock::Stopwatch, object::Key},
};

/// The engine, as its dialect sees it.
pub(in crate::checks) struct EngineParts<D: Dialect> {
    pub(in crate::checks) context: Arc<Context>,
    pub(in crate::checks) members: Members<Key>,
    pub(in crate::checks) watches: Watches<D::WatchEvent>,
    pub(super) schedule: Schedule<Key, Timer<D::Timer>>,
    /// When the status of each evaluated check may be written.
    pub(super) statuses: BTreeMap<Key, StatusSchedule>,
    pub(super) tasks: Tasks<Done<D>>,
    clock: Stopwatch,
}

// === impl EngineParts ===

impl<D: Dialect> EngineParts<D> {
    pub(super) fn new(context: Arc<Context>, watches: Watches<D::WatchEvent>) -> Self {
        Self {
            context,
            members: Members::default(),
            watches,
            schedule: Schedule::default(),
            statuses: BTreeMap::new(),
            tasks: Tasks::default(),
            clock: Stopwatch::start(),
        }
    }

    /// The time on the clock of [`Self::members`].
    pub(in crate::checks) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Begins the evaluation of a check, or begins it anew.
    pub(in crate::checks) fn begin_check(&mut self, check: &Key) {
        self.members.begin_check(check);
        self.statuses.entry(check.clone()).or_default();
    }

    /// Ends the evaluation of a check.
    pub(in crate::checks) fn end_check(&mut self, check: &Key) {
        self.members.end_check(check);
        self.statuses.remove(check);
        self.schedule.arm(check, None);
    }

    /// Sets or removes the deadline of a check.
    pub(in crate::checks) fn arm(&mut self, check: &Key, at: Option<Timestamp>) {
        self.schedule.arm(check, at);
    }

    /// Sets a timer of the dialect.
    pub(in crate::checks) fn set_timer(&mut self, at: Duration, timer: D::Timer) {
        self.schedule.set(at, &Timer::Dialect(timer));
    }

    /// Schedules a resync of a check, unless an earlier one is scheduled.
    pub(in crate::checks) fn resync_in(&mut self, after: Duration, check: &Key) {
        let at = self.now() + after;
        self.schedule.set_earlier(at, &Timer::Resync(check.clone()));
    }

    /// Schedules a status write of a check.
    pub(in crate::checks) fn status_due(&mut self, check: &Key) {
        let at = self
            .statuses
            .get_mut(check)
            .and_then(StatusSchedule::request);
        self.status_at(check, at);
    }

    pub(super) fn status_at(&mut self, check: &Key, at: Option<Duration>) {
        if let Some(at) = at {
            self.schedule.set(at, &Timer::Status(check.clone()));
        }
    }

    /// Starts a task of the dialect. `panicked` is its result if it panics.
    pub(in crate::checks) fn spawn(
        &mut self,
        panicked: D::Done,
        task: impl Future<Output = D::Done> + Send + 'static,
    ) {
        let task = async move { Done::Dialect(task.await) };
        self.tasks.spawn(Done::Dialect(panicked), task);
    }

    /// Adjusts the number of concurrent calls to the API server after one of them.
    pub(in crate::checks) fn call_ended<T>(&mut self, result: &Result<T, ApiError>) {
        let in_time = !matches!(result, Err(ApiError::Timeout { .. }));
        let now = self.now();
        self.members.call_ended(in_time, now);
    }

    /// Whether no task runs.
    #[cfg(test)]
    pub(in crate::checks) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }
}
