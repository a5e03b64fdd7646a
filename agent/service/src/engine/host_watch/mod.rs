//! Readings of the hosts that callers watch.
//!
//! Owns: one reader for each watched BMC, however many streams watch it, and the credentials of its target for as long
//! as one does. `rackhand_agent_core::watch_schedule` decides when it reads. Must never: read a host that nobody
//! watches, make a power operation wait, or end an observation that proves an off.

mod host;
mod reader;
mod stream;
mod view;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use super::{
    Target,
    authority::holds::Holds,
    bmcs::{clients::Clients, reads::Reads},
    settings::Settings,
    tasks::Tasks,
};
use host::{Host, Subscriber};
pub(crate) use stream::{Wanted, WatchStream};

/// Readings of watched hosts at the same time: BMCs that do not answer must not fill the memory of the agent, and
/// many hosts may be requested at once.
const CONCURRENT: usize = 256;

/// The hosts that are watched. Clones share them.
#[derive(Clone)]
pub(crate) struct HostWatches {
    context: Arc<Context>,
    hosts: Arc<Mutex<HashMap<String, Arc<Host>>>>,
    tasks: Tasks,
}

/// What readers use. It must not hold the tasks of the agent, one of which each of them is.
struct Context {
    clients: Arc<Clients>,
    reads: Reads,
    holds: Holds,
    settings: Settings,
    permits: Semaphore,
    begun: Instant,
    /// Numbers of subscribers, and seeds of the jitter of hosts.
    next: AtomicU64,
}

impl HostWatches {
    pub(super) fn new(
        clients: Arc<Clients>,
        reads: Reads,
        holds: Holds,
        settings: Settings,
        tasks: Tasks,
    ) -> Self {
        Self {
            context: Arc::new(Context {
                clients,
                reads,
                holds,
                settings,
                permits: Semaphore::new(CONCURRENT),
                begun: Instant::now(),
                next: AtomicU64::new(1),
            }),
            hosts: Arc::default(),
            tasks,
        }
    }

    /// A stream without hosts.
    pub(crate) fn stream(&self) -> WatchStream {
        WatchStream::new(self.clone())
    }

    /// Number of hosts that are read. One that left the inventory is kept for its streams only.
    pub(crate) fn count(&self) -> usize {
        let hosts = self.hosts.lock();
        hosts.values().filter(|host| !host.is_over()).count()
    }

    /// Subscribes to the host of a target, whose reader runs from now on. A newer target replaces the older one,
    /// because its credentials may have changed.
    fn subscribe(&self, target: Target, number: u64, subscriber: Subscriber) -> Arc<Host> {
        // Held until the host has its subscriber, so that nobody ends its reader meanwhile.
        let mut hosts = self.hosts.lock();
        if let Some(host) = hosts.get(&target.key).filter(|host| !host.is_over()) {
            host.set_target(target);
            host.subscribe(number, subscriber);
            return host.clone();
        }
        let seed = self.context.next.fetch_add(1, Ordering::Relaxed);
        let host = Arc::new(Host::new(target, self.context.begun, seed));
        host.subscribe(number, subscriber);
        hosts.insert(host.key.clone(), host.clone());
        let (context, reader) = (self.context.clone(), host.clone());
        let stop = self.tasks.stopping();
        self.tasks.spawn(async move {
            tokio::select! {
                () = reader::run(&context, &reader) => {}
                () = reader.ended() => {}
                () = stop.cancelled() => {}
            }
        });
        host
    }

    /// Ends the reader of a host that nobody watches any more.
    fn release(&self, host: &Arc<Host>) {
        let mut hosts = self.hosts.lock();
        if host.end_if_unwatched()
            && hosts
                .get(&host.key)
                .is_some_and(|known| Arc::ptr_eq(known, host))
        {
            hosts.remove(&host.key);
        }
    }
}
