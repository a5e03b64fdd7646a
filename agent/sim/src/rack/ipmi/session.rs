//! The session table of a simulated BMC.
//!
//! Owns: ids, stages, privileges, sequence numbers and timeouts. Must never: use a session id of 0,
//! or one that is in use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::{Handshake, SessionKeys, Suite};

use super::config::Privilege;

/// How far above the highest sequence number a packet may be (IPMI 2.0, section 6.12.13).
const AHEAD: u32 = 15;
/// How far below it.
const BEHIND: u32 = 16;

/// Idle timeout of a session.
const IDLE: Duration = Duration::from_secs(60);

/// A deterministic random number generator with a seed, so that a run can be repeated.
#[derive(Clone, Debug)]
pub(super) struct Seeded(u64);

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }

    fn id(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.next().to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

/// The recent sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    highest: u32,
    /// Bit n: `highest - n` was received.
    seen: u32,
}

impl Window {
    /// Whether a strict BMC accepts this number, which is recorded.
    pub(super) fn take(&mut self, sequence: u32) -> bool {
        if sequence == 0 {
            return false;
        }
        let ahead = sequence.wrapping_sub(self.highest);
        if (1..=AHEAD).contains(&ahead) {
            self.highest = sequence;
            self.seen = self.seen << ahead | 1;
            return true;
        }
        let behind = self.highest.wrapping_sub(sequence);
        let bit = 1_u32.checked_shl(behind).unwrap_or(0);
        let fresh = behind <= BEHIND && self.seen & bit == 0;
        if fresh {
            self.seen |= bit;
        }
        fresh
    }
}

/// Stage of opening a session.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// The Open Session response was sent.
    Opened,
    /// RAKP message 2 was sent.
    Challenged(Handshake),
    /// Open. The handshake is kept to answer RAKP message 3 again.
    Active(Handshake, SessionKeys),
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) managed: u32,
    pub(super) console: u32,
    pub(super) suite: Suite,
    pub(super) stage: Stage,
    /// Index of the user.
    pub(super) user: Option<usize>,
    /// Maximum privilege of the session.
    pub(super) limit: Privilege,
    pub(super) privilege: Privilege,
    pub(super) window: Window,
    outbound: u32,
    last: Instant,
}

/// The session of a request and its privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    /// The BMC's session id.
    pub(super) session: u32,
    /// Index of the user.
    pub(super) user: Option<usize>,
    pub(super) privilege: Privilege,
}

impl Session {
    pub(super) fn rights(&self) -> Rights {
        Rights {
            session: self.managed,
            user: self.user,
            privilege: self.privilege,
        }
    }

    /// The next sequence number of packets to the console.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.outbound = self.outbound.wrapping_add(1).max(1);
        self.outbound
    }

    pub(super) fn keys(&self) -> Option<&SessionKeys> {
        match &self.stage {
            Stage::Active(_, keys) => Some(keys),
            Stage::Opened | Stage::Challenged(_) => None,
        }
    }

    pub(super) fn touch(&mut self, now: Instant) {
        self.last = now;
    }
}

#[derive(Debug)]
pub(super) struct SessionTable {
    sessions: BTreeMap<u32, Session>,
    limit: usize,
    setup: Duration,
}

impl SessionTable {
    pub(super) fn new(limit: usize, setup: Duration) -> Self {
        Self {
            sessions: BTreeMap::new(),
            limit,
            setup,
        }
    }

    /// Removes sessions after their idle timeout; returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let before = self.sessions.len();
        let setup = self.setup;
        self.sessions.retain(|_, session| {
            let limit = if session.keys().is_some() {
                IDLE
            } else {
                setup
            };
            now.saturating_duration_since(session.last) < limit
        });
        u64::try_from(before - self.sessions.len()).unwrap_or(u64::MAX)
    }

    /// Adds a session; `None` if the table is full.
    pub(super) fn open(
        &mut self,
        random: &mut Seeded,
        console: u32,
        suite: Suite,
        limit: Privilege,
        now: Instant,
    ) -> Option<&mut Session> {
        if self.sessions.len() >= self.limit {
            return None;
        }
        let managed = loop {
            let id = random.id();
            if id != 0 && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        Some(self.sessions.entry(managed).or_insert(Session {
            managed,
            console,
            suite,
            stage: Stage::Opened,
            user: None,
            limit,
            privilege: Privilege::User.min(limit),
            window: Window::default(),
            outbound: 0,
            last: now,
        }))
    }

    pub(super) fn get(&mut self, managed: u32) -> Option<&mut Session> {
        self.sessions.get_mut(&managed)
    }

    pub(super) fn close(&mut self, managed: u32) -> bool {
        self.sessions.remove(&managed).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.sessions.clear();
    }

    /// Number of open sessions.
    pub(super) fn active(&self) -> usize {
        self.sessions
            .values()
            .filter(|one| one.keys().is_some())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_window_accepts_each_number_once() {
        let mut window = Window::default();
        assert!(!window.take(0));
        for sequence in [1, 2, 5, 3, 4, 20, 6] {
            assert!(window.take(sequence), "{sequence}");
            assert!(!window.take(sequence), "{sequence} again");
        }
        assert!(!window.take(36), "too far ahead");
        assert!(window.take(35));
        assert!(!window.take(18), "too far behind");
        assert!(window.take(19));
    }

    #[test]
    fn sequence_window_wraps_around() {
        let mut window = Window {
            highest: u32::MAX - 1,
            seen: 1,
        };
        assert!(window.take(u32::MAX) && window.take(2) && window.take(1));
        assert!(!window.take(u32::MAX));
    }
}
