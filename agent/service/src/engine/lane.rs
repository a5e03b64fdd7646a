//! The way to one BMC endpoint, and who may use it in which order (F6).
//!
//! Owns: one operation at a time, one call at a time, and the one case in which the order of
//! asking does not count: a hard power-off takes the place of what waits for a host to shut down.
//! Must never: let two hard power-offs overtake each other, or anything overtake another host's
//! command that is under way.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::handle::Handle;
use crate::{config::Inventory, journal::Action};

/// What one BMC can do at once: one operation, one call.
#[derive(Debug)]
pub(crate) struct Lane {
    queue: Mutex<Queue<Arc<Handle>>>,
    moved: watch::Sender<()>,
    call: Semaphore,
    /// How many operations wait for the call.
    urgent: watch::Sender<usize>,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            moved: watch::channel(()).0,
            call: Semaphore::new(1),
            urgent: watch::channel(0).0,
        }
    }
}

impl Lane {
    /// The BMC for one call, in the order of asking.
    pub(crate) async fn call(&self) -> SemaphorePermit<'_> {
        permit(&self.call).await
    }

    /// The same for an operation: who reads at length makes way.
    pub(crate) async fn urgent(&self) -> SemaphorePermit<'_> {
        struct Waiting<'a>(&'a watch::Sender<usize>);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0
                    .send_modify(|waiting| *waiting = waiting.saturating_sub(1));
            }
        }
        self.urgent.send_modify(|waiting| *waiting += 1);
        let _waiting = Waiting(&self.urgent);
        permit(&self.call).await
    }

    /// Waits until an operation waits for the call.
    pub(crate) async fn wanted(&self) {
        let mut urgent = self.urgent.subscribe();
        if urgent.wait_for(|waiting| *waiting > 0).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Every lane that is in use, and which endpoints share one.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// For each endpoint of the inventory the one that stands for all of its hosts.
    shared: HashMap<String, String>,
    lanes: HashMap<String, Arc<Lane>>,
}

impl Lanes {
    pub(crate) fn new(inventory: &Inventory) -> Self {
        Self {
            shared: inventory.lanes(),
            lanes: HashMap::new(),
        }
    }

    /// That of an endpoint.
    pub(crate) fn of(&mut self, endpoint: String) -> Arc<Lane> {
        let shared = self.shared.get(&endpoint).cloned();
        let lane = shared.unwrap_or(endpoint);
        self.lanes.entry(lane).or_default().clone()
    }

    /// Forgets those that nobody uses.
    pub(crate) fn sweep(&mut self) {
        self.lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
    }

    /// Goes by another inventory. A lane in use stays the lane of its endpoints, so that nobody
    /// passes by what goes on there.
    ///
    /// # Errors
    /// Endpoints that would have to share a lane while each of theirs is in use.
    pub(crate) fn change(&mut self, inventory: &Inventory) -> Result<(), Vec<String>> {
        self.sweep();
        let used = |endpoint: &String| {
            let lane = self.shared.get(endpoint).unwrap_or(endpoint);
            self.lanes.contains_key(lane).then(|| lane.clone())
        };
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (endpoint, first) in inventory.lanes() {
            groups.entry(first).or_default().push(endpoint);
        }
        let mut shared = HashMap::new();
        for (first, endpoints) in groups {
            let mut lanes: Vec<String> = endpoints.iter().filter_map(used).collect();
            lanes.sort();
            lanes.dedup();
            if lanes.len() > 1 {
                return Err(lanes);
            }
            let lane = lanes.pop().unwrap_or(first);
            shared.extend(endpoints.into_iter().map(|one| (one, lane.clone())));
        }
        // What has left the inventory goes on in its lane until it ends.
        for (endpoint, lane) in &self.shared {
            if self.lanes.contains_key(lane) {
                shared
                    .entry(endpoint.clone())
                    .or_insert_with(|| lane.clone());
            }
        }
        self.shared = shared;
        Ok(())
    }
}

/// How an operation stands to the others of its BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Waits for a host to shut down by itself, or does not concern power.
    Soft,
    /// A hard power-off.
    HardOff,
    /// In the order of asking.
    Other,
}

impl Rank {
    pub(crate) fn of(action: Action) -> Self {
        match action {
            Action::SoftOff => Self::Soft,
            Action::Off { .. } => Self::HardOff,
            Action::On | Action::Cycle | Action::Reset | Action::Nmi => Self::Other,
        }
    }
}

/// A place in the queue of a lane; dropping it gives it up, and the turn with it.
#[derive(Debug)]
pub(crate) struct Place {
    lane: Arc<Lane>,
    number: u64,
}

impl Place {
    /// Takes a place, and tells which operations have lost theirs to it.
    pub(crate) fn take(
        lane: Arc<Lane>,
        rank: Rank,
        handle: Arc<Handle>,
    ) -> (Self, Vec<Arc<Handle>>) {
        let (number, overtaken) = lane.queue.lock().join(rank, handle);
        (Self { lane, number }, overtaken)
    }

    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Waits until it is its turn; one that has lost its place waits for ever.
    pub(crate) async fn turn(&self) {
        let mut moved = self.lane.moved.subscribe();
        while !self.lane.queue.lock().is_first(self.number) {
            if moved.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// From now on it is not overtaken any more.
    pub(crate) fn hold_firmly(&self) {
        self.lane.queue.lock().set_soft(self.number, false);
    }

    /// From now on a hard power-off overtakes it: it only waits.
    pub(crate) fn stand_aside(&self) {
        self.lane.queue.lock().set_soft(self.number, true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lane.queue.lock().leave(self.number);
        self.lane.moved.send_replace(());
    }
}

/// A place in a lane's semaphore. It is never closed; if it were, nobody would be served.
async fn permit(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    match semaphore.acquire().await {
        Ok(permit) => permit,
        Err(_) => std::future::pending().await,
    }
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    soft: bool,
    who: T,
}

/// Who is on, first, and who waits, in their order.
#[derive(Debug)]
struct Queue<T> {
    next: u64,
    places: Vec<Waiting<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            next: 0,
            places: Vec::new(),
        }
    }
}

impl<T: Clone> Queue<T> {
    /// Adds one, and returns those that it overtakes. A hard off stands where the first soft one
    /// stood. The one whose turn it is keeps it until it leaves: a command may be under way.
    fn join(&mut self, rank: Rank, who: T) -> (u64, Vec<T>) {
        let number = self.next;
        self.next += 1;
        let mut at = self.places.len();
        let mut overtaken = Vec::new();
        if rank == Rank::HardOff
            && let Some(first) = self.places.iter().position(|place| place.soft)
        {
            at = first.max(1);
            let softs = self.places.iter().filter(|place| place.soft);
            overtaken = softs.map(|place| place.who.clone()).collect();
            let on = self.places.first().map(|place| place.number);
            self.places
                .retain(|place| !place.soft || Some(place.number) == on);
            self.places.iter_mut().for_each(|place| place.soft = false);
        }
        let place = Waiting {
            number,
            soft: rank == Rank::Soft,
            who,
        };
        self.places.insert(at.min(self.places.len()), place);
        (number, overtaken)
    }

    fn is_first(&self, number: u64) -> bool {
        self.places
            .first()
            .is_some_and(|place| place.number == number)
    }

    fn set_soft(&mut self, number: u64, soft: bool) {
        for place in &mut self.places {
            if place.number == number {
                place.soft = soft;
            }
        }
    }

    fn leave(&mut self, number: u64) {
        self.places.retain(|place| place.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &Queue<&'static str>) -> Vec<&'static str> {
        queue.places.iter().map(|place| place.who).collect()
    }

    fn queue(of: &[(Rank, &'static str)]) -> Queue<&'static str> {
        let mut queue = Queue::default();
        for &(rank, who) in of {
            let (_, overtaken) = queue.join(rank, who);
            assert!(overtaken.is_empty(), "{who} overtakes {overtaken:?}");
        }
        queue
    }

    #[test]
    fn everybody_waits_in_the_order_of_asking() {
        let mut queue = queue(&[
            (Rank::Other, "on"),
            (Rank::HardOff, "off"),
            (Rank::HardOff, "off again"),
            (Rank::Soft, "soft"),
            (Rank::Other, "cycle"),
        ]);
        assert_eq!(order(&queue), ["on", "off", "off again", "soft", "cycle"]);
        assert!(queue.is_first(0) && !queue.is_first(1));
        queue.leave(0);
        assert!(queue.is_first(1));
    }

    #[test]
    fn a_hard_off_is_next_after_the_soft_one_that_is_on() {
        let mut queue = queue(&[(Rank::Soft, "soft"), (Rank::Other, "on")]);
        let (number, overtaken) = queue.join(Rank::HardOff, "off");
        assert_eq!(overtaken, ["soft"]);
        assert_eq!(order(&queue), ["soft", "off", "on"]);
        let (_, overtaken) = queue.join(Rank::HardOff, "second");
        assert!(overtaken.is_empty(), "it is overtaken once");
        assert_eq!(order(&queue), ["soft", "off", "on", "second"]);
        queue.leave(0);
        assert!(queue.is_first(number));
    }

    #[test]
    fn a_hard_off_takes_the_place_of_the_first_soft_one_that_waits() {
        let mut queue = queue(&[
            (Rank::Other, "on"),
            (Rank::Soft, "soft"),
            (Rank::Other, "cycle"),
            (Rank::Soft, "softer"),
        ]);
        let (_, overtaken) = queue.join(Rank::HardOff, "off");
        assert_eq!(overtaken, ["soft", "softer"]);
        assert_eq!(order(&queue), ["on", "off", "cycle"]);
    }

    #[test]
    fn one_that_only_waits_to_switch_on_is_overtaken() {
        let mut queue = queue(&[(Rank::Other, "on"), (Rank::Other, "cycle")]);
        queue.set_soft(0, true);
        let (_, overtaken) = queue.join(Rank::HardOff, "off");
        assert_eq!(overtaken, ["on"]);
        assert_eq!(order(&queue), ["on", "off", "cycle"]);
    }

    #[test]
    fn one_that_forces_already_is_not_overtaken() {
        let mut queue = queue(&[(Rank::Soft, "soft"), (Rank::Other, "on")]);
        queue.set_soft(0, false);
        let (_, overtaken) = queue.join(Rank::HardOff, "off");
        assert!(overtaken.is_empty());
        assert_eq!(order(&queue), ["soft", "on", "off"]);
    }

    #[tokio::test]
    async fn a_reader_learns_that_an_operation_waits() {
        let lane = Lane::default();
        let reading = lane.call().await;
        let waiting = lane.urgent();
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        lane.wanted().await;
        drop(reading);
        drop(waiting.await);
        let wanted = lane.wanted();
        tokio::pin!(wanted);
        assert!(futures::poll!(wanted).is_pending(), "nobody waits any more");
    }
}
