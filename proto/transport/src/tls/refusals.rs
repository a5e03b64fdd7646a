//! Rate limit of log entries for rejected handshakes.
//!
//! Plain data, with `now` as an argument. Must never: let a stranger fill the log, or the memory.

use std::{collections::HashMap, net::IpAddr, time::Duration};

/// Minimum interval between two log entries for one peer.
const EVERY: Duration = Duration::from_secs(60);
/// Number of peers that are counted separately; all others count as one.
const PEERS: usize = 1024;

/// Rejected handshakes by peer.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    peers: HashMap<Option<IpAddr>, PeerRefusals>,
}

#[derive(Debug)]
struct PeerRefusals {
    at: Duration,
    since: u64,
}

impl Refusals {
    /// Counts a rejection. `Some(n)`: it must be logged, with `n` unlogged rejections of this peer
    /// before it.
    pub(super) fn note(&mut self, now: Duration, peer: Option<IpAddr>) -> Option<u64> {
        let is_old = |told: &PeerRefusals| now >= told.at.saturating_add(EVERY);
        if !self.peers.contains_key(&peer) && self.peers.len() >= PEERS {
            self.peers.retain(|_, told| !is_old(told));
        }
        let is_known = self.peers.contains_key(&peer) || self.peers.len() < PEERS;
        let peer = peer.filter(|_| is_known);
        match self.peers.get_mut(&peer) {
            Some(told) if !is_old(told) => {
                told.since = told.since.saturating_add(1);
                None
            }
            told => {
                let since = told.map_or(0, |told| told.since);
                self.peers.insert(peer, PeerRefusals { at: now, since: 0 });
                Some(since)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ip(n: u32) -> Option<IpAddr> {
        Some(Ipv4Addr::from_bits(n).into())
    }

    #[test]
    fn rejections_are_logged_once_a_minute_with_a_count() {
        let mut refusals = Refusals::default();
        let told: Vec<(u64, u64)> = (0..130)
            .filter_map(|t| Some((t, refusals.note(s(t), ip(1))?)))
            .collect();
        assert_eq!(told, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(
            refusals.note(s(130), ip(2)),
            Some(0),
            "peers are counted separately"
        );
        assert_eq!(refusals.note(s(130), None), Some(0));
    }

    #[test]
    fn rejections_of_many_peers_share_one_log_entry() {
        let mut refusals = Refusals::default();
        let lines = (0..10_000)
            .filter_map(|n| refusals.note(s(1), ip(n)))
            .count();
        assert!(lines <= PEERS + 1, "{lines}");
        assert!(refusals.peers.len() <= PEERS + 1);
        assert_eq!(refusals.note(s(61), ip(20_000)), Some(0), "room again");
    }
}
