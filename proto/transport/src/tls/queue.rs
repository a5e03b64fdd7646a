//! Limit of concurrent handshakes, and eviction when it is reached.
//!
//! Plain data. Must never: let many silent connections exclude other clients.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
};

/// Unfinished handshakes, oldest first.
#[derive(Debug)]
pub(super) struct Queue<T> {
    most: usize,
    next: u64,
    waiting: VecDeque<Waiting<T>>,
    peers: HashMap<Option<IpAddr>, usize>,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    peer: Option<IpAddr>,
    who: T,
}

impl<T> Queue<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            next: 0,
            waiting: VecDeque::new(),
            peers: HashMap::new(),
        }
    }

    /// Adds a handshake. Beyond the limit, the oldest one of the peer with the most is evicted.
    pub(super) fn join(&mut self, peer: Option<IpAddr>, who: T) -> (u64, Option<T>) {
        let displaced = (self.waiting.len() >= self.most)
            .then(|| self.displace())
            .flatten();
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting { number, peer, who });
        *self.peers.entry(peer).or_default() += 1;
        (number, displaced)
    }

    fn displace(&mut self) -> Option<T> {
        let most = self.peers.values().copied().max()?;
        let at = self
            .waiting
            .iter()
            .position(|one| self.peers.get(&one.peer) == Some(&most))?;
        self.remove(at)
    }

    /// Removes a handshake that has ended.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some(at) = self.waiting.iter().position(|one| one.number == number) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) -> Option<T> {
        let gone = self.waiting.remove(at)?;
        if let Some(count) = self.peers.get_mut(&gone.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&gone.peer);
            }
        }
        Some(gone.who)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn ip(n: u32) -> Option<IpAddr> {
        Some(Ipv4Addr::from_bits(n).into())
    }

    #[test]
    fn full_queue_evicts_the_oldest_of_the_busiest_peer() {
        let mut queue = Queue::new(3);
        assert_eq!(queue.join(ip(9), "good"), (0, None));
        assert_eq!(queue.join(ip(1), "a").1, None);
        assert_eq!(queue.join(ip(1), "b").1, None);
        assert_eq!(queue.join(ip(1), "c").1, Some("a"));
        assert_eq!(queue.join(ip(2), "d").1, Some("b"));
        assert_eq!(
            queue.join(ip(3), "e").1,
            Some("good"),
            "one per peer: the oldest is evicted"
        );
        queue.leave(4);
        assert_eq!(queue.join(ip(3), "f").1, None, "room again");
    }

    proptest! {
        #[test]
        fn queue_stays_within_its_limit_and_loses_no_entry(steps in prop::collection::vec((0_u32..4, any::<bool>()), 0..200)) {
            let mut queue = Queue::new(5);
            let mut inside = Vec::new();
            for (n, leaves) in steps {
                if leaves && !inside.is_empty() {
                    queue.leave(inside.remove(0));
                }
                let (number, displaced) = queue.join(ip(n), queue.next);
                inside.push(number);
                inside.retain(|one| Some(*one) != displaced);
                prop_assert_eq!(queue.waiting.len(), inside.len());
                prop_assert!(inside.len() <= 5);
                prop_assert_eq!(queue.peers.values().sum::<usize>(), inside.len());
            }
        }
    }
}
