//! A session with one BMC as a state machine: packets and time in, packets and results out.
//!
//! Owns: handshake, privilege, numbers, retransmission, and which packet answers which request.
//! Must never: do I/O, read a clock, draw a random number by itself; believe a packet that does
//! not answer a request of the present call; or send a request twice that is to go out once.

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

/// Where random numbers come from; `None`: there are none now.
pub(super) trait Random {
    fn draw(&mut self) -> Option<[u8; 16]>;
}

/// What a session is made with. Limits were checked.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) user: String,
    pub(super) password: SecretString,
    /// Empty: none.
    pub(super) kg: Zeroizing<Vec<u8>>,
    pub(super) suite: SuiteChoice,
    /// The highest privilege that may be asked for; `None`: not even USER.
    pub(super) most: Option<Level>,
    /// From the first packet of a handshake to its last.
    pub(super) connect: Duration,
    pub(super) retransmission: Retransmission,
}

/// When a packet without an answer goes out again.
#[derive(Debug, Clone, Copy)]
struct RetransmissionTimer {
    /// Of the first try.
    began: Instant,
    due: Instant,
    wait: Duration,
    most: Duration,
    tries: u32,
}

impl RetransmissionTimer {
    /// Of a packet that goes out now.
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

    /// It goes out again now.
    fn again(&mut self, now: Instant) {
        self.wait = (self.wait * 2).min(self.most);
        self.due = now + self.wait;
        self.tries += 1;
    }
}
