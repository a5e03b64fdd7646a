//! The differences between the dialects of health checks that the engine depends on.
//!
//! The event loop, the deadlines, the live reads and the rate of status writes are in [`super::engine`], and the
//! bookkeeping for members in `rackhand_core::checks::dispatch`.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::{
    Context,
    engine::{EngineParts, queue::Item},
};
use crate::{
    clusters::sync::SyncError,
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
    },
};

/// A dialect of health checks; the value holds the evaluated checks.
///
/// It begins and ends their evaluation at the engine, which it gets for its bookkeeping, timers and tasks.
pub(super) trait Dialect: Sized + Send + 'static {
    /// The contents of the status of a check.
    type Status: Send + 'static;
    /// Events of the watches of this dialect.
    type WatchEvent: Send + 'static;
    /// Timers of this dialect.
    type Timer: Clone + Ord + Send;
    /// Results of the tasks of this dialect.
    type Done: Send + 'static;

    /// The kind of the checks.
    const CHECK: Kind;

    // Changes.

    /// Called at the start of the engine, after every check was read.
    fn start(&mut self, _: &mut EngineParts<Self>) {}

    /// Called after the engine has stopped.
    fn stop(context: &Context);

    /// The index has changed; at the start of the engine, by every check.
    fn apply(&mut self, engine: &mut EngineParts<Self>, changes: BTreeSet<Change>);

    /// The resync of a check is due.
    fn resync(&mut self, engine: &mut EngineParts<Self>, check: &Key);

    /// A watch of this dialect reports a change.
    fn handle_event(&mut self, engine: &mut EngineParts<Self>, event: Self::WatchEvent);

    /// The deadline of a check has passed.
    fn advance(&mut self, engine: &mut EngineParts<Self>, check: &Key, now: Timestamp);

    /// A timer of this dialect is due.
    fn fire(&mut self, engine: &mut EngineParts<Self>, timer: Self::Timer);

    /// Does one small piece of the work that is left. Returns whether there was one. The engine calls it until
    /// nothing is left, and lets other tasks run in between, before the next member is processed.
    fn work(&mut self, _: &mut EngineParts<Self>) -> bool {
        false
    }

    /// Evaluates changed checks before the next member is processed.
    fn evaluate(&mut self, _: &mut EngineParts<Self>) {}

    // Actions for a member.

    /// Processes a member from the queue: queries the action that it needs now, and starts it.
    fn turn(&mut self, engine: &mut EngineParts<Self>, item: Item);

    /// The retry of a member is due.
    fn retry(&mut self, engine: &mut EngineParts<Self>, item: &Item);

    /// A task has ended.
    fn finish(&mut self, engine: &mut EngineParts<Self>, done: Self::Done);

    // When members are handed over (F13).

    /// Whether the engine waits for the rest of a burst, because one more failure could close the limit.
    fn settles(&self, check: &Key) -> bool;

    /// Waits until the view of a check has reached what a live read shows.
    fn reach(
        &self,
        context: &Arc<Context>,
        check: &Key,
    ) -> BoxFuture<'static, Result<(), SyncError>>;

    /// A live read has ended. `cleared` are the members that may be remediated now; `changed` tells whether
    /// its success has changed since the last read.
    fn cleared(
        &mut self,
        engine: &mut EngineParts<Self>,
        check: &Key,
        cleared: BTreeSet<Arc<str>>,
        changed: bool,
    );

    // Status.

    /// The status of a check to write; `None` if it is unchanged, or if the check is a dry run.
    fn status(&mut self, engine: &EngineParts<Self>, check: &Key) -> Option<Self::Status>;

    /// How many objects the status of a check names.
    fn names(&self, check: &Key) -> usize;

    /// Writes the status of a check.
    fn write_status(
        context: &Context,
        check: &Key,
        status: &Self::Status,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// The status of a check was not written.
    fn status_failed(&mut self, _check: &Key) {}
}
