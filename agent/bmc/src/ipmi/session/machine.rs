//! The state of one BMC, and the ways in and out of it.

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

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ipmi) enum Step {
    /// Send this datagram.
    Send(Vec<u8>),
    /// Wait for a datagram, until then at most.
    Wait(Instant),
    /// The exchange is over.
    Done(Result<Answer, Failure>),
}

/// After a refusal by ICMP the packet goes out once more before it is believed: a stray one must
/// not make a live BMC unreachable.
pub(super) const SECOND_LOOK: Duration = Duration::from_millis(100);
/// Two farewells without an answer are enough.
const FAREWELL: Duration = Duration::from_secs(1);

/// One BMC: at most one session, one handshake and one exchange.
#[derive(Debug)]
pub(in crate::ipmi) struct Machine {
    pub(super) settings: Settings,
    pub(super) session: Option<Session>,
    pub(super) opening: Option<Opening>,
    pub(super) job: Option<Job>,
    pub(super) out: VecDeque<Vec<u8>>,
    /// Suite and privilege of the last session.
    pub(super) worked: Option<Terms>,
    /// What power needs here: OPERATOR, but some BMCs want more than IPMI 2.0 does.
    pub(super) floor: Level,
    /// How long the BMC took for its last two answers, from the first try.
    pub(super) took: [Option<Duration>; 2],
    /// Datagrams that answered nothing.
    pub(super) dropped: u64,
}

impl Machine {
    pub(in crate::ipmi) fn new(settings: Settings) -> Self {
        Self {
            settings,
            session: None,
            opening: None,
            job: None,
            out: VecDeque::new(),
            worked: None,
            floor: Level::User,
            took: [None; 2],
            dropped: 0,
        }
    }

    /// Whether the BMC may hold a session for us.
    pub(in crate::ipmi) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Suite and highest privilege of the open session.
    pub(in crate::ipmi) fn terms(&self) -> Option<Terms> {
        let session = self.session.as_ref()?;
        Some((session.suite, session.most))
    }

    /// Begins an exchange; one that was under way is abandoned.
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

    /// Begins to end the session, and waits a moment for the BMC to agree.
    pub(in crate::ipmi) fn begin_farewell(&mut self, now: Instant, random: &mut dyn Random) {
        self.abandon(now, random);
        let exchange = Exchange {
            net_fn: 0x06,
            command: 0x3c,
            data: Vec::new(),
            repeat: super::Repeat::Change,
        };
        self.job = Some(Job::new(exchange, true, now + FAREWELL, now));
    }

    /// What to do next. While an exchange is under way it is to be asked after each datagram and
    /// when a wait is over.
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

    /// Takes a datagram.
    pub(in crate::ipmi) fn receive(
        &mut self,
        packet: &[u8],
        now: Instant,
        random: &mut dyn Random,
    ) {
        let Some(mut job) = self.job.take() else {
            return;
        };
        if job.outcome.is_none() && !self.hear(&mut job, packet, now, random) {
            self.dropped += 1;
        }
        self.job = Some(job);
    }

    /// The network says that there is nobody, or that there is no way.
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

    /// Gives up what is under way, because nobody waits for it any more. What is left to send
    /// comes from [`Self::leftover`].
    pub(in crate::ipmi) fn abandon(&mut self, now: Instant, random: &mut dyn Random) {
        let Some(job) = self.job.take() else { return };
        self.drop_opening(now, random);
        // What is still on its way must not be carried out after a later command.
        if job.may_have_acted() && job.outcome.is_none() {
            self.retire(random);
        }
    }

    /// Ends the session without waiting for the BMC.
    pub(in crate::ipmi) fn close(&mut self, now: Instant, random: &mut dyn Random) {
        self.abandon(now, random);
        self.retire(random);
    }

    /// The next packet that nobody waits for an answer to.
    pub(in crate::ipmi) fn leftover(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// Forgets the session, which the BMC has lost by restarting.
    pub(in crate::ipmi) fn forget(&mut self) {
        self.session = None;
    }

    pub(super) fn need(&self, job: &Job) -> Level {
        match Level::needed(job.exchange.net_fn, job.exchange.command) {
            Level::User => Level::User,
            level => level.max(self.floor),
        }
    }

    /// Ends the session with one packet.
    pub(super) fn retire(&mut self, random: &mut dyn Random) {
        if let Some(mut session) = self.session.take()
            && let Some(iv) = random.draw()
        {
            self.out.push_back(session.farewell(iv).1);
        }
    }

    pub(super) fn drop_opening(&mut self, now: Instant, random: &mut dyn Random) {
        if let Some(opening) = self.opening.take()
            && let Some(iv) = random.draw()
        {
            self.out.extend(opening.farewell(None, iv, now));
        }
    }

    /// Whether a datagram meant something.
    fn hear(
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
        let heard = opening.receive(payload_type, payload, &self.settings, now);
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
            HandshakeEvent::Nothing => {}
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
