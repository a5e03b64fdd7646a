//! Handling of the results of tasks.

use std::time::Instant;

use super::{CheckEngine, queue::Item};
use crate::{
    checks::dialect::Dialect,
    clusters::sync::SyncError,
    store::{api::ApiError, object::Key},
};

/// The result of a task.
pub(in crate::checks) enum Done<D: Dialect> {
    Status(Key, Result<(), ApiError>),
    Synced(Key, u64, Result<(), SyncError>),
    Dialect(D::Done),
}

impl<D: Dialect> CheckEngine<D> {
    /// Starts a task of the dialect. `panicked` is its result if it panics.
    pub(in crate::checks) fn spawn(
        &mut self,
        panicked: D::Done,
        task: impl Future<Output = D::Done> + Send + 'static,
    ) {
        let task = async move { Done::Dialect(task.await) };
        self.tasks.spawn(Done::Dialect(panicked), task);
    }

    /// A task has ended.
    pub(super) fn finish(&mut self, done: Done<D>) {
        match done {
            Done::Status(check, result) => self.status_ended(&check, &result),
            Done::Synced(check, read, result) => self.synced(&check, read, result),
            Done::Dialect(done) => D::finish(self, done),
        }
    }

    /// Ends the action of a member and adjusts the number of concurrent calls to the API server. Returns
    /// whether the member has changed meanwhile.
    pub(in crate::checks) fn end_turn<T>(
        &mut self,
        item: &Item,
        result: &Result<T, ApiError>,
    ) -> bool {
        match result {
            Err(ApiError::Timeout { .. }) => self.queue.unanswered(Instant::now()),
            _ => self.queue.answered(),
        }
        self.queue.end(item)
    }

    /// Delays a member until its retry.
    pub(in crate::checks) fn back_off(&mut self, item: &Item) {
        self.items.effect_failed(item);
        self.queue.failed(item, Instant::now());
    }
}

/// The error of a task that panicked.
pub(in crate::checks) fn panicked() -> ApiError {
    ApiError::other("a task", "it panicked")
}
