//! One list at a time, for all callers that asked before it began.
//!
//! `rackhand_core::watches::shared_list` decides whom a list answers. The callers carry the list on: it ends with the last
//! of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::watches::shared_list::{Gap, SharedList};
use tokio::sync::Semaphore;

use crate::store::{
    api::{ApiError, CALL_TIMEOUT},
    clock,
};

/// The answers of a list, by the names that were asked about, and the time before it began.
type Listed<T> = Result<Arc<(BTreeMap<String, T>, Timestamp)>, Arc<ApiError>>;
/// Reads what is asked about these names.
pub(crate) type List<T> = Arc<
    dyn Fn(BTreeSet<String>) -> BoxFuture<'static, Result<BTreeMap<String, T>, ApiError>>
        + Send
        + Sync,
>;

/// The lists of one kind in one cluster.
pub(crate) struct JoinedList<T> {
    list: List<T>,
    gap: Gap,
    pending: Arc<Mutex<Pending<T>>>,
    /// Permits one list at a time.
    one: Arc<Semaphore>,
}

struct Pending<T> {
    questions: SharedList,
    /// The list that has not begun yet, which callers may still join.
    next: Option<Shared<BoxFuture<'static, Listed<T>>>>,
}

// === impl JoinedList ===

impl<T: Clone + Send + Sync + 'static> JoinedList<T> {
    pub(crate) fn new(list: List<T>, gap: Gap) -> Self {
        Self {
            list,
            gap,
            pending: Arc::new(Mutex::new(Pending {
                questions: SharedList::default(),
                next: None,
            })),
            one: Arc::new(Semaphore::new(1)),
        }
    }

    /// The answer about this name by a list that begins after this call, and the time before that list.
    ///
    /// # Errors
    /// The list has failed, for all that share it.
    pub(crate) async fn of(&self, name: &str) -> Result<(T, Timestamp), Arc<ApiError>> {
        let next = {
            let mut pending = self.pending.lock();
            pending.questions.ask(name);
            let next = pending.next.get_or_insert_with(|| self.next());
            next.clone()
        };
        let listed = next.await?;
        let (answers, begun) = &*listed;
        let of = answers.get(name).cloned();
        let missing = || Arc::new(ApiError::other(name, "the list is about others"));
        Ok((of.ok_or_else(missing)?, *begun))
    }

    fn next(&self) -> Shared<BoxFuture<'static, Listed<T>>> {
        let (list, gap) = (self.list.clone(), self.gap);
        let (pending, one) = (self.pending.clone(), self.one.clone());
        let next = async move {
            let one = one.acquire().await;
            let _one = one.map_err(|error| Arc::new(ApiError::other("list", error)))?;
            let pause = pending.lock().questions.pause(gap, clock::monotonic_now());
            tokio::time::sleep(pause.min(CALL_TIMEOUT)).await;
            let begun = clock::monotonic_now();
            let names = {
                let mut pending = pending.lock();
                // From here on callers cannot join.
                pending.next = None;
                pending.questions.begin(begun)
            };
            let answers = list(names).await.map_err(Arc::new)?;
            let mut pending = pending.lock();
            pending.questions.complete(clock::monotonic_now());
            Ok(Arc::new((answers, begun)))
        };
        next.boxed().shared()
    }

    #[cfg(test)]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.lock().next.is_some()
    }
}
