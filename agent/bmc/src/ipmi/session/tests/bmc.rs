//! A minimal BMC for the tests, which records what it executes.

use std::collections::{BTreeMap, BTreeSet};

use super::wire::{
    Frame, Handshake, OpenRequest, OpenResponse, Opened, PayloadType, Rakp1, Rakp2, Rakp2Body,
    Rakp3, Rakp4, RakpStatus, Request, SessionKeys, Suite, plain,
};

pub(super) const GUID: [u8; 16] = [0x42; 16];

/// A user: name, password, highest privilege.
pub(super) type User = (&'static str, &'static str, u8);

struct Session {
    console: u32,
    most: u8,
    level: u8,
    stage: Stage,
    sent: u32,
    seen: BTreeSet<u32>,
}

enum Stage {
    Opened(Suite),
    Known(Box<Handshake>),
    Active(SessionKeys),
}

pub(super) struct Bmc {
    pub(super) suites: Vec<Suite>,
    /// Status for an unsupported suite; `None`: the BMC selects suite 3 instead.
    pub(super) suite_status: Option<u8>,
    /// Whether refusals have tag and session id 0, as OpenBMC's.
    pub(super) is_untagged: bool,
    /// Whether all users are disabled: refused with "invalid role".
    pub(super) is_disabled: bool,
    pub(super) users: Vec<User>,
    pub(super) kg: &'static [u8],
    pub(super) power: bool,
    /// Executed Chassis Control commands.
    pub(super) controls: Vec<u8>,
    /// Second data bytes of hard resets, which identify the call.
    pub(super) resets: Vec<u8>,
    /// Every command received in a session: `(net_fn, command)`.
    pub(super) commands: Vec<(u8, u8)>,
    /// Statuses of the next Open Session responses.
    pub(super) open_statuses: Vec<u8>,
    /// Completion codes of the next commands other than Set Session Privilege and Close Session.
    pub(super) codes: Vec<u8>,
    /// Privilege that Chassis Control requires.
    pub(super) control_level: u8,
    sessions: BTreeMap<u32, Session>,
    next: u32,
}

impl Bmc {
    pub(super) fn new() -> Self {
        Self {
            suites: Suite::ALL.to_vec(),
            suite_status: Some(0x11),
            is_untagged: false,
            is_disabled: false,
            users: vec![
                ("admin", "secret", 4),
                ("oper", "operpw", 3),
                ("reader", "readpw", 2),
            ],
            kg: b"",
            power: false,
            controls: Vec::new(),
            resets: Vec::new(),
            commands: Vec::new(),
            open_statuses: Vec::new(),
            codes: Vec::new(),
            control_level: 3,
            sessions: BTreeMap::new(),
            next: 0x100,
        }
    }

    pub(super) fn restart(&mut self) {
        self.sessions.clear();
    }

    /// Number of open sessions, and of handshakes in progress.
    pub(super) fn sessions(&self) -> (usize, usize) {
        let is_open = |session: &&Session| matches!(session.stage, Stage::Active(_));
        let open = self.sessions.values().filter(is_open).count();
        (open, self.sessions.len() - open)
    }

    pub(super) fn receive(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let Ok(Frame::V20 {
            payload_type,
            session,
            payload,
            ..
        }) = Frame::decode(packet)
        else {
            return None;
        };
        match payload_type {
            PayloadType::OpenRequest => {
                let mut answer = self.open(OpenRequest::decode(payload).ok()?);
                if self.is_untagged && answer.result.is_err() {
                    (answer.tag, answer.console) = (0, 0);
                }
                Some(plain(PayloadType::OpenResponse, &answer.encode()))
            }
            PayloadType::Rakp1 => {
                let mut answer = self.rakp1(Rakp1::decode(payload).ok()?)?;
                if self.is_untagged && answer.result.is_err() {
                    (answer.tag, answer.console) = (0, 0);
                }
                Some(plain(PayloadType::Rakp2, &answer.encode()))
            }
            PayloadType::Rakp3 => {
                let mut answer = self.rakp3(&Rakp3::decode(payload).ok()?)?;
                if self.is_untagged && answer.result.is_err() {
                    (answer.tag, answer.console) = (0, 0);
                }
                Some(plain(PayloadType::Rakp4, &answer.encode()))
            }
            PayloadType::Ipmi => self.in_session(session, packet),
            _ => None,
        }
    }

    fn open(&mut self, request: OpenRequest) -> OpenResponse {
        let no = |status: u8| OpenResponse {
            tag: request.tag,
            console: request.console,
            result: Err(RakpStatus::of(status).expect("a refusal")),
        };
        if !self.open_statuses.is_empty() {
            match self.open_statuses.remove(0) {
                0 => {}
                status => return no(status),
            }
        }
        let asked =
            Suite::of_algorithms(request.algorithms).filter(|suite| self.suites.contains(suite));
        let suite = match (asked, self.suite_status) {
            (Some(suite), _) => suite,
            (None, Some(status)) => return no(status),
            (None, None) => Suite::Cipher3,
        };
        self.next += 0x11;
        let session = Session {
            console: request.console,
            most: 0,
            level: 2,
            stage: Stage::Opened(suite),
            sent: 0,
            seen: BTreeSet::new(),
        };
        self.sessions.insert(self.next, session);
        OpenResponse {
            tag: request.tag,
            console: request.console,
            // As ipmi_sim does.
            result: Ok(Opened {
                privilege: 0,
                managed: self.next,
                algorithms: suite.algorithms(),
            }),
        }
    }

    fn password(&self, user: &[u8]) -> Option<&'static [u8]> {
        let user = self
            .users
            .iter()
            .find(|(name, ..)| name.as_bytes() == user)?;
        Some(user.1.as_bytes())
    }

    fn rakp1(&mut self, one: Rakp1) -> Option<Rakp2> {
        let user = self
            .users
            .iter()
            .find(|(name, ..)| name.as_bytes() == one.user)
            .copied();
        let session = self.sessions.get_mut(&one.managed)?;
        let no = |status| {
            let (tag, console) = (one.tag, session.console);
            Some(Rakp2 {
                tag,
                console,
                result: Err(status),
            })
        };
        let suite = match &session.stage {
            Stage::Opened(suite) => *suite,
            Stage::Known(hand) => hand.suite,
            Stage::Active(_) => return no(RakpStatus::INVALID_SESSION),
        };
        let Some((_, password, most)) = user else {
            self.sessions.remove(&one.managed);
            return no_such(&one, RakpStatus::UNAUTHORIZED_NAME);
        };
        if self.is_disabled {
            return no(RakpStatus::INVALID_ROLE);
        }
        if one.role & 0x0f > most {
            return no(RakpStatus::UNAUTHORIZED_ROLE);
        }
        session.most = one.role & 0x0f;
        // A repeated message generates another random number, as on some real BMCs.
        self.next += 1;
        let mut random = [0x5a; 16];
        random[..4].copy_from_slice(&self.next.to_le_bytes());
        let hand = Handshake {
            suite,
            console: session.console,
            managed: one.managed,
            console_random: one.random,
            managed_random: random,
            guid: GUID,
            role: one.role,
            user: one.user,
        };
        let code = hand.rakp2_code(password.as_bytes()).to_vec();
        let console = session.console;
        session.stage = Stage::Known(Box::new(hand));
        let body = Rakp2Body {
            random,
            guid: GUID,
            code,
        };
        Some(Rakp2 {
            tag: one.tag,
            console,
            result: Ok(body),
        })
    }

    fn rakp3(&mut self, three: &Rakp3) -> Option<Rakp4> {
        let kg = self.kg;
        let session = self.sessions.get(&three.managed)?;
        // An open session does not respond to a repeated message.
        let Stage::Known(hand) = &session.stage else {
            if three.result.is_err() {
                self.sessions.remove(&three.managed);
            }
            return None;
        };
        let password = self.password(&hand.user)?;
        let (tag, console) = (three.tag, session.console);
        let code = match &three.result {
            Ok(code) => code.as_slice(),
            Err(_) => {
                self.sessions.remove(&three.managed);
                return None;
            }
        };
        if !hand.is_rakp3_code(password, code) {
            self.sessions.remove(&three.managed);
            let result = Err(RakpStatus::INVALID_CHECK_VALUE);
            return Some(Rakp4 {
                tag,
                console,
                result,
            });
        }
        let key = hand.integrity_key(if kg.is_empty() { password } else { kg });
        let result = Ok(hand.rakp4_code(&key));
        let session = self.sessions.get_mut(&three.managed)?;
        session.stage = Stage::Active(key.session_keys());
        Some(Rakp4 {
            tag,
            console,
            result,
        })
    }

    fn in_session(&mut self, managed: u32, packet: &[u8]) -> Option<Vec<u8>> {
        let session = self.sessions.get_mut(&managed)?;
        let Stage::Active(keys) = &session.stage else {
            return None;
        };
        let keys = keys.clone();
        let unsealed = keys.unseal(packet).ok()?;
        let highest = session.seen.last().copied().unwrap_or_default();
        let is_late = unsealed.sequence + 16 <= highest;
        if is_late || unsealed.sequence > highest + 16 || !session.seen.insert(unsealed.sequence) {
            return None;
        }
        let request = Request::decode(&unsealed.payload).ok()?;
        let (code, data, is_over) = self.carry_out(managed, &request);
        let session = self.sessions.get_mut(&managed)?;
        session.sent += 1;
        let (console, sent) = (session.console, session.sent);
        if is_over {
            self.sessions.remove(&managed);
        }
        let answer = request.answer(code, data).encode();
        let iv = [u8::try_from(sent & 0xff).unwrap_or_default(); 16];
        Some(keys.seal(PayloadType::Ipmi, console, sent, &answer, iv))
    }

    fn carry_out(&mut self, managed: u32, request: &Request) -> (u8, Vec<u8>, bool) {
        self.commands.push((request.net_fn, request.command));
        let control_level = self.control_level;
        let Some(session) = self.sessions.get_mut(&managed) else {
            return (0xff, Vec::new(), false);
        };
        match (request.net_fn, request.command) {
            (6, 0x3b) => {
                let level = request.data.first().copied().unwrap_or_default();
                if level > session.most {
                    return (0x81, Vec::new(), false);
                }
                session.level = level;
                return (0, vec![level], false);
            }
            (6, 0x3c) => return (0, Vec::new(), true),
            _ => {}
        }
        if !self.codes.is_empty() {
            match self.codes.remove(0) {
                0 => {}
                code => return (code, Vec::new(), false),
            }
        }
        match (request.net_fn, request.command) {
            (0, 1) => (0, vec![u8::from(self.power), 0, 0], false),
            (0, 2) if session.level < control_level => (0xd4, Vec::new(), false),
            (0, 2) => {
                let control = request.data.first().copied().unwrap_or_default();
                self.controls.push(control);
                self.resets.extend(request.data.get(1));
                match control {
                    0 => self.power = false,
                    1 => self.power = true,
                    _ => {}
                }
                (0, Vec::new(), false)
            }
            _ => (0xc1, Vec::new(), false),
        }
    }
}

fn no_such(one: &Rakp1, status: RakpStatus) -> Option<Rakp2> {
    // Without the console's session id, as some BMCs reject.
    let result = Err(status);
    Some(Rakp2 {
        tag: one.tag,
        console: 0,
        result,
    })
}
