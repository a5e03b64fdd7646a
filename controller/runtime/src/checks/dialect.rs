//! The differences between the dialects of health checks that the engine depends on.
//!
//! The event loop, the queue, the deadlines, the state of each member, the live reads and the rate of status
//! writes are in [`super::engine`].

use std::{collections::BTreeSet, sync::Arc};

use futures::future::BoxFuture;
use jiff::Timestamp;
use rackhand_core::checks::dispatch::HandoverState;

use super::{
    Context,
    engine::{CheckEngine, queue::Item, status_schedule::StatusSchedule},
};
use crate::{
    clusters::sync::SyncError,
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
    },
};

/// State of the engine for each check.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) pace: StatusSchedule,
    /// The members that wait for their remediation to be created.
    pub(super) handover: HandoverState,
    /// Whether the check is evaluated without acting.
    pub(super) dry_run: bool,
}

/// A health check as its dialect evaluates it.
pub(super) trait Evaluated {
    fn progress(&mut self) -> &mut Progress;

    /// How many objects its status names.
    fn names(&self) -> usize;
}

/// A dialect of health checks; the value holds the state that only this dialect needs.
///
/// Functions that start or decide something get the whole engine, for its queue and tasks.
pub(super) trait Dialect: Sized + Send + 'static {
    /// An evaluated check.
    type Check: Evaluated;
    /// The contents of the status of a check.
    type Summary: Send + 'static;
    /// Events of the watches of this dialect.
    type WatchEvent: Send + 'static;
    /// Timers of this dialect.
    type Timer: Clone + Ord;
    /// Results of the tasks of this dialect.
    type Done: Send + 'static;

    /// The kind of the checks.
    const CHECK: Kind;

    // Changes.

    /// Called at the start of the engine, after every check of the index has been read.
    fn start(_: &mut CheckEngine<Self>) {}

    /// Called after the engine has stopped.
    fn stop(_: &mut CheckEngine<Self>) {}

    /// A check was added, changed or deleted.
    fn refresh(engine: &mut CheckEngine<Self>, check: &Key);

    /// The resync of a check is due.
    fn resync(engine: &mut CheckEngine<Self>, check: &Key);

    /// The index has changed.
    fn apply(engine: &mut CheckEngine<Self>, changes: BTreeSet<Change>);

    /// A watch of this dialect reports a change.
    fn handle_event(engine: &mut CheckEngine<Self>, event: Self::WatchEvent);

    /// The deadline of a check has passed.
    fn advance(engine: &mut CheckEngine<Self>, check: &Key, now: Timestamp);

    /// A timer of this dialect is due.
    fn fire(engine: &mut CheckEngine<Self>, timer: Self::Timer);

    /// Evaluates changed checks before the next member is processed.
    fn evaluate(_: &mut CheckEngine<Self>) {}

    // Actions for a member.

    /// Processes a member from the queue: queries the action that it needs now, and starts it.
    fn turn(engine: &mut CheckEngine<Self>, item: Item);

    /// The retry of a member is due.
    fn retry(engine: &mut CheckEngine<Self>, item: &Item);

    /// A task has ended.
    fn finish(engine: &mut CheckEngine<Self>, done: Self::Done);

    // When members are handed over (F13).

    /// Whether the engine waits for the rest of a burst, because one more failure could close the limit.
    fn settles(check: &Self::Check) -> bool;

    /// Waits until the view of a check has reached what a live read shows.
    fn reach(engine: &CheckEngine<Self>, check: &Key) -> BoxFuture<'static, Result<(), SyncError>>;

    /// A live read has ended. `cleared` are the members that may be remediated now; `changed` tells whether
    /// its success has changed since the last read.
    fn cleared(
        engine: &mut CheckEngine<Self>,
        check: &Key,
        cleared: BTreeSet<Arc<str>>,
        changed: bool,
    );

    // Status.

    /// The new status of a check; `None` if it is unchanged.
    fn summary(engine: &mut CheckEngine<Self>, check: &Key) -> Option<Self::Summary>;

    /// Writes the status of a check.
    fn write_status(
        context: &Context,
        check: &Key,
        summary: &Self::Summary,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// The status of a check was not written.
    fn status_failed(_: &mut Self::Check) {}
}
