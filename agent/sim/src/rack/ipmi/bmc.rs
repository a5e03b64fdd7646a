//! The BMC itself, sans-IO: packets and `now` in, packets out.
//!
//! Owns the way of a packet: what it is, which session it belongs to, what a rule makes of it, and
//! how its answer is wrapped. Must never panic on any bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::{Frame, OpenRequest, PayloadType, Rakp1, Rakp3, Request, plain};

use super::command::Stores;
use super::config::IpmiConfig;
use super::counters::{Command, Counters, Dropped};
use super::ping::{ping_tag, pong};
use super::power::{HostPower, PowerTally};
use super::response::cut;
use super::rules::{Effects, Rule, RuleBook, Target};
use super::session::{Rights, Seeded, SessionTable};
use crate::rack::FaultId;

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// How a message came, and its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// IPMI 1.5 without authentication.
    V15,
    /// RMCP+ outside of a session.
    Plain,
    /// In a session.
    Session(Rights),
}

#[derive(Debug)]
enum Arrived {
    Ping(u8),
    Open(OpenRequest),
    Rakp1(Rakp1),
    Rakp3(Rakp3),
    Message(Framing, Request),
}

impl Arrived {
    fn target(&self) -> Target {
        match self {
            Self::Ping(_) => Target::Ping,
            Self::Open(_) => Target::OpenSession,
            Self::Rakp1(_) => Target::Rakp1,
            Self::Rakp3(_) => Target::Rakp3,
            Self::Message(_, request) => Target::Command(command_of(request)),
        }
    }
}

pub(super) fn command_of(request: &Request) -> Command {
    Command::new(request.net_fn, request.command)
}

/// What is to happen later.
#[derive(Debug)]
enum Later {
    Handle(SocketAddr, Arrived, Effects),
    Send(Datagram),
}

/// A simulated BMC.
pub struct Bmc {
    pub(super) config: Arc<IpmiConfig>,
    pub(super) power: Box<dyn HostPower>,
    pub(super) random: Seeded,
    pub(super) sessions: SessionTable,
    pub(super) counters: Counters,
    pub(super) stores: Stores,
    pub(super) started: Instant,
    pub(super) rules: RuleBook,
    later: BTreeMap<(Instant, u64), Later>,
    order: u64,
    down_until: Option<Instant>,
    dead: bool,
}

impl fmt::Debug for Bmc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bmc")
            .field("guid", &self.config.guid)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Bmc {
    /// A BMC that has just started, of this host.
    pub fn new(config: Arc<IpmiConfig>, power: Box<dyn HostPower>, now: Instant) -> Self {
        Self {
            power,
            random: Seeded::new(config.seed),
            sessions: SessionTable::new(
                config.session_limit,
                config.session_idle,
                config.setup_limit,
            ),
            counters: Counters::default(),
            stores: Stores::new(&config),
            started: now,
            rules: RuleBook::default(),
            later: BTreeMap::new(),
            order: 0,
            down_until: None,
            dead: false,
            config,
        }
    }

    /// What it did so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What really happened to its host.
    pub fn tally(&mut self, now: Instant) -> PowerTally {
        self.power.tally(now)
    }

    pub fn power(&mut self) -> &mut dyn HostPower {
        &mut *self.power
    }

    /// How many sessions are up.
    pub fn sessions(&mut self, now: Instant) -> usize {
        self.expire(now);
        self.sessions.active()
    }

    /// Adds a rule behind the others.
    pub fn inject(&mut self, rule: Rule) -> FaultId {
        self.rules.add(rule)
    }

    /// Removes a rule; false if it is not there.
    pub fn clear_fault(&mut self, id: FaultId) -> bool {
        self.rules.remove(id)
    }

    /// Removes all rules.
    pub fn clear_faults(&mut self) {
        self.rules.clear();
    }

    /// Dead: nothing is answered, and its sessions are lost. The host goes on as it was.
    pub fn set_dead(&mut self, dead: bool) {
        self.dead = dead;
        if dead {
            self.forget();
        }
    }

    /// Restarts it: gone for that long, sessions lost.
    pub fn restart(&mut self, takes: Duration, now: Instant) {
        self.counters.restarts += 1;
        self.down_until = Some(now + takes);
        self.forget();
    }

    fn forget(&mut self) {
        self.sessions.clear();
        self.later.clear();
        self.stores.restarted();
    }

    /// When [`Bmc::wake`] has something to do if nothing arrives before.
    pub fn next_wake(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// Does what is due; gives what is to be sent.
    pub fn wake(&mut self, now: Instant) -> Vec<Datagram> {
        let mut out = Vec::new();
        while let Some(entry) = self.later.first_entry() {
            let (at, _) = *entry.key();
            if at > now {
                break;
            }
            match entry.remove() {
                Later::Send(datagram) => out.push(datagram),
                Later::Handle(peer, arrived, effects) => {
                    self.handle(peer, &arrived, &effects, at, &mut out);
                }
            }
        }
        self.sent(&out);
        out
    }

    /// Takes a datagram; gives what is to be sent now, what was due before included.
    pub fn receive(&mut self, peer: SocketAddr, packet: &[u8], now: Instant) -> Vec<Datagram> {
        let mut out = self.wake(now);
        let before = out.len();
        self.counters.packets += 1;
        if let Err(why) = self.take(peer, packet, now, &mut out) {
            self.counters.drop(why);
        }
        self.sent(out.get(before..).unwrap_or_default());
        out
    }

    fn sent(&mut self, datagrams: &[Datagram]) {
        let count = u64::try_from(datagrams.len()).unwrap_or(u64::MAX);
        self.counters.sent += count;
    }

    fn take(
        &mut self,
        peer: SocketAddr,
        packet: &[u8],
        now: Instant,
        out: &mut Vec<Datagram>,
    ) -> Result<(), Dropped> {
        if self.dead || self.down_until.is_some_and(|until| now < until) {
            return Err(Dropped::Down);
        }
        self.expire(now);
        let arrived = self.read(packet, now)?;
        let effects = self.rules.decide(arrived.target());
        if effects.ignore {
            return Err(Dropped::Rule);
        }
        if effects.delay > Duration::ZERO {
            let at = now + effects.delay;
            self.at(at, Later::Handle(peer, arrived, effects));
        } else {
            self.handle(peer, &arrived, &effects, now, out);
        }
        Ok(())
    }

    fn expire(&mut self, now: Instant) {
        self.counters.sessions_expired += self.sessions.expire(now);
    }

    fn at(&mut self, at: Instant, what: Later) {
        self.order += 1;
        self.later.insert((at, self.order), what);
    }

    /// What it is; what is in no state to be taken is not.
    fn read(&mut self, packet: &[u8], now: Instant) -> Result<Arrived, Dropped> {
        if let Some(tag) = ping_tag(packet) {
            return Ok(Arrived::Ping(tag));
        }
        let malformed = |_| Dropped::Malformed;
        Ok(match Frame::decode(packet).map_err(malformed)? {
            Frame::V15 { payload } => {
                Arrived::Message(Framing::V15, Request::decode(payload).map_err(malformed)?)
            }
            Frame::V20 { session, .. } if session != 0 => {
                let (rights, payload) = self.unseal(session, packet, now)?;
                let request = Request::decode(&payload).map_err(malformed)?;
                Arrived::Message(Framing::Session(rights), request)
            }
            Frame::V20 {
                encrypted: false,
                authenticated: false,
                payload_type,
                payload,
                ..
            } => match payload_type {
                PayloadType::Ipmi => {
                    let request = Request::decode(payload).map_err(malformed)?;
                    Arrived::Message(Framing::Plain, request)
                }
                PayloadType::OpenRequest => {
                    Arrived::Open(OpenRequest::decode(payload).map_err(malformed)?)
                }
                PayloadType::Rakp1 => Arrived::Rakp1(Rakp1::decode(payload).map_err(malformed)?),
                PayloadType::Rakp3 => Arrived::Rakp3(Rakp3::decode(payload).map_err(malformed)?),
                _ => return Err(Dropped::Malformed),
            },
            Frame::V20 { .. } => return Err(Dropped::Malformed),
        })
    }

    /// Whose a packet of a session is, and its payload, if it is of one and in its turn.
    fn unseal(
        &mut self,
        id: u32,
        packet: &[u8],
        now: Instant,
    ) -> Result<(Rights, Vec<u8>), Dropped> {
        let strict = self.config.behaviour.strict_sequence;
        let session = self.sessions.get(id).ok_or(Dropped::UnknownSession)?;
        let rights = session.rights();
        let keys = session.keys().ok_or(Dropped::UnknownSession)?;
        let unsealed = keys.unseal(packet).map_err(|_| Dropped::Integrity)?;
        if unsealed.payload_type != PayloadType::Ipmi {
            return Err(Dropped::Malformed);
        }
        if !session.window.take(unsealed.sequence) && strict {
            return Err(Dropped::Sequence);
        }
        session.touch(now);
        Ok((rights, unsealed.payload))
    }

    fn handle(
        &mut self,
        peer: SocketAddr,
        arrived: &Arrived,
        effects: &Effects,
        now: Instant,
        out: &mut Vec<Datagram>,
    ) {
        if let Some((takes, acts)) = effects.restart {
            if acts {
                self.answer(peer, arrived, effects, now).ok();
            }
            self.restart(takes, now);
            return self.counters.drop(Dropped::Rule);
        }
        let answer = self.answer(peer, arrived, effects, now);
        if effects.lose {
            return self.counters.drop(Dropped::Rule);
        }
        let Ok(bytes) = answer.map_err(|why| self.counters.drop(why)) else {
            return;
        };
        let datagram = Datagram { to: peer, bytes };
        let copies = if effects.twice { 2 } else { 1 };
        for datagram in std::iter::repeat_n(datagram, copies) {
            if effects.late > Duration::ZERO {
                self.at(now + effects.late, Later::Send(datagram));
            } else {
                out.push(datagram);
            }
        }
    }

    /// Carries it out; the bytes of the answer.
    fn answer(
        &mut self,
        peer: SocketAddr,
        arrived: &Arrived,
        effects: &Effects,
        now: Instant,
    ) -> Result<Vec<u8>, Dropped> {
        let setup = match arrived {
            Arrived::Ping(tag) if self.config.behaviour.answers_ping => {
                return Ok(cut(pong(*tag), effects));
            }
            Arrived::Ping(_) => return Err(Dropped::Ping),
            Arrived::Message(framing, request) => {
                let response = self.execute(*framing, request, effects, now)?;
                return Ok(cut(self.wrap(*framing, response, effects)?, effects));
            }
            Arrived::Open(open) => self.open_session(peer, open, effects, now),
            Arrived::Rakp1(one) => self.rakp1(one, effects, now),
            Arrived::Rakp3(three) => self.rakp3(three, effects, now),
        };
        let (kind, payload) = setup.ok_or(Dropped::Refused)?;
        Ok(cut(plain(kind, &payload), effects))
    }
}
