//! What differs between the dialects of health checks, as far as the engine carries it out.
//!
//! Owns that list. The loop, the queue, the deadlines, the state of each member, the live reads and the
//! pace of the status are the [`super::engine`]'s.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::BoxFuture;
use jiff::Timestamp;
use rackhand_core::dispatch::HandoverState;

use super::{Context, engine::Engine, queue::Item, status_schedule::StatusSchedule};
use crate::{
    clusters::sync::SyncError,
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
    },
};

/// What the engine keeps of each check.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) pace: StatusSchedule,
    /// The members that wait to be handed over.
    pub(super) handover: HandoverState,
    /// It is evaluated, and nothing is done.
    pub(super) dry_run: bool,
}

/// A check that is evaluated.
pub(super) trait Evaluated {
    fn progress(&mut self) -> &mut Progress;
}

/// A dialect of health checks: its value is what only this dialect keeps.
///
/// Functions that begin or decide something get the whole engine, to use its queue and its tasks.
pub(super) trait Dialect: Sized + Send + 'static {
    /// A check that is evaluated.
    type Check: Evaluated;
    /// What the status of a check shows.
    type Summary: Send + 'static;
    /// What the watches of this dialect report.
    type WatchEvent: Send + 'static;
    /// What it does at a time although nothing happens.
    type Timer: Clone + Ord;
    /// What its tasks come to.
    type Done: Send + 'static;

    /// The kind of the checks.
    const CHECK: Kind;

    // What has changed.

    /// The engine begins to work: every check of the index has been read.
    fn start(_: &mut Engine<Self>) {}

    /// The engine has stopped.
    fn stop(_: &mut Engine<Self>) {}

    /// A check has come, changed or gone.
    fn refresh(engine: &mut Engine<Self>, check: &Key);

    /// The resync of a check is due.
    fn resync(engine: &mut Engine<Self>, check: &Key);

    /// The index has changed.
    fn apply(engine: &mut Engine<Self>, changes: BTreeSet<Change>);

    /// A watch of this dialect reports a change.
    fn handle_event(engine: &mut Engine<Self>, event: Self::WatchEvent);

    /// The deadline of a check is over.
    fn advance(engine: &mut Engine<Self>, check: &Key, now: Timestamp);

    /// A timer of this dialect is due.
    fn fire(engine: &mut Engine<Self>, timer: Self::Timer);

    /// Evaluates what has changed, before the next turn.
    fn evaluate(_: &mut Engine<Self>) {}

    // What is done about a member.

    /// It is the turn of a member: queries what it wants now, and begins that.
    fn turn(engine: &mut Engine<Self>, item: Item);

    /// The retry of a member is due.
    fn retry(engine: &mut Engine<Self>, item: &Item);

    /// A task has ended.
    fn finish(engine: &mut Engine<Self>, done: Self::Done);

    // When members are handed over (F13).

    /// Whether the rest of a burst is waited for: one more failure could close the limit.
    fn settles(check: &Self::Check) -> bool;

    /// Waits until the view of a check has reached what a live read shows.
    fn reach(engine: &Engine<Self>, check: &Key) -> BoxFuture<'static, Result<(), SyncError>>;

    /// A live read is over. `cleared`: the members that may be handed over now; `changed`: whether it failed
    /// has changed.
    fn cleared(engine: &mut Engine<Self>, check: &Key, cleared: BTreeSet<Arc<str>>, changed: bool);

    // What the status shows.

    /// What the status of a check shall show; `None`: it does so already.
    fn summary(engine: &mut Engine<Self>, check: &Key) -> Option<Self::Summary>;

    /// Writes the status of a check.
    fn write_status(
        context: &Context,
        check: &Key,
        summary: &Self::Summary,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// The status of a check was not written.
    fn status_failed(_: &mut Self::Check) {}
}
