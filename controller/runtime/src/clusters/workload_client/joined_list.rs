//! One list at a time, for all callers that asked before it began.
//!
//! `rackhand_core::watches::shared_list` decides whom a list answers. The callers carry the list on: it ends with the last
//! of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use rackhand_core::watches::shared_list::SharedList;
use tokio::sync::Semaphore;

use crate::store::{
    api::{ApiError, CALL_TIMEOUT},
    clock,
};

/// The objects of each Node that was asked about, or why they are not known.
type Listed<T> = Result<Arc<BTreeMap<String, T>>, String>;
/// Lists the objects of these Nodes.
pub(super) type List<T> = Arc<
    dyn Fn(BTreeSet<String>) -> BoxFuture<'static, Result<BTreeMap<String, T>, ApiError>>
        + Send
        + Sync,
>;

/// The lists of one kind in one cluster.
pub(super) struct JoinedList<T> {
    list: List<T>,
    /// Least time between the beginnings of two lists.
    gap: Duration,
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
    pub(super) fn new(list: List<T>, gap: Duration) -> Self {
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

    /// The objects of this Node by a list that begins after this call.
    pub(super) async fn of(&self, what: &str, node: &str) -> Result<T, ApiError> {
        let next = {
            let mut pending = self.pending.lock();
            pending.questions.ask(node);
            let next = pending.next.get_or_insert_with(|| self.next());
            next.clone()
        };
        let listed = next.await.map_err(|why| ApiError::other(what, why))?;
        let of = listed.get(node).cloned();
        of.ok_or_else(|| ApiError::other(what, "the list is of other nodes"))
    }

    fn next(&self) -> Shared<BoxFuture<'static, Listed<T>>> {
        let (list, gap) = (self.list.clone(), self.gap);
        let (pending, one) = (self.pending.clone(), self.one.clone());
        let next = async move {
            let _one = one.acquire().await.map_err(|e| e.to_string())?;
            let pause = pending.lock().questions.pause(gap, clock::monotonic_now());
            tokio::time::sleep(pause.min(CALL_TIMEOUT)).await;
            let nodes = {
                let mut pending = pending.lock();
                // From here on callers cannot join.
                pending.next = None;
                pending.questions.begin(clock::monotonic_now())
            };
            let listed = list(nodes).await.map_err(|e| e.to_string())?;
            let mut pending = pending.lock();
            pending.questions.complete(clock::monotonic_now());
            Ok(Arc::new(listed))
        };
        next.boxed().shared()
    }

    #[cfg(test)]
    pub(super) fn is_pending(&self) -> bool {
        self.pending.lock().next.is_some()
    }
}
