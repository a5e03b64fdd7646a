//! State of one exchange.

use std::time::{Duration, Instant};

use super::{Failure, Level, RetransmissionTimer, negotiation::Terms};
use crate::ipmi::wire::Response;

/// Whether a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ipmi) enum Repeat {
    /// Yes: the request changes nothing.
    Read,
    /// Yes: the request is idempotent.
    Change,
    /// For a moment: a power command is idempotent, but what it depends on may change, such as whether firmware is
    /// being updated.
    Command,
    /// No: the request is sent in one datagram only.
    Once,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ipmi) struct Exchange {
    pub(in crate::ipmi) net_fn: u8,
    pub(in crate::ipmi) command: u8,
    pub(in crate::ipmi) data: Vec<u8>,
    pub(in crate::ipmi) repeat: Repeat,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ipmi) struct Answer {
    /// Completion code; 0 is success.
    pub(in crate::ipmi) completion: u8,
    pub(in crate::ipmi) data: Vec<u8>,
    /// GUID of the system whose session answered.
    pub(in crate::ipmi) guid: [u8; 16],
    /// Number of the session of the exchange, unique within the client.
    pub(in crate::ipmi) session: u64,
}

/// Purpose of a request in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Set Session Privilege Level; also used to check whether the BMC still has the session.
    Raise(Level),
    /// The request of the exchange.
    Requester,
    /// Close Session.
    Close,
}

/// A request that waits for its response.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) net_fn: u8,
    pub(super) command: u8,
    /// The sequence numbers of all attempts. A response to any of them is valid, because all were
    /// sent in this call.
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

/// One exchange, from its start to its outcome.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) exchange: Exchange,
    pub(super) is_closing: bool,
    pub(super) began: Instant,
    pub(super) deadline: Instant,
    pub(super) pending: Option<Pending>,
    /// Nothing is sent before this time.
    pub(super) not_before: Instant,
    pub(super) backoff: Duration,
    /// Suites and privileges that have not been proposed yet.
    pub(super) terms: Vec<Terms>,
    /// The most informative rejection so far.
    pub(super) refusal: Option<Failure>,
    /// Number of handshakes that were started over.
    pub(super) restarts: u32,
    /// Number of refusals without a tag that may still arrive for an earlier handshake.
    pub(super) late_refusals: u32,
    /// Whether an unresponsive session was already replaced once.
    pub(super) is_renewed: bool,
    /// Whether the BMC responded in the session during this exchange.
    pub(super) is_heard: bool,
    /// Number of datagrams that carried the request itself.
    pub(super) asked: u32,
    /// When the first of them was sent.
    pub(super) asked_at: Option<Instant>,
    /// Whether an attempt of the request has no response, although another has.
    pub(super) is_trailing: bool,
    /// Number of datagrams sent, and the number at the first ICMP error.
    pub(super) sent: u32,
    pub(super) unreachable_at: Option<u32>,
    /// Response to return if a higher privilege is not granted.
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
            late_refusals: 0,
            is_renewed: false,
            is_heard: false,
            asked: 0,
            asked_at: None,
            is_trailing: false,
            sent: 0,
            unreachable_at: None,
            fallback: None,
            outcome: None,
        }
    }

    /// Whether the request changes something and may have been executed.
    pub(super) fn may_have_acted(&self) -> bool {
        self.asked > 0 && self.exchange.repeat != Repeat::Read
    }

    /// Schedules the next attempt after a pause; `false`: the time limit does not allow one.
    pub(super) fn back_off(&mut self, now: Instant) -> bool {
        self.pending = None;
        self.not_before = now + self.backoff;
        self.backoff = (self.backoff * 2).min(MOST_BACKOFF);
        self.not_before < self.deadline && self.may_ask(self.not_before)
    }

    /// Whether a datagram with the request may be sent at `now`.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        let is_soon = |at| now.saturating_duration_since(at) <= COMMAND_REPEATS;
        self.exchange.repeat != Repeat::Command || self.asked_at.is_none_or(is_soon)
    }
}

/// For how long the datagram of a power command is sent again; its caller sends later ones, after another reading.
const COMMAND_REPEATS: Duration = Duration::from_secs(5);
/// Pause after the first busy response; each further pause is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MOST_BACKOFF: Duration = Duration::from_secs(4);
