//! Progress of an exchange in a session: the next packet, and the effect of a response.

use std::time::{Duration, Instant};

use super::{
    Answer, Failure, Level, Machine, Random, Repeat, RetransmissionTimer,
    exchange::{Job, Pending, Purpose},
    machine::ICMP_RETRY_DELAY,
    name,
};
use crate::{
    ErrorKind,
    ipmi::wire::{CompletionCode, Response},
};

/// A session that responded within this time counts as alive before a non-idempotent request. A BMC
/// restart takes longer.
const FRESH: Duration = Duration::from_secs(5);
/// Unanswered attempts before an idle session is replaced: the BMC may have lost it.
const KEPT_TRIES: u32 = 2;
/// Unanswered attempts before a session that responded during this exchange is replaced.
const HEARD_TRIES: u32 = 4;

impl Machine {
    pub(super) fn advance(&mut self, job: &mut Job, now: Instant, random: &mut dyn Random) {
        if now >= job.deadline {
            return self.out_of_time(job, now, random);
        }
        let need = self.need(job);
        match (&self.opening, &self.session) {
            (Some(_), _) => self.drive_opening(job, now, random),
            (None, None) if job.is_closing => self.finish(job, Ok(nothing()), now, random),
            (None, Some(session)) if session.most >= need || job.is_closing => match &job.pending {
                None if now >= job.not_before => self.send_next(job, need, now, random),
                Some(pending) if now >= pending.pace.due => self.silence(job, now, random),
                _ => {}
            },
            _ if now >= job.not_before => self.open(job, now, random),
            _ => {}
        }
    }

    /// The retransmission timer of a packet that is sent now: `1 / part` of the first interval, but
    /// at least twice the recent response time. A slow BMC would only get more requests to process,
    /// and some treat a repeated handshake message as a new handshake.
    pub(super) fn pace(&self, now: Instant, part: u32) -> RetransmissionTimer {
        let policy = self.settings.retransmission;
        let first = policy.first / part.max(1);
        // A lost datagram increases one of the two times; a slow BMC increases both.
        let took = self.took.into_iter().flatten().min().unwrap_or_default();
        RetransmissionTimer::new(now, first.max(took * 2), policy.most)
    }

    fn send_next(&mut self, job: &mut Job, need: Level, now: Instant, random: &mut dyn Random) {
        let Some(session) = &self.session else { return };
        let is_once = job.exchange.repeat == Repeat::Once;
        let is_sure = now.saturating_duration_since(session.heard) <= FRESH;
        let purpose = if job.is_closing {
            Purpose::Close
        } else if session.level < need {
            Purpose::Raise(need)
        } else if is_once && !is_sure {
            Purpose::Raise(session.level)
        } else {
            Purpose::Requester
        };
        let (net_fn, command) = match purpose {
            Purpose::Requester => (job.exchange.net_fn, job.exchange.command),
            Purpose::Raise(_) => (0x06, 0x3b),
            Purpose::Close => (0x06, 0x3c),
        };
        if purpose == Purpose::Requester && !job.may_ask(now) {
            return match job.fallback.take() {
                Some(answer) => self.finish(job, Ok(answer), now, random),
                None => self.out_of_time(job, now, random),
            };
        }
        let mut pace = self.pace(now, if job.is_heard { 1 } else { 2 });
        if is_once && purpose == Purpose::Requester {
            pace.due = job.deadline;
        }
        job.pending = Some(Pending {
            purpose,
            net_fn,
            command,
            numbers: Vec::new(),
            pace,
        });
        self.put(job, now, random);
    }

    /// Sends the pending request with new sequence numbers.
    fn put(&mut self, job: &mut Job, now: Instant, random: &mut dyn Random) {
        let Some(iv) = random.draw() else {
            return self.fail(job, no_random(), now, random);
        };
        let (Some(session), Some(pending)) = (&mut self.session, &mut job.pending) else {
            return;
        };
        let (number, packet) = match pending.purpose {
            Purpose::Close => session.close_packet(iv),
            Purpose::Raise(level) => {
                session.request(pending.net_fn, pending.command, vec![level.number()], iv)
            }
            Purpose::Requester => {
                job.asked += 1;
                job.asked_at.get_or_insert(now);
                let data = job.exchange.data.clone();
                session.request(pending.net_fn, pending.command, data, iv)
            }
        };
        pending.numbers.push(number);
        if pending.purpose == Purpose::Requester && pending.numbers.len() > 1 {
            job.is_trailing = true;
        }
        self.emit(job, packet);
    }

    fn silence(&mut self, job: &mut Job, now: Instant, random: &mut dyn Random) {
        let may_ask = job.may_ask(now);
        let Some(pending) = &mut job.pending else {
            return;
        };
        let tries = pending.pace.tries;
        match pending.purpose {
            Purpose::Close if tries >= KEPT_TRIES => {
                self.session = None;
                return self.finish(job, Ok(nothing()), now, random);
            }
            Purpose::Requester if job.exchange.repeat == Repeat::Once => {
                return self.out_of_time(job, now, random);
            }
            // The answer may still come.
            Purpose::Requester if !may_ask => {
                pending.pace.due = job.deadline;
                return;
            }
            _ => {}
        }
        let most = if job.is_heard {
            HEARD_TRIES
        } else {
            KEPT_TRIES
        };
        if tries >= most && !job.is_renewed && !job.is_closing {
            // The old session may still respond: the BMC may only be slow.
            job.is_renewed = true;
            pending.pace.due = job.deadline;
            job.terms.clear();
            return self.open(job, now, random);
        }
        pending.pace.again(now);
        self.put(job, now, random);
    }

    pub(super) fn answered(
        &mut self,
        job: &mut Job,
        response: Response,
        now: Instant,
        random: &mut dyn Random,
    ) {
        self.drop_opening(now, random);
        let need = self.need(job);
        let (Some(session), Some(pending)) = (&mut self.session, job.pending.take()) else {
            return;
        };
        session.heard = now;
        self.took = [
            self.took[1],
            Some(now.saturating_duration_since(pending.pace.began)),
        ];
        job.is_heard = true;
        job.unreachable_at = None;
        let code = CompletionCode::of(response.completion);
        let answer = Answer {
            completion: response.completion,
            data: response.data,
            guid: session.guid,
            session: self.sessions,
        };
        match pending.purpose {
            Purpose::Close => {
                self.session = None;
                self.finish(job, Ok(answer), now, random);
            }
            // The request only checked that the BMC still has the session.
            Purpose::Raise(level) if level == session.level => {}
            Purpose::Raise(level) => {
                // Some BMCs return 0 here.
                let granted = answer.data.first().map_or(0, |byte| byte & 0x0f);
                let failure = match code {
                    None if granted == 0 || granted >= level.number() => {
                        session.level = level;
                        return;
                    }
                    None => Failure::of_raise(CompletionCode::PRIVILEGE, &self.settings, level),
                    Some(code) if code.is_not_now() && job.back_off(now) => return,
                    Some(code) => Failure::of_raise(code, &self.settings, level),
                };
                match job.fallback.take() {
                    Some(answer) => {
                        self.floor = Level::User;
                        self.finish(job, Ok(answer), now, random);
                    }
                    None => self.fail(job, failure, now, random),
                }
            }
            Purpose::Requester => {
                let may_repeat = job.exchange.repeat != Repeat::Once;
                let is_not_now = code.is_some_and(CompletionCode::is_not_now);
                if is_not_now && may_repeat && job.back_off(now) {
                    return;
                }
                let is_short = code == Some(CompletionCode::PRIVILEGE)
                    && need == Level::Operator
                    && self.settings.most == Some(Level::Administrator);
                if is_short && may_repeat {
                    job.fallback = Some(answer);
                    job.terms.clear();
                    self.floor = Level::Administrator;
                    return;
                }
                self.finish(job, Ok(answer), now, random);
            }
        }
    }

    pub(super) fn believe_unreachable(
        &mut self,
        job: &mut Job,
        why: &str,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let message = format!("unreachable: {why}");
        let failure = Failure::new(ErrorKind::Unreachable, message);
        let is_alone = match &job.pending {
            Some(pending) => {
                pending.purpose == Purpose::Requester && job.exchange.repeat == Repeat::Once
            }
            None => false,
        };
        match job.unreachable_at {
            Some(at) if job.sent > at => self.fail(job, failure, now, random),
            Some(_) => {}
            None => {
                job.unreachable_at = Some(job.sent);
                let wait = if is_alone { FRESH } else { ICMP_RETRY_DELAY };
                let due = match (&mut self.opening, &mut job.pending) {
                    (Some(opening), _) => &mut opening.pace.due,
                    (None, Some(pending)) => &mut pending.pace.due,
                    (None, None) => return,
                };
                *due = (*due).min(now + wait);
                if is_alone {
                    job.refusal = Some(failure);
                }
            }
        }
    }

    fn out_of_time(&mut self, job: &mut Job, now: Instant, random: &mut dyn Random) {
        if job.is_closing {
            self.session = None;
            return self.finish(job, Ok(nothing()), now, random);
        }
        let name = name(job.exchange.net_fn, job.exchange.command);
        let took = now.saturating_duration_since(job.began);
        let dropped = match self.dropped {
            0 => String::new(),
            count => format!(" ({count} unexpected datagrams were dropped)"),
        };
        let failure = match (&job.pending, job.refusal.take()) {
            (None, Some(failure)) => failure,
            (Some(_), Some(failure)) if job.exchange.repeat == Repeat::Once => failure,
            _ => {
                let what = match &self.opening {
                    Some(opening) => opening.stage().word().to_owned(),
                    None => name,
                };
                let sure = if job.may_have_acted() {
                    "; the command may have been executed: read the state"
                } else {
                    ""
                };
                let message = format!("no response to {what} within {took:.1?}{dropped}{sure}");
                Failure::new(ErrorKind::Timeout, message)
            }
        };
        self.fail(job, failure, now, random);
    }

    pub(super) fn fail(
        &mut self,
        job: &mut Job,
        failure: Failure,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let maybe_sent = job.may_have_acted();
        let failure = Failure {
            maybe_sent,
            ..failure
        };
        self.finish(job, Err(failure), now, random);
    }

    pub(super) fn finish(
        &mut self,
        job: &mut Job,
        outcome: Result<Answer, Failure>,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let is_done = match &outcome {
            // Earlier attempts may still be in flight and must not be executed after a later
            // command: closing the session prevents that.
            Ok(_) => job.is_trailing && job.exchange.repeat != Repeat::Read,
            Err(_) => job.asked > 0 || job.is_renewed || job.pending.is_some(),
        };
        self.drop_opening(now, random);
        if is_done {
            self.end_session(random);
        }
        job.pending = None;
        job.outcome = Some(outcome);
    }
}

fn nothing() -> Answer {
    Answer {
        completion: 0,
        data: Vec::new(),
        guid: [0; 16],
        session: 0,
    }
}

pub(super) fn no_random() -> Failure {
    let message = "the operating system returned no random numbers";
    Failure::new(ErrorKind::Configuration, message)
}
