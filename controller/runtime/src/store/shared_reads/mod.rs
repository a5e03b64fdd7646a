//! Reads that several callers share.
//!
//! Many remediations ask for the same object, or for objects of the same kind, at the same time. Invariant: an answer was
//! asked for after the caller came; who comes while a read is under way shares the next one ([`JoinedList`]).

mod joined_list;

use std::{collections::BTreeMap, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use rackhand_core::watches::shared_list::Gap;

pub(crate) use self::joined_list::{JoinedList, List};
use super::{api::ApiError, object::Key};

/// Reads one object.
type Read = Arc<dyn Fn(Key) -> BoxFuture<'static, Result<(), ApiError>> + Send + Sync>;

/// Reads of objects of one kind, each a list of its own that answers about one name; at most one of each object at a time.
pub(crate) struct SharedReads {
    read: Read,
    reads: Mutex<BTreeMap<Key, Arc<JoinedList<()>>>>,
}

// === impl SharedReads ===

impl SharedReads {
    pub(crate) fn new(read: Read) -> Self {
        Self {
            read,
            reads: Mutex::default(),
        }
    }

    /// Reads the object, or shares the read of another caller that begins after this call.
    ///
    /// # Errors
    /// The read has failed, for all that share it.
    pub(crate) async fn read(&self, key: &Key) -> Result<(), ApiError> {
        let place = {
            let mut reads = self.reads.lock();
            let place = reads.entry(key.clone());
            place.or_insert_with(|| self.of(key)).clone()
        };
        let name = key.to_string();
        let result = place.of(&name).await;
        let mut all = self.reads.lock();
        // This caller and the map have it: nobody waits.
        if Arc::strong_count(&place) <= 2 {
            all.remove(key);
        }
        let shared = |error: Arc<ApiError>| ApiError::other(name, error);
        result.map(|_| ()).map_err(shared)
    }

    fn of(&self, key: &Key) -> Arc<JoinedList<()>> {
        let (read, key) = (self.read.clone(), key.clone());
        let list: List<()> = Arc::new(move |names| {
            let read = read(key.clone());
            let answer = async move {
                read.await?;
                Ok(names.into_iter().map(|name| (name, ())).collect())
            };
            answer.boxed()
        });
        Arc::new(JoinedList::new(list, Gap::NONE))
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
        let (begun, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (begins, ends) = (begun.clone(), done.clone());
        let reads = SharedReads::new(Arc::new(move |_| {
            let (begins, ends) = (begins.clone(), ends.clone());
            let read = async move {
                begins.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_secs(3)).await;
                ends.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            read.boxed()
        }));
        let key = Key::new("ns", "a");
        let read_from = |second: u64| {
            let (reads, key, begun, done) = (&reads, &key, &begun, &done);
            async move {
                sleep(Duration::from_secs(second)).await;
                let before = begun.load(Ordering::SeqCst);
                reads.read(key).await.unwrap();
                // The answer is not that of a read that was under way.
                assert!(done.load(Ordering::SeqCst) > before, "from {second}");
            }
        };
        join_all([0, 1, 1, 2, 2].map(read_from)).await;
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        assert!(reads.reads.lock().is_empty());
        read_from(0).await;
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn read_of_one_object_does_not_wait_for_that_of_another() {
        let reads = SharedReads::new(Arc::new(|key: Key| {
            let read = async move {
                sleep(Duration::from_secs(u64::from(key.name == "slow") * 3)).await;
                Ok(())
            };
            read.boxed()
        }));
        let start = tokio::time::Instant::now();
        let (slow, quick) = (Key::new("ns", "slow"), Key::new("ns", "quick"));
        let quick = async {
            sleep(Duration::from_secs(1)).await;
            reads.read(&quick).await.unwrap();
            start.elapsed()
        };
        let (_, took) = tokio::join!(reads.read(&slow), quick);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_that_of_all_that_share_the_read() {
        let reads = SharedReads::new(Arc::new(|_| {
            let read = async {
                sleep(Duration::from_secs(3)).await;
                Err(ApiError::other("cluster", "away"))
            };
            read.boxed()
        }));
        let key = Key::new("ns", "a");
        let failing = |second: u64| {
            let (reads, key) = (&reads, &key);
            async move {
                sleep(Duration::from_secs(second)).await;
                reads.read(key).await
            }
        };
        let results = join_all([0, 1, 1, 2].map(failing)).await;
        assert!(results.iter().all(Result::is_err));
        assert!(reads.reads.lock().is_empty());
    }
}
