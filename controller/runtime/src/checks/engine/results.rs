//! Takes in what tasks came to.

use std::time::Instant;

use super::Engine;
use crate::{
    checks::{dialect::Dialect, queue::Item},
    clusters::sync::SyncError,
    store::{api::ApiError, object::Key},
};

/// What a task came to.
pub(in crate::checks) enum Done<D: Dialect> {
    Status(Key, Result<(), ApiError>),
    Synced(Key, u64, Result<(), SyncError>),
    Dialect(D::Done),
}

impl<D: Dialect> Engine<D> {
    /// Begins a task of the dialect. `panicked`: what it comes to if it panics.
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

    /// What was begun for a member is over: as many calls at one time as the API server answers. Returns
    /// whether something has changed for the member meanwhile.
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

    /// Holds a member until its retry.
    pub(in crate::checks) fn back_off(&mut self, item: &Item) {
        self.items.effect_failed(item);
        self.queue.failed(item, Instant::now());
    }
}

/// What a task that panicked comes to.
pub(in crate::checks) fn panicked() -> ApiError {
    ApiError::other("a task", "it panicked")
}
