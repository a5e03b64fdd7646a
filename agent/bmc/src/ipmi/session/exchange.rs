//! One exchange under way.

use std::time::{Duration, Instant};

use super::{Failure, Level, RetransmissionTimer, negotiation::Terms};
use crate::ipmi::wire::Response;

/// Whether a request may go out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ipmi) enum Repeat {
    /// It changes nothing.
    Read,
    /// Doing it twice is doing it once.
    Change,
    /// One datagram, ever.
    Once,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ipmi) struct Exchange {
    pub(in crate::ipmi) net_fn: u8,
    pub(in crate::ipmi) command: u8,
    pub(in crate::ipmi) data: Vec<u8>,
    pub(in crate::ipmi) repeat: Repeat,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ipmi) struct Answer {
    /// Completion code; 0 is success.
    pub(in crate::ipmi) completion: u8,
    pub(in crate::ipmi) data: Vec<u8>,
    /// GUID of the system whose session answered.
    pub(in crate::ipmi) guid: [u8; 16],
}

/// What a request in the session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Set Session Privilege Level, also to learn whether the BMC still knows the session.
    Raise(Level),
    /// What was asked for.
    Requester,
    /// Close Session.
    Close,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) net_fn: u8,
    pub(super) command: u8,
    /// The numbers of all tries. An answer to any is an answer: each was sent in this call.
    pub(super) numbers: Vec<u8>,
    pub(super) pace: RetransmissionTimer,
}

impl Pending {
    pub(super) fn is_answered_by(&self, response: &Response) -> bool {
        response.net_fn == self.net_fn | 1
            && response.command == self.command
            && self.numbers.contains(&response.sequence)
    }
}

/// One exchange, from its beginning to its outcome.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) exchange: Exchange,
    pub(super) is_closing: bool,
    pub(super) began: Instant,
    pub(super) deadline: Instant,
    pub(super) pending: Option<Pending>,
    /// Nothing new is sent before this.
    pub(super) not_before: Instant,
    pub(super) backoff: Duration,
    /// What is left to propose to the BMC.
    pub(super) terms: Vec<Terms>,
    /// The best of the refusals so far.
    pub(super) refusal: Option<Failure>,
    /// Handshakes that were begun again.
    pub(super) restarts: u32,
    /// Whether a silent session was given up once.
    pub(super) is_renewed: bool,
    /// Whether the BMC has answered in the session during this exchange.
    pub(super) is_heard: bool,
    /// Datagrams that carried the request itself.
    pub(super) asked: u32,
    /// Whether a try of the request has no answer of its own, although another has.
    pub(super) is_trailing: bool,
    /// Datagrams in all, and how many there were at the first refusal by ICMP.
    pub(super) sent: u32,
    pub(super) unreachable_at: Option<u32>,
    /// An answer that stands if more privilege cannot be had.
    pub(super) fallback: Option<Answer>,
    pub(super) outcome: Option<Result<Answer, Failure>>,
}

impl Job {
    pub(super) fn new(
        exchange: Exchange,
        is_closing: bool,
        deadline: Instant,
        now: Instant,
    ) -> Self {
        Self {
            exchange,
            is_closing,
            began: now,
            deadline,
            pending: None,
            not_before: now,
            backoff: FIRST_BACKOFF,
            terms: Vec::new(),
            refusal: None,
            restarts: 0,
            is_renewed: false,
            is_heard: false,
            asked: 0,
            is_trailing: false,
            sent: 0,
            unreachable_at: None,
            fallback: None,
            outcome: None,
        }
    }

    /// Whether the request changes something and may have been carried out.
    pub(super) fn may_have_acted(&self) -> bool {
        self.asked > 0 && self.exchange.repeat != Repeat::Read
    }

    /// Waits before the same is asked again; `false`: there is no time for that.
    pub(super) fn back_off(&mut self, now: Instant) -> bool {
        self.pending = None;
        self.not_before = now + self.backoff;
        self.backoff = (self.backoff * 2).min(MOST_BACKOFF);
        self.not_before < self.deadline
    }
}

/// A BMC that says "busy" is asked again after this, then after twice that.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MOST_BACKOFF: Duration = Duration::from_secs(4);
