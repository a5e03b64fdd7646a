//! Opening of a session at the BMC: Open Session and the four RAKP messages.
//!
//! Owns: the checks and their status codes (IPMI 2.0, tables 13-9 to 13-15).

use std::time::Instant;

use rackhand_bmc::ipmi::wire::{
    Handshake, OpenRequest, OpenResponse, Opened, PayloadType, Rakp1, Rakp2, Rakp2Body, Rakp3,
    Rakp4, RakpStatus, Suite,
};
use secrecy::ExposeSecret as _;

use super::bmc::Bmc;
use super::config::Privilege;
use super::session::Stage;

/// The response to a setup message, if any.
pub(super) type Answer = Option<(PayloadType, Vec<u8>)>;

/// Privilege bits of the role byte, without the flag for a lookup by name alone (table 13-11).
const ROLE_MASK: u8 = 0x0f;

/// Length of a refusal of OpenBMC: that of RAKP message 2, whose values are zero.
const REFUSAL: usize = 40;

impl Bmc {
    pub(super) fn open_session(
        &mut self,
        open: &OpenRequest,
        now: Instant,
    ) -> (PayloadType, Vec<u8>) {
        let result = self.admit(open, now);
        let answer = OpenResponse {
            tag: open.tag,
            console: open.console,
            result,
        };
        (PayloadType::OpenResponse, answer.encode())
    }

    fn admit(&mut self, open: &OpenRequest, now: Instant) -> Result<Opened, RakpStatus> {
        let suite = self.suite_of(open.algorithms)?;
        let limit = match open.privilege {
            0 => Privilege::Administrator,
            level => Privilege::of(level).ok_or(RakpStatus::INVALID_ROLE)?,
        };
        let session = self
            .sessions
            .open(&mut self.random, open.console, suite, limit, now)
            .ok_or(RakpStatus::NO_RESOURCES)?;
        Ok(Opened {
            privilege: limit.number(),
            managed: session.managed,
            algorithms: suite.algorithms(),
        })
    }

    /// The suite, or the error for the first algorithm that no allowed suite has.
    fn suite_of(&self, algorithms: [u8; 3]) -> Result<Suite, RakpStatus> {
        let [authentication, integrity, confidentiality] = algorithms;
        let suites = &self.config.suites;
        if let Some(suite) = Suite::of_algorithms(algorithms).filter(|one| suites.contains(one)) {
            return Ok(suite);
        }
        let has = |place: usize, wanted: u8| {
            let number = |suite: &Suite| suite.algorithms().get(place).copied();
            suites.iter().any(|suite| number(suite) == Some(wanted))
        };
        Err(if !has(0, authentication) {
            RakpStatus::INVALID_AUTHENTICATION
        } else if !has(1, integrity) {
            RakpStatus::INVALID_INTEGRITY
        } else if !has(2, confidentiality) {
            RakpStatus::INVALID_CONFIDENTIALITY
        } else {
            RakpStatus::NO_CIPHER_SUITE
        })
    }

    pub(super) fn rakp1(&mut self, one: &Rakp1, now: Instant) -> Answer {
        // An unknown session id has no console to respond to.
        let console = self.sessions.get(one.managed)?.console;
        let challenged = self.challenge(one, now);
        let is_refused = challenged.is_err();
        if is_refused {
            self.sessions.close(one.managed);
        }
        let is_anonymous = is_refused && self.config.refuses_with_tag_zero;
        let answer = Rakp2 {
            tag: if is_anonymous { 0 } else { one.tag },
            console: if is_anonymous { 0 } else { console },
            result: challenged,
        };
        let mut bytes = answer.encode();
        if is_anonymous {
            bytes.resize(REFUSAL, 0);
        }
        Some((PayloadType::Rakp2, bytes))
    }

    fn challenge(&mut self, one: &Rakp1, now: Instant) -> Result<Rakp2Body, RakpStatus> {
        let managed_random = self.random.bytes();
        let guid = self.config.guid;
        let config = &self.config;
        let session = self.sessions.get(one.managed);
        let session = session.ok_or(RakpStatus::INVALID_SESSION)?;
        if matches!(session.stage, Stage::Active(..)) {
            return Err(RakpStatus::INVALID_SESSION);
        }
        let wanted = Privilege::of(one.role & ROLE_MASK).ok_or(RakpStatus::INVALID_ROLE)?;
        let named = |name: &str| name.as_bytes() == one.user;
        let (index, user) = (config.users.iter().enumerate())
            .find(|(_, user)| named(&user.name))
            .ok_or(RakpStatus::UNAUTHORIZED_NAME)?;
        if wanted > user.limit || wanted > session.limit {
            return Err(RakpStatus::UNAUTHORIZED_ROLE);
        }
        let hand = Handshake {
            suite: session.suite,
            console: session.console,
            managed: session.managed,
            console_random: one.random,
            managed_random,
            guid,
            role: one.role,
            user: one.user.clone(),
        };
        let password = user.password.expose_secret().as_bytes();
        let code = hand.rakp2_code(password).to_vec();
        session.user = Some(index);
        session.limit = wanted;
        session.privilege = Privilege::User.min(wanted);
        session.stage = Stage::Challenged(hand);
        session.touch(now);
        Ok(Rakp2Body {
            random: managed_random,
            guid,
            code,
        })
    }

    pub(super) fn rakp3(&mut self, three: &Rakp3, now: Instant) -> Answer {
        let console = self.sessions.get(three.managed)?.console;
        let Ok(code) = &three.result else {
            // The console aborts, which gets no response (13.23).
            self.sessions.close(three.managed);
            return None;
        };
        let result = self.activate(three.managed, code, now);
        if result.is_err() {
            self.sessions.close(three.managed);
        }
        let answer = Rakp4 {
            tag: three.tag,
            console,
            result,
        };
        Some((PayloadType::Rakp4, answer.encode()))
    }

    fn activate(&mut self, managed: u32, code: &[u8], now: Instant) -> Result<Vec<u8>, RakpStatus> {
        let config = &self.config;
        let session = self.sessions.get(managed);
        let session = session.ok_or(RakpStatus::INVALID_SESSION)?;
        let (hand, fresh) = match &session.stage {
            Stage::Opened => return Err(RakpStatus::INVALID_SESSION),
            Stage::Challenged(hand) => (hand.clone(), true),
            Stage::Active(hand, _) => (hand.clone(), false),
        };
        let user = session.user.and_then(|index| config.users.get(index));
        let user = user.ok_or(RakpStatus::UNAUTHORIZED_NAME)?;
        let password = user.password.expose_secret().as_bytes();
        if !hand.is_rakp3_code(password, code) {
            return Err(RakpStatus::INVALID_CHECK_VALUE);
        }
        let kg = config.kg.as_ref().map(|kg| kg.expose_secret());
        let key = hand.integrity_key(kg.unwrap_or(password));
        let value = hand.rakp4_code(&key);
        if fresh {
            session.stage = Stage::Active(hand, key.session_keys());
            self.counters.sessions_opened += 1;
        }
        session.touch(now);
        Ok(value)
    }
}
