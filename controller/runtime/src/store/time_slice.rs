//! Long work in short slices.
//!
//! One thread runs all tasks of the controller, so that a loop over a large fleet would delay the renewal of the
//! Lease, the streams of agents and every remediation.

use std::time::{Duration, Instant};

/// How long a task works before others get the thread.
const SLICE: Duration = Duration::from_millis(1);

/// The time since this task began to run.
pub(crate) struct TimeSlice(Instant);

impl TimeSlice {
    /// Begins the first slice.
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Lets other tasks run if the slice is over. Called between two small pieces of work.
    pub(crate) async fn pause_if_over(&mut self) {
        if self.0.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            *self = Self::begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_between_two_slices() {
        let turns = Arc::new(AtomicU32::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..3 {
            let before = turns.load(Ordering::Relaxed);
            TimeSlice(Instant::now() + SLICE).pause_if_over().await;
            assert_eq!(turns.load(Ordering::Relaxed), before, "it is not over");
            let mut over = TimeSlice(Instant::now().checked_sub(SLICE).unwrap());
            over.pause_if_over().await;
            assert!(turns.load(Ordering::Relaxed) > before);
        }
        other.abort();
    }
}
