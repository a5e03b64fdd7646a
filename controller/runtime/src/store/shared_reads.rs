//! Reads that several callers share.
//!
//! Many remediations ask for the same object at the same time. Invariant: an answer was asked for after the caller came;
//! who comes while a read is under way shares the next one.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::{api::ApiError, object::Key};

/// Reads of objects of one kind, at most one of each object at a time.
#[derive(Default)]
pub(crate) struct SharedReads(Mutex<BTreeMap<Key, Arc<AsyncMutex<Option<SharedRead>>>>>);

/// The last read of an object.
struct SharedRead {
    /// The time before it.
    begun: Instant,
    result: Result<(), String>,
}

impl SharedReads {
    /// Reads the object by `read`, or shares the read of another caller that begins after this call.
    ///
    /// # Errors
    /// The read has failed, for all that share it.
    pub(crate) async fn read<F>(&self, key: &Key, read: impl FnOnce() -> F) -> Result<(), ApiError>
    where
        F: Future<Output = Result<(), ApiError>>,
    {
        let asked = Instant::now();
        let place = self.0.lock().entry(key.clone()).or_default().clone();
        let mut last = place.lock().await;
        let shared = last.as_ref().filter(|last| last.begun >= asked);
        let result = match shared {
            Some(shared) => shared
                .result
                .clone()
                .map_err(|why| ApiError::other(key.to_string(), why)),
            None => {
                let begun = Instant::now();
                let result = read().await;
                *last = Some(SharedRead {
                    begun,
                    result: result.as_ref().copied().map_err(ToString::to_string),
                });
                result
            }
        };
        drop(last);
        let mut all = self.0.lock();
        // This caller and the map have it: nobody waits.
        if Arc::strong_count(&place) <= 2 {
            all.remove(key);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn f12_callers_share_a_read_that_begins_after_they_came() {
        let reads = SharedReads::default();
        let (begun, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let key = Key::new("ns", "a");
        let read_from = |second: u64| {
            let (reads, key, begun, done) = (&reads, &key, &begun, &done);
            async move {
                sleep(Duration::from_secs(second)).await;
                let before = begun.load(Ordering::SeqCst);
                let read = || async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_secs(3)).await;
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                reads.read(key, read).await.unwrap();
                // The answer is not that of a read that was under way.
                assert!(done.load(Ordering::SeqCst) > before, "from {second}");
            }
        };
        join_all([0, 1, 1, 2, 2].map(read_from)).await;
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        assert!(reads.0.lock().is_empty());
        read_from(0).await;
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_that_of_all_that_share_the_read() {
        let reads = SharedReads::default();
        let key = Key::new("ns", "a");
        let (reads, key) = (&reads, &key);
        let failing = |second: u64| async move {
            sleep(Duration::from_secs(second)).await;
            let read = || async {
                sleep(Duration::from_secs(3)).await;
                Err(ApiError::other("cluster", "away"))
            };
            reads.read(key, read).await
        };
        let results = join_all([0, 1, 1, 2].map(failing)).await;
        assert!(results.iter().all(Result::is_err));
        assert!(reads.0.lock().is_empty());
    }
}
