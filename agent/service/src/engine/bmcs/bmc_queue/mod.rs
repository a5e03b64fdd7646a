//! The queue of one BMC: one call at a time, one operation at a time per host (F6).
//!
//! Owns: waiting for the turn at a host, and for the BMC itself; `rackhand_agent_core::bmc_queue` decides the
//! order. Must never: send two calls to one BMC at once, or delay fencing by more than the call in flight.

mod registry;

use std::sync::Arc;

use parking_lot::Mutex;
use rackhand_agent_core::{
    bmc_queue::{CallClass, OperationRank, State},
    host_key::HostKeys,
};
use tokio::sync::watch;

use crate::engine::operations::handle::Handle;
pub(crate) use registry::BmcQueues;

/// The queue of one BMC.
#[derive(Debug)]
pub(crate) struct BmcQueue {
    inner: Mutex<Inner>,
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// In the order of their numbers.
    operations: Vec<Member>,
}

/// An operation in the queue.
#[derive(Debug)]
struct Member {
    number: u64,
    handle: Arc<Handle>,
    keys: HostKeys,
    /// Name of its host in `state`.
    host: String,
}

impl Inner {
    /// The name of a host in `state`: the name that another operation already uses, or its own key.
    fn host(&self, key: &str, keys: &HostKeys) -> String {
        let mut members = self.operations.iter();
        let same = members.find(|member| member.keys.matches(keys));
        same.map_or_else(|| key.to_owned(), |member| member.host.clone())
    }
}

impl Default for BmcQueue {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            moved: watch::channel(()).0,
        }
    }
}

impl BmcQueue {
    /// Waits for the exclusive use of the BMC; dropping the value ends it.
    pub(crate) async fn call(&self, class: CallClass) -> Call<'_> {
        let number = self.inner.lock().state.request_call(class);
        let call = Call {
            queue: self,
            number,
        };
        // A reader in flight may have to yield.
        self.moved.send_replace(());
        self.until(|state| state.take_call(number)).await;
        call
    }

    /// Whether an operation of this host waits or runs.
    pub(crate) fn has_operation(&self, keys: &HostKeys) -> bool {
        let inner = self.inner.lock();
        let mut members = inner.operations.iter();
        members.any(|member| member.keys.matches(keys))
    }

    /// Waits until `is_so` returns true.
    async fn until(&self, mut is_so: impl FnMut(&mut State) -> bool) {
        let mut moved = self.moved.subscribe();
        while !is_so(&mut self.inner.lock().state) {
            // The sender lives as long as the queue.
            if moved.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A call that waits for the BMC, or uses it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    queue: &'a BmcQueue,
    number: u64,
}

impl Call<'_> {
    /// Whether a call of a higher class waits.
    pub(crate) fn must_yield(&self) -> bool {
        self.queue.inner.lock().state.must_yield(self.number)
    }

    /// Waits until a call of a higher class waits.
    pub(crate) async fn wanted(&self) {
        let number = self.number;
        self.queue.until(|state| state.must_yield(number)).await;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.queue.inner.lock().state.end_call(self.number);
        self.queue.moved.send_replace(());
    }
}

/// The position of an operation in the queue of its host; dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct QueuePosition {
    queue: Arc<BmcQueue>,
    host: String,
    number: u64,
}

impl QueuePosition {
    /// Joins the queue of a host, and returns the operations that this one replaces.
    pub(crate) fn take(
        queue: Arc<BmcQueue>,
        rank: OperationRank,
        handle: Arc<Handle>,
        keys: HostKeys,
    ) -> (Self, Vec<Arc<Handle>>) {
        let mut inner = queue.inner.lock();
        let host = inner.host(&handle.key, &keys);
        let (number, overtaken) = inner.state.join(&host, rank);
        let members = inner.operations.iter();
        let replaced = members.filter(|member| overtaken.contains(&member.number));
        let overtaken = replaced.map(|member| member.handle.clone()).collect();
        let member = Member {
            number,
            handle,
            keys,
            host: host.clone(),
        };
        inner.operations.push(member);
        drop(inner);
        let place = Self {
            queue,
            host,
            number,
        };
        (place, overtaken)
    }

    pub(crate) fn queue(&self) -> &BmcQueue {
        &self.queue
    }

    /// Waits for the turn. An operation that was replaced waits until it is cancelled.
    pub(crate) async fn turn(&self) {
        self.queue
            .until(|state| state.has_turn(&self.host, self.number))
            .await;
    }

    /// From now on the operation cannot be replaced.
    pub(crate) fn hold_turn(&self) {
        let mut inner = self.queue.inner.lock();
        inner.state.hold_turn(&self.host, self.number);
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        let mut inner = self.queue.inner.lock();
        inner.state.leave(&self.host, self.number);
        let number = self.number;
        inner.operations.retain(|member| member.number != number);
        drop(inner);
        self.queue.moved.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reader_is_notified_of_a_waiting_operation() {
        let queue = BmcQueue::default();
        let reading = queue.call(CallClass::Reader).await;
        let waiting = queue.call(CallClass::Operation);
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        reading.wanted().await;
        drop(reading);
        let operation = waiting.await;
        let wanted = operation.wanted();
        tokio::pin!(wanted);
        assert!(futures::poll!(wanted).is_pending(), "no operation waits");
    }

    #[tokio::test]
    async fn abandoned_wait_does_not_block_the_queue() {
        let queue = BmcQueue::default();
        let reading = queue.call(CallClass::Reader).await;
        let mut gone = Box::pin(queue.call(CallClass::Fence));
        assert!(futures::poll!(gone.as_mut()).is_pending());
        drop(gone);
        assert!(!reading.must_yield());
        drop(reading);
        queue.call(CallClass::Reader).await;
    }
}
