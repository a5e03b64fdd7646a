//! The way to one BMC, and who may use it in which order (F6).
//!
//! Owns: waiting for a turn at a host and for the BMC itself; the order is decided in `state`. Must
//! never: let two calls go to one BMC at once, or keep a fence waiting for longer than the call
//! that is under way.

mod registry;
mod state;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::handle::Handle;
use crate::{host_key::HostKeys, journal::Action};
pub(crate) use registry::BmcQueues;
use state::State;
pub(crate) use state::{Class, Rank};

impl Rank {
    pub(crate) fn of(action: Action) -> Self {
        match action {
            Action::Off { .. } => Self::HardOff,
            Action::SoftOff | Action::On | Action::Cycle | Action::Reset | Action::Nmi => {
                Self::Other
            }
        }
    }
}

/// The order at one BMC, and those who wait for it.
#[derive(Debug)]
pub(crate) struct BmcQueue {
    inner: Mutex<Inner>,
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    operations: BTreeMap<u64, Member>,
}

/// An operation in the queue.
#[derive(Debug)]
struct Member {
    handle: Arc<Handle>,
    keys: HostKeys,
    /// What its host is called in `state`.
    host: String,
}

impl Inner {
    /// What a host is called in `state`: as another operation called it already, or by its own key.
    fn host(&self, key: &str, keys: &HostKeys) -> String {
        let mut members = self.operations.values();
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
    /// The BMC, once it is the turn of this call. It is given back with the value.
    pub(crate) async fn call(&self, class: Class) -> Call<'_> {
        let number = self.inner.lock().state.request_call(class);
        let call = Call {
            queue: self,
            number,
        };
        // A reader under way may have to make room.
        self.moved.send_replace(());
        self.until(|state| state.take_call(number)).await;
        call
    }

    /// Returns when the state lets `is_so` be true.
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

/// A call that waits for the BMC, or has it.
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

/// An operation's place in the queue of its host; dropping it gives it up, and the turn with it.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<BmcQueue>,
    host: String,
    number: u64,
}

impl Place {
    /// Takes a place at the host of the operation, and returns the operations that lost theirs to
    /// it.
    pub(crate) fn take(
        queue: Arc<BmcQueue>,
        rank: Rank,
        handle: Arc<Handle>,
        keys: HostKeys,
    ) -> (Self, Vec<Arc<Handle>>) {
        let mut inner = queue.inner.lock();
        let host = inner.host(&handle.key, &keys);
        let (number, overtaken) = inner.state.join(&host, rank);
        let overtaken = overtaken
            .iter()
            .filter_map(|other| Some(inner.operations.get(other)?.handle.clone()));
        let overtaken = overtaken.collect();
        let member = Member {
            handle,
            keys,
            host: host.clone(),
        };
        inner.operations.insert(number, member);
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

    /// Waits until it is its turn; one that has lost its place waits for ever.
    pub(crate) async fn turn(&self) {
        self.queue
            .until(|state| state.has_turn(&self.host, self.number))
            .await;
    }

    /// From now on it is not overtaken any more.
    pub(crate) fn hold_turn(&self) {
        let mut inner = self.queue.inner.lock();
        inner.state.hold_turn(&self.host, self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.queue.inner.lock();
        inner.state.leave(&self.host, self.number);
        inner.operations.remove(&self.number);
        drop(inner);
        self.queue.moved.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_learns_that_an_operation_waits() {
        let queue = BmcQueue::default();
        let reading = queue.call(Class::Reader).await;
        let waiting = queue.call(Class::Operation);
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        reading.wanted().await;
        drop(reading);
        let operation = waiting.await;
        let wanted = operation.wanted();
        tokio::pin!(wanted);
        assert!(futures::poll!(wanted).is_pending(), "nobody waits any more");
    }

    #[tokio::test]
    async fn one_that_gives_up_waiting_holds_nobody_up() {
        let queue = BmcQueue::default();
        let reading = queue.call(Class::Reader).await;
        let mut gone = Box::pin(queue.call(Class::Fence));
        assert!(futures::poll!(gone.as_mut()).is_pending());
        drop(gone);
        assert!(!reading.must_yield());
        drop(reading);
        queue.call(Class::Reader).await;
    }
}
