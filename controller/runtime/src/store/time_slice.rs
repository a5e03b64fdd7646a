//! Long work in short slices.
//!
//! One thread runs all tasks of the controller, so that a loop over a large fleet would delay the renewal of the
//! Lease, the streams of agents and every remediation.

use std::{
    future::poll_fn,
    pin::pin,
    time::{Duration, Instant},
};

use tokio::runtime::{Handle, RuntimeFlavor};

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

/// The number of objects from which on a computation over them is done beside the other tasks. Fewer take less than a
/// slice.
const MANY: usize = 100;

/// Does one computation over so many objects that cannot be cut into slices. The tasks of the controller go on in another
/// thread meanwhile; a runtime of one thread does it at once. Not to be called with a lock that other tasks wait for.
pub(crate) fn beside<T>(objects: usize, compute: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if objects > MANY => tokio::task::block_in_place(compute),
        _ => compute(),
    }
}

/// Like [`beside`], for a pass over the whole fleet, whose size its caller does not know.
pub(crate) fn beside_all<T>(compute: impl FnOnce() -> T) -> T {
    beside(usize::MAX, compute)
}

/// Waits for a future, each step of which is done beside the other tasks: one that parses the answer to a large list.
pub(crate) async fn beside_polls<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| beside_all(|| future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    /// How often other tasks run while this one computes.
    async fn turns_beside(objects: usize) -> u32 {
        let turns = Arc::new(AtomicU32::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let measured = tokio::spawn(async move {
            tokio::task::yield_now().await;
            let before = turns.load(Ordering::Relaxed);
            let reached = || turns.load(Ordering::Relaxed) >= before + 3;
            let until = Instant::now() + Duration::from_secs(if objects > MANY { 10 } else { 0 });
            beside(objects, || {
                while !reached() && Instant::now() < until {
                    std::thread::yield_now();
                }
            });
            turns.load(Ordering::Relaxed) - before
        });
        let turned = measured.await.unwrap();
        other.abort();
        turned
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_beside_a_computation_over_many_objects() {
        assert!(turns_beside(MANY + 1).await >= 3);
        assert_eq!(beside(MANY, || 7), 7);
    }

    #[tokio::test]
    async fn runtime_of_one_thread_computes_at_once() {
        assert_eq!(beside(MANY + 1, || 7), 7);
    }

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
