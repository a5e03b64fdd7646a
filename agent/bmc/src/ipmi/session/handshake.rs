//! The handshake that opens a session (IPMI 2.0, sections 13.17 to 13.24).

use std::time::Instant;

use secrecy::ExposeSecret;

use super::{
    Level, RetransmissionTimer, Settings, negotiation::Terms, open_session::Session,
    open_session::SessionCounters,
};
use crate::ipmi::wire::{
    Handshake, OpenRequest, OpenResponse, PayloadType, Rakp1, Rakp2, Rakp3, Rakp4, RakpStatus,
    SessionIntegrityKey, Suite, plain,
};

/// Looks the user up by name alone. Otherwise the BMC requires a user whose limit is exactly the
/// requested privilege (IPMI 2.0, table 13-11).
const NAME_ONLY: u8 = 0x10;

/// The message that waits for its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    Rakp1,
    Rakp3,
}

impl Stage {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "Open Session",
            Self::Rakp1 => "RAKP message 1",
            Self::Rakp3 => "RAKP message 3",
        }
    }
}

/// Reason why no session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Error status of the BMC.
    Status(Stage, RakpStatus),
    /// OpenBMC's refusal of a user who is disabled (RAKP message 2 without a tag).
    Disabled,
    /// The BMC selected another suite than was proposed.
    OtherSuite,
    /// RAKP message 2 does not match the password.
    Password,
    /// RAKP message 4 does not match K_g, although the password is right.
    Key,
}

/// Effect of a received packet on the handshake.
#[derive(Debug)]
pub(super) enum HandshakeEvent {
    /// None: the packet does not respond to the last message.
    Nothing,
    /// The next message must be sent.
    Next,
    /// The session is open.
    Done(Box<Session>),
    /// The BMC refused the session, or its proof of the password is wrong.
    No(Refusal),
    /// The same, in a packet that does not repeat the tag of the message.
    UntaggedNo(Refusal),
}

/// How a packet refers to the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    Tagged,
    /// A refusal without tag and session id.
    Untagged,
    Other,
}

#[derive(Debug)]
enum Phase {
    Open,
    Rakp1 {
        managed: u32,
    },
    Rakp3 {
        hand: Box<Handshake>,
        key: SessionIntegrityKey,
    },
}

fn untagged(stage: Stage, status: RakpStatus) -> HandshakeEvent {
    let is_disabled = stage == Stage::Rakp1 && status == RakpStatus::INVALID_ROLE;
    HandshakeEvent::UntaggedNo(if is_disabled {
        Refusal::Disabled
    } else {
        Refusal::Status(stage, status)
    })
}

/// A handshake in progress.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) terms: Terms,
    pub(super) pace: RetransmissionTimer,
    pub(super) deadline: Instant,
    console: u32,
    random: [u8; 16],
    tag: u8,
    phase: Phase,
    /// The packet of this stage, identical in each attempt: a BMC that recognizes it keeps one
    /// session for all attempts.
    packet: Vec<u8>,
}

impl Opening {
    /// Starts a handshake. `seed` determines the session id and the first tag, `random` the random
    /// number of this side.
    pub(super) fn new(
        terms: Terms,
        seed: [u8; 16],
        random: [u8; 16],
        pace: RetransmissionTimer,
        deadline: Instant,
    ) -> Self {
        let [a, b, c, d, tag, ..] = seed;
        let (suite, level) = terms;
        let console = u32::from_le_bytes([a, b, c, d]).max(1);
        let open = OpenRequest {
            tag,
            privilege: level.number(),
            console,
            algorithms: suite.algorithms(),
        };
        Self {
            terms,
            pace,
            deadline,
            console,
            random,
            tag,
            phase: Phase::Open,
            packet: plain(PayloadType::OpenRequest, &open.encode()),
        }
    }

    pub(super) fn packet(&self) -> Vec<u8> {
        self.packet.clone()
    }

    pub(super) fn stage(&self) -> Stage {
        match self.phase {
            Phase::Open => Stage::Open,
            Phase::Rakp1 { .. } => Stage::Rakp1,
            Phase::Rakp3 { .. } => Stage::Rakp3,
        }
    }

    /// Handles a packet received outside of a session.
    pub(super) fn receive(
        &mut self,
        payload_type: PayloadType,
        payload: &[u8],
        settings: &Settings,
        now: Instant,
    ) -> HandshakeEvent {
        match (&self.phase, payload_type) {
            (Phase::Open, PayloadType::OpenResponse) => match OpenResponse::decode(payload) {
                Ok(open) => match (
                    self.reference(open.tag, open.console, &open.result),
                    open.result,
                ) {
                    (Reference::Tagged, _) => self.opened(open, settings),
                    (Reference::Untagged, Err(status)) => untagged(Stage::Open, status),
                    _ => HandshakeEvent::Nothing,
                },
                Err(_) => HandshakeEvent::Nothing,
            },
            (Phase::Rakp1 { managed }, PayloadType::Rakp2) => match Rakp2::decode(payload) {
                Ok(two) => match (
                    self.reference(two.tag, two.console, &two.result),
                    &two.result,
                ) {
                    (Reference::Tagged, _) => {
                        let managed = *managed;
                        self.known(managed, two, settings)
                    }
                    (Reference::Untagged, Err(status)) => untagged(Stage::Rakp1, *status),
                    _ => HandshakeEvent::Nothing,
                },
                Err(_) => HandshakeEvent::Nothing,
            },
            (Phase::Rakp3 { hand, key }, PayloadType::Rakp4) => match Rakp4::decode(payload) {
                Ok(four) => match (
                    self.reference(four.tag, four.console, &four.result),
                    four.result,
                ) {
                    (Reference::Tagged, Err(status)) => {
                        HandshakeEvent::No(Refusal::Status(Stage::Rakp3, status))
                    }
                    (Reference::Tagged, Ok(code)) if !hand.is_rakp4_code(key, &code) => {
                        HandshakeEvent::No(Refusal::Key)
                    }
                    (Reference::Tagged, Ok(_)) => {
                        HandshakeEvent::Done(Box::new(self.session(hand, key, now)))
                    }
                    (Reference::Untagged, Err(status)) => untagged(Stage::Rakp3, status),
                    _ => HandshakeEvent::Nothing,
                },
                Err(_) => HandshakeEvent::Nothing,
            },
            _ => HandshakeEvent::Nothing,
        }
    }

    /// Whether the packet belongs to this handshake. Some BMCs omit the session id in a refusal, but
    /// repeat the tag; OpenBMC sends refusals in which both are 0. A success always has both.
    fn reference<T>(&self, tag: u8, console: u32, result: &Result<T, RakpStatus>) -> Reference {
        let is_refusal = result.is_err();
        if is_refusal && tag == 0 && console == 0 {
            Reference::Untagged
        } else if tag == self.tag && (console == self.console || is_refusal && console == 0) {
            Reference::Tagged
        } else {
            Reference::Other
        }
    }

    fn next(
        &mut self,
        phase: Phase,
        payload_type: PayloadType,
        encode: impl Fn(u8) -> Vec<u8>,
    ) -> HandshakeEvent {
        self.tag = self.tag.wrapping_add(1);
        self.phase = phase;
        self.packet = plain(payload_type, &encode(self.tag));
        HandshakeEvent::Next
    }

    fn role(&self) -> u8 {
        self.terms.1.number() | NAME_ONLY
    }

    fn opened(&mut self, open: OpenResponse, settings: &Settings) -> HandshakeEvent {
        let opened = match open.result {
            Err(status) => return HandshakeEvent::No(Refusal::Status(Stage::Open, status)),
            Ok(opened) => opened,
        };
        if Suite::of_algorithms(opened.algorithms) != Some(self.terms.0) {
            return HandshakeEvent::No(Refusal::OtherSuite);
        }
        // Some BMCs (ipmi_sim) return privilege 0 here, so it is ignored.
        let managed = opened.managed;
        let (random, role) = (self.random, self.role());
        self.next(Phase::Rakp1 { managed }, PayloadType::Rakp1, |tag| {
            let user = settings.user.clone().into_bytes();
            Rakp1 {
                tag,
                managed,
                random,
                role,
                user,
            }
            .encode()
        })
    }

    fn known(&mut self, managed: u32, two: Rakp2, settings: &Settings) -> HandshakeEvent {
        let body = match two.result {
            Err(status) => return HandshakeEvent::No(Refusal::Status(Stage::Rakp1, status)),
            Ok(body) => body,
        };
        let hand = Handshake {
            suite: self.terms.0,
            console: self.console,
            managed,
            console_random: self.random,
            managed_random: body.random,
            guid: body.guid,
            role: self.role(),
            user: settings.user.clone().into_bytes(),
        };
        let password = settings.password.expose_secret().as_bytes();
        if !hand.is_rakp2_code(password, &body.code) {
            return HandshakeEvent::No(Refusal::Password);
        }
        let kg = match settings.kg.as_slice() {
            [] => password,
            kg => kg,
        };
        let key = hand.integrity_key(kg);
        let code = hand.rakp3_code(password).to_vec();
        let hand = Box::new(hand);
        self.next(Phase::Rakp3 { hand, key }, PayloadType::Rakp3, |tag| {
            let result = Ok(code.clone());
            Rakp3 {
                tag,
                managed,
                result,
            }
            .encode()
        })
    }

    fn session(&self, hand: &Handshake, key: &SessionIntegrityKey, now: Instant) -> Session {
        Session {
            keys: key.session_keys(),
            suite: self.terms.0,
            console: hand.console,
            managed: hand.managed,
            most: self.terms.1,
            // A session starts at USER, whatever was requested (IPMI 2.0, section 22.18).
            level: Level::User,
            guid: hand.guid,
            heard: now,
            numbers: SessionCounters::default(),
        }
    }

    /// Packets that release the resources of an abandoned handshake at the BMC.
    ///
    /// Before RAKP message 2 no message can do that, and the BMC releases them after a timeout.
    /// After it, RAKP message 3 with an error status does (IPMI 2.0, table 13-13). Once message 3
    /// was sent, the BMC may have opened the session, which only Close Session ends.
    pub(super) fn abort_packets(
        self,
        refusal: Option<Refusal>,
        iv: [u8; 16],
        now: Instant,
    ) -> Vec<Vec<u8>> {
        let (managed, mut packets) = match (&self.phase, refusal) {
            (Phase::Rakp1 { managed }, Some(Refusal::Password)) => (*managed, Vec::new()),
            (Phase::Rakp3 { hand, .. }, Some(Refusal::Key)) => (hand.managed, Vec::new()),
            (Phase::Rakp3 { hand, key }, None) => {
                let (_, close) = self.session(hand, key, now).close_packet(iv);
                (hand.managed, vec![close])
            }
            _ => return Vec::new(),
        };
        let three = Rakp3 {
            tag: self.tag.wrapping_add(1),
            managed,
            result: Err(RakpStatus::INVALID_CHECK_VALUE),
        };
        packets.push(plain(PayloadType::Rakp3, &three.encode()));
        packets
    }
}
