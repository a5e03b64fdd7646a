//! The session with one BMC as a state machine: packets and time in, packets and results out.
//!
//! Owns: handshake, privilege, sequence numbers, retransmission, and the matching of responses to
//! requests. Must never: do I/O, read a clock, or generate a random number itself; accept a packet
//! that does not respond to a request of the present call; or send a request twice that must be
//! sent once.

mod establish;
mod exchange;
mod failure;
mod handshake;
mod machine;
mod negotiation;
mod open_session;
mod privilege;
mod progress;
mod sequence_window;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use secrecy::SecretString;
use zeroize::Zeroizing;

use super::{Retransmission, SuiteChoice};

pub(super) use exchange::{Answer, Exchange, Repeat};
pub(super) use failure::{Failure, name};
pub(super) use machine::{Machine, Step};
pub(super) use privilege::Level;

/// Source of random numbers; `None`: none are available now.
pub(super) trait Random {
    fn draw(&mut self) -> Option<[u8; 16]>;
}

/// Settings of a session, with limits checked.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) user: String,
    pub(super) password: SecretString,
    /// K_g; empty: none.
    pub(super) kg: Zeroizing<Vec<u8>>,
    pub(super) suite: SuiteChoice,
    /// The highest privilege that may be requested; `None`: not even USER.
    pub(super) most: Option<Level>,
    /// Time limit of a handshake, from its first packet to its last.
    pub(super) connect: Duration,
    pub(super) retransmission: Retransmission,
}

/// Retransmission timer of an unanswered packet.
#[derive(Debug, Clone, Copy)]
struct RetransmissionTimer {
    /// Time of the first attempt.
    began: Instant,
    due: Instant,
    wait: Duration,
    most: Duration,
    tries: u32,
}

impl RetransmissionTimer {
    /// Starts the timer of a packet that is sent now.
    fn new(now: Instant, first: Duration, most: Duration) -> Self {
        let wait = first.max(Duration::from_millis(1));
        Self {
            began: now,
            due: now + wait,
            wait,
            most: most.max(wait),
            tries: 1,
        }
    }

    /// Restarts the timer when the packet is sent again.
    fn again(&mut self, now: Instant) {
        self.wait = (self.wait * 2).min(self.most);
        self.due = now + self.wait;
        self.tries += 1;
    }
}
