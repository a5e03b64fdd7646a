//! The processes of a simulation.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;

/// A process, the same before and after it is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub(super) i32);

impl ProcessId {
    /// The bytes that it holds, where the program counts them.
    #[must_use]
    pub fn bytes_held(self) -> usize {
        rackhand_interpose::bytes_held(self.0)
    }
}

/// What a process runs: one life of it, with the reason of its end.
pub type Program = Arc<dyn Fn(ProcessId) -> BoxFuture<'static, String>>;

/// What a process sees of time beside the right time, and whether it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// It has a runtime.
    pub alive: bool,
    /// It is stopped (SIGSTOP); its clocks go on.
    pub paused: bool,
    /// By how much its wall clock is wrong, in milliseconds.
    pub wall_error: i64,
    /// By how much its wall clock was wrong when it started.
    pub origin_error: i64,
    /// For how long its machine was suspended, which `CLOCK_MONOTONIC` does not count.
    pub suspended: Duration,
    /// How often it was started.
    pub lives: u32,
}

/// A time that is shifted by so many milliseconds.
pub(super) fn shift(time: Duration, by: i64) -> Duration {
    let by_duration = Duration::from_millis(by.unsigned_abs());
    if by < 0 {
        time.saturating_sub(by_duration)
    } else {
        time + by_duration
    }
}

/// One process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) state: State,
    /// When its next timer is due.
    pub(super) due: Option<Duration>,
    /// It is in the queue of those that run next.
    pub(super) queued: bool,
    /// Something has happened for it while it was paused.
    pub(super) missed: bool,
}
