//! Choice of the session for an exchange: the open one, or a new one.

use std::time::Instant;

use super::{
    Failure, Level, Machine, Random,
    exchange::Job,
    handshake::{Opening, Refusal, Stage},
    negotiation,
    open_session::Session,
    progress::no_random,
};
use crate::{ErrorKind, ipmi::wire::RakpStatus};

/// Attempts of RAKP message 3 before the handshake starts over: a BMC that accepted the message,
/// but whose response was lost, need not respond to it again.
const RAKP3_TRIES: u32 = 3;
/// Maximum number of handshakes that start over.
const MOST_RESTARTS: u32 = 2;

impl Machine {
    pub(super) fn open(&mut self, job: &mut Job, now: Instant, random: &mut dyn Random) {
        if job.terms.is_empty() {
            let most = self.settings.most.unwrap_or(Level::User);
            let need = self.need(job);
            job.terms = negotiation::terms(self.settings.suite, self.worked, need, most);
        }
        let Some(&terms) = job.terms.first() else {
            return;
        };
        let (Some(seed), Some(number)) = (random.draw(), random.draw()) else {
            return self.fail(job, no_random(), now, random);
        };
        let deadline = job.deadline.min(now + self.settings.connect);
        let opening = Opening::new(terms, seed, number, self.pace(now, 1), deadline);
        self.emit(job, opening.packet());
        self.opening = Some(opening);
    }

    pub(super) fn drive_opening(&mut self, job: &mut Job, now: Instant, random: &mut dyn Random) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        if now >= opening.deadline {
            let message = format!(
                "no response to {} within {:?}; check the address, and that IPMI over LAN is enabled",
                opening.stage().word(),
                self.settings.connect
            );
            let failure = Failure::new(ErrorKind::Timeout, message);
            return self.fail(job, failure, now, random);
        }
        if now < opening.pace.due {
            return;
        }
        let is_stuck = opening.stage() == Stage::Rakp3 && opening.pace.tries >= RAKP3_TRIES;
        if is_stuck && job.restarts < MOST_RESTARTS {
            job.restarts += 1;
            self.drop_opening(now, random);
            return self.open(job, now, random);
        }
        opening.pace.again(now);
        let packet = opening.packet();
        self.emit(job, packet);
    }

    pub(super) fn opened(&mut self, job: &mut Job, session: Session, random: &mut dyn Random) {
        self.end_session(random);
        self.worked = Some((session.suite, session.most));
        self.session = Some(session);
        self.sessions += 1;
        job.pending = None;
        job.refusal = None;
        job.is_heard = true;
    }

    pub(super) fn refused(
        &mut self,
        job: &mut Job,
        opening: Opening,
        refusal: Refusal,
        now: Instant,
        random: &mut dyn Random,
    ) {
        let (suite, level) = opening.terms;
        let failure = Failure::of_refusal(refusal, &self.settings, level);
        if let Some(iv) = random.draw() {
            self.out
                .extend(opening.abort_packets(Some(refusal), iv, now));
        }
        match what_next(refusal) {
            Next::Again if job.restarts < MOST_RESTARTS => {
                job.restarts += 1;
                return self.open(job, now, random);
            }
            Next::Later => {
                // The unresponsive session that was to be replaced cannot be used either.
                if job.is_renewed {
                    self.end_session(random);
                }
                if job.back_off(now) {
                    job.refusal = Some(failure);
                } else {
                    self.fail(job, failure, now, random);
                }
                return;
            }
            Next::OtherSuite => job.terms.retain(|(other, _)| *other != suite),
            Next::OtherTerms => job.terms.retain(|other| *other != (suite, level)),
            Next::Again | Next::GiveUp => return self.fail(job, failure, now, random),
        }
        // A privilege error explains more than a missing cipher suite.
        let says_more = failure.kind != ErrorKind::Unsupported;
        if says_more || job.refusal.is_none() {
            job.refusal = Some(failure);
        }
        if !job.terms.is_empty() {
            return self.open(job, now, random);
        }
        match (job.fallback.take(), job.refusal.take()) {
            (Some(answer), _) => {
                self.floor = Level::User;
                self.finish(job, Ok(answer), now, random);
            }
            (None, Some(failure)) => self.fail(job, failure, now, random),
            (None, None) => {}
        }
    }
}

enum Next {
    /// Repeat the same proposal: the handshake is out of step.
    Again,
    /// Repeat the same proposal after a pause.
    Later,
    OtherSuite,
    OtherTerms,
    GiveUp,
}

fn what_next(refusal: Refusal) -> Next {
    let (stage, status) = match refusal {
        Refusal::OtherSuite => return Next::OtherSuite,
        Refusal::Password | Refusal::Key | Refusal::Disabled => return Next::GiveUp,
        Refusal::Status(stage, status) => (stage, status),
    };
    match status.kind() {
        ErrorKind::Busy => return Next::Later,
        ErrorKind::Privilege if stage != Stage::Rakp3 => return Next::OtherTerms,
        _ if status.is_about_suite() && stage != Stage::Rakp3 => return Next::OtherSuite,
        _ => {}
    }
    let lost = [RakpStatus::INVALID_SESSION, RakpStatus::INACTIVE_SESSION];
    match stage {
        Stage::Rakp1 if status == RakpStatus::ILLEGAL_PARAMETER => Next::OtherTerms,
        Stage::Rakp1 if lost.contains(&status) => Next::Again,
        // RAKP message 2 has proved the password: a message was repeated and the BMC generated
        // another random number, or it lost the session.
        Stage::Rakp3 if status == RakpStatus::INVALID_CHECK_VALUE || lost.contains(&status) => {
            Next::Again
        }
        _ => Next::GiveUp,
    }
}
