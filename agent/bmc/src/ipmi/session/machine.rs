//! State machine of the session with one BMC: inputs and outputs.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{
    Answer, Exchange, Failure, Level, Random, Settings,
    exchange::Job,
    handshake::{HandshakeEvent, Opening},
    name,
    negotiation::Terms,
    open_session::Session,
};
use crate::{
    ErrorKind,
    ipmi::wire::{Frame, PayloadType},
};

/// The next action of the caller of the session machine.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ipmi) enum Step {
    /// Send this datagram.
    Send(Vec<u8>),
    /// Wait for a datagram, at most until this time.
    Wait(Instant),
    /// The exchange is complete.
    Done(Result<Answer, Failure>),
}

/// After an ICMP error the packet is sent once more, so that a stray ICMP message does not make a
/// live BMC unreachable.
pub(super) const ICMP_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time to wait for the response to Close Session, which is sent twice at most.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// State for one BMC: at most one session, one handshake and one exchange.
#[derive(Debug)]
pub(in crate::ipmi) struct Machine {
    pub(super) settings: Settings,
    pub(super) session: Option<Session>,
    /// Number of sessions that were opened.
    pub(super) sessions: u64,
    pub(super) opening: Option<Opening>,
    pub(super) job: Option<Job>,
    pub(super) out: VecDeque<Vec<u8>>,
    /// Suite and privilege of the last session.
    pub(super) worked: Option<Terms>,
    /// Privilege that power commands need here: OPERATOR, but some BMCs require more than IPMI 2.0
    /// does.
    pub(super) floor: Level,
    /// Response times of the last two requests, from the first attempt.
    pub(super) took: [Option<Duration>; 2],
    /// Number of received datagrams that matched no request.
    pub(super) dropped: u64,
}

impl Machine {
    pub(in crate::ipmi) fn new(settings: Settings) -> Self {
        Self {
            settings,
            session: None,
            sessions: 0,
            opening: None,
            job: None,
            out: VecDeque::new(),
            worked: None,
            floor: Level::User,
            took: [None; 2],
            dropped: 0,
        }
    }

    /// Whether the BMC may hold a session of this client.
    pub(in crate::ipmi) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Suite and highest privilege of the open session.
    pub(in crate::ipmi) fn terms(&self) -> Option<Terms> {
        let session = self.session.as_ref()?;
        Some((session.suite, session.most))
    }

    /// Starts an exchange; one in progress is abandoned.
    pub(in crate::ipmi) fn begin(
        &mut self,
        exchange: Exchange,
        now: Instant,
        deadline: Instant,
        random: &mut dyn Random,
    ) {
        self.abandon(now, random);
        let mut job = Job::new(exchange, false, deadline, now);
        let need = self.need(&job);
        if self.settings.most.is_none_or(|most| most < need) {
            let message = format!(
                "{} needs the privilege {}; the address allows less: raise its privilegelevel",
                name(job.exchange.net_fn, job.exchange.command),
                need.word()
            );
            job.outcome = Some(Err(Failure::new(ErrorKind::Privilege, message)));
        }
        self.job = Some(job);
    }

    /// Starts to close the session, and waits a short time for the response.
    pub(in crate::ipmi) fn begin_close(&mut self, now: Instant, random: &mut dyn Random) {
        self.abandon(now, random);
        let exchange = Exchange {
            net_fn: 0x06,
            command: 0x3c,
            data: Vec::new(),
            repeat: super::Repeat::Change,
        };
        self.job = Some(Job::new(exchange, true, now + CLOSE_TIMEOUT, now));
    }

    /// Returns the next action. During an exchange it must be called after each datagram and after
    /// each wait.
    pub(in crate::ipmi) fn poll(&mut self, now: Instant, random: &mut dyn Random) -> Step {
        if self.out.is_empty()
            && let Some(mut job) = self.job.take()
        {
            if job.outcome.is_none() {
                self.advance(&mut job, now, random);
            }
            self.job = Some(job);
        }
        if let Some(packet) = self.out.pop_front() {
            return Step::Send(packet);
        }
        match self.job.take() {
            None => Step::Done(Err(Failure::new(
                ErrorKind::Protocol,
                "no request was made",
            ))),
            Some(Job {
                outcome: Some(outcome),
                ..
            }) => Step::Done(outcome),
            Some(job) => {
                let until = self.wake(&job);
                self.job = Some(job);
                Step::Wait(until)
            }
        }
    }

    /// Handles a datagram.
    pub(in crate::ipmi) fn receive(
        &mut self,
        packet: &[u8],
        now: Instant,
        random: &mut dyn Random,
    ) {
        let Some(mut job) = self.job.take() else {
            return;
        };
        if job.outcome.is_none() && !self.handle_packet(&mut job, packet, now, random) {
            self.dropped += 1;
        }
        self.job = Some(job);
    }

    /// Handles an ICMP error: port, host or network unreachable.
    pub(in crate::ipmi) fn unreachable(
        &mut self,
        why: &str,
        now: Instant,
        random: &mut dyn Random,
    ) {
        if let Some(mut job) = self.job.take() {
            if job.outcome.is_none() {
                self.believe_unreachable(&mut job, why, now, random);
            }
            self.job = Some(job);
        }
    }

    /// Abandons the exchange in progress. [`Self::leftover`] returns the packets that remain to be
    /// sent.
    pub(in crate::ipmi) fn abandon(&mut self, now: Instant, random: &mut dyn Random) {
        let Some(job) = self.job.take() else { return };
        self.drop_opening(now, random);
        // A command in flight must not be executed after a later one.
        if job.may_have_acted() && job.outcome.is_none() {
            self.end_session(random);
        }
    }

    /// Closes the session without waiting for the response.
    pub(in crate::ipmi) fn close(&mut self, now: Instant, random: &mut dyn Random) {
        self.abandon(now, random);
        self.end_session(random);
    }

    /// Returns the next packet that needs no response.
    pub(in crate::ipmi) fn leftover(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// Drops the session, which the BMC has lost by restarting.
    pub(in crate::ipmi) fn forget(&mut self) {
        self.session = None;
    }

    pub(super) fn need(&self, job: &Job) -> Level {
        match Level::needed(job.exchange.net_fn, job.exchange.command) {
            Level::User => Level::User,
            level => level.max(self.floor),
        }
    }

    /// Closes the session with one packet.
    pub(super) fn end_session(&mut self, random: &mut dyn Random) {
        if let Some(mut session) = self.session.take()
            && let Some(iv) = random.draw()
        {
            self.out.push_back(session.close_packet(iv).1);
        }
    }

    pub(super) fn drop_opening(&mut self, now: Instant, random: &mut dyn Random) {
        if let Some(opening) = self.opening.take()
            && let Some(iv) = random.draw()
        {
            self.out.extend(opening.abort_packets(None, iv, now));
        }
    }

    /// Whether a datagram was a response.
    fn handle_packet(
        &mut self,
        job: &mut Job,
        packet: &[u8],
        now: Instant,
        random: &mut dyn Random,
    ) -> bool {
        let (payload_type, payload) = match Frame::decode(packet) {
            Ok(Frame::V20 {
                payload_type,
                session: 0,
                encrypted: false,
                authenticated: false,
                payload,
                ..
            }) => (payload_type, payload),
            Ok(Frame::V20 {
                payload_type: PayloadType::Ipmi,
                ..
            }) => {
                let response = match (&mut self.session, &job.pending) {
                    (Some(session), Some(pending)) => session
                        .response(packet)
                        .filter(|response| pending.is_answered_by(response)),
                    _ => None,
                };
                let is_answer = response.is_some();
                if let Some(response) = response {
                    self.answered(job, response, now, random);
                }
                return is_answer;
            }
            _ => return false,
        };
        let Some(mut opening) = self.opening.take() else {
            return false;
        };
        let mut heard = opening.receive(payload_type, payload, &self.settings, now);
        if let HandshakeEvent::UntaggedNo(refusal) = heard {
            // Each earlier attempt of a refused message may still be refused; without a tag, nothing else
            // distinguishes those refusals from one of this handshake.
            heard = if job.late_refusals > 0 {
                job.late_refusals -= 1;
                HandshakeEvent::Nothing
            } else {
                job.late_refusals = opening.pace.tries.saturating_sub(1);
                HandshakeEvent::No(refusal)
            };
        }
        if matches!(heard, HandshakeEvent::Nothing) {
            self.opening = Some(opening);
            return false;
        }
        job.unreachable_at = None;
        self.took = [
            self.took[1],
            Some(now.saturating_duration_since(opening.pace.began)),
        ];
        match heard {
            HandshakeEvent::Nothing | HandshakeEvent::UntaggedNo(_) => {}
            HandshakeEvent::Next => {
                opening.pace = self.pace(now, 1);
                self.emit(job, opening.packet());
                self.opening = Some(opening);
            }
            HandshakeEvent::Done(session) => self.opened(job, *session, random),
            HandshakeEvent::No(refusal) => self.refused(job, opening, refusal, now, random),
        }
        true
    }

    pub(super) fn emit(&mut self, job: &mut Job, packet: Vec<u8>) {
        job.sent += 1;
        self.out.push_back(packet);
    }

    fn wake(&self, job: &Job) -> Instant {
        let next = match (&self.opening, &job.pending) {
            (Some(opening), _) => opening.pace.due.min(opening.deadline),
            (None, Some(pending)) => pending.pace.due,
            (None, None) => job.not_before,
        };
        next.min(job.deadline)
    }
}
