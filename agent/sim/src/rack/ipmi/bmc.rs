//! The BMC itself, sans-IO: packets and `now` in, packets out.
//!
//! Owns: processing of a packet: its kind, its session, the applicable rule, and the framing of the
//! response. Must never: panic on any bytes.

use std::fmt;
use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::{
    Frame, OpenRequest, PayloadType, Rakp1, Rakp3, Request, Response, plain, v15,
};

use super::command::Stores;
use super::config::IpmiConfig;
use super::counters::{Command, Counters, Dropped};
use super::power::{HostPower, PowerCounts};
use super::rules::{Action, Rule, RuleSet, Target};
use super::session::{Rights, Seeded, SessionTable};
use crate::rack::PowerState;

/// Framing of a message and its response.
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
    Open(OpenRequest),
    Rakp1(Rakp1),
    Rakp3(Rakp3),
    Message(Framing, Request),
}

impl Arrived {
    /// The rule target of the frame.
    fn target(&self) -> Option<Target> {
        match self {
            Self::Rakp1(_) => Some(Target::Rakp1),
            Self::Message(_, request) => Some(Target::Command(command_of(request))),
            Self::Open(_) | Self::Rakp3(_) => None,
        }
    }
}

pub(super) fn command_of(request: &Request) -> Command {
    Command::new(request.net_fn, request.command)
}

/// A simulated BMC.
pub struct Bmc {
    pub(super) config: IpmiConfig,
    pub(super) power: Box<dyn HostPower>,
    pub(super) random: Seeded,
    pub(super) sessions: SessionTable,
    pub(super) counters: Counters,
    pub(super) stores: Stores,
    pub(super) started: Instant,
    pub(super) rules: RuleSet,
    down_until: Option<Instant>,
    dead: bool,
    /// Whether it has lost the power state of its host, and assumes off.
    pub(super) forgot_power: bool,
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
    /// A BMC of this host that has just started.
    pub fn new(config: IpmiConfig, power: Box<dyn HostPower>, now: Instant) -> Self {
        Self {
            power,
            random: Seeded::new(config.seed),
            sessions: SessionTable::new(config.session_limit, config.setup_limit),
            counters: Counters::default(),
            stores: Stores::new(&config),
            started: now,
            rules: RuleSet::default(),
            down_until: None,
            dead: false,
            forgot_power: false,
            config,
        }
    }

    /// Counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counters of real power events of its host.
    pub fn power_counts(&mut self, now: Instant) -> PowerCounts {
        self.power.power_counts(now)
    }

    /// Number of open sessions.
    pub fn sessions(&mut self, now: Instant) -> usize {
        self.expire(now);
        self.sessions.active()
    }

    /// Appends a fault rule.
    pub fn inject(&mut self, rule: Rule) {
        self.rules.add(rule);
    }

    /// Makes the BMC unresponsive, with its sessions lost. The host is not affected.
    pub fn set_dead(&mut self, dead: bool) {
        self.dead = dead;
        if dead {
            self.forget();
        }
    }

    /// Makes the BMC lose the power state of its host, as its own reset may do: it assumes off, and refuses
    /// commands by that, until it carries out a command.
    pub fn forget_power(&mut self) {
        self.forgot_power = true;
    }

    /// The power state that the BMC assumes for its host.
    pub(super) fn believed_power(&mut self, now: Instant) -> PowerState {
        match self.forgot_power {
            true => PowerState::Off,
            false => self.power.believed(now),
        }
    }

    /// Restarts the BMC: it is unresponsive for this time, and its sessions are lost.
    pub(super) fn restart(&mut self, takes: Duration, now: Instant) {
        self.down_until = Some(now + takes);
        self.forget();
    }

    fn forget(&mut self) {
        self.sessions.clear();
        self.stores.restarted();
    }

    /// Processes a datagram; returns its response.
    pub fn receive(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.counters.packets += 1;
        let response = self.process(packet, now);
        self.counters.sent += u64::from(response.is_ok());
        response.map_err(|why| self.counters.drop(why)).ok()
    }

    fn process(&mut self, packet: &[u8], now: Instant) -> Result<Vec<u8>, Dropped> {
        if self.dead || self.down_until.is_some_and(|until| now < until) {
            return Err(Dropped::Down);
        }
        self.expire(now);
        let arrived = self.read(packet, now)?;
        let target = arrived.target();
        let fault = target.and_then(|target| self.rules.decide(target));
        if fault == Some(Action::Ignore) {
            return Err(Dropped::Rule);
        }
        let response = self.respond(&arrived, fault, now)?;
        match fault {
            Some(Action::LoseAnswer) => Err(Dropped::Rule),
            _ => Ok(response),
        }
    }

    fn expire(&mut self, now: Instant) {
        self.counters.sessions_expired += self.sessions.expire(now);
    }

    fn read(&mut self, packet: &[u8], now: Instant) -> Result<Arrived, Dropped> {
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

    /// The session and the payload of a packet, if keys and sequence number are valid.
    fn unseal(
        &mut self,
        id: u32,
        packet: &[u8],
        now: Instant,
    ) -> Result<(Rights, Vec<u8>), Dropped> {
        let session = self.sessions.get(id).ok_or(Dropped::UnknownSession)?;
        let rights = session.rights();
        let keys = session.keys().ok_or(Dropped::UnknownSession)?;
        let unsealed = keys.unseal(packet).map_err(|_| Dropped::Integrity)?;
        if unsealed.payload_type != PayloadType::Ipmi {
            return Err(Dropped::Malformed);
        }
        if !session.window.take(unsealed.sequence) && self.config.strict_sequence {
            return Err(Dropped::Sequence);
        }
        session.touch(now);
        Ok((rights, unsealed.payload))
    }

    fn respond(
        &mut self,
        arrived: &Arrived,
        fault: Option<Action>,
        now: Instant,
    ) -> Result<Vec<u8>, Dropped> {
        let setup = match arrived {
            Arrived::Message(framing, request) => {
                let reports_off = fault == Some(Action::OffUntilCommanded);
                let response = self.execute(*framing, request, reports_off, now);
                return self.wrap(*framing, &response);
            }
            Arrived::Open(open) => Some(self.open_session(open, now)),
            Arrived::Rakp1(one) => self.rakp1(one, now),
            Arrived::Rakp3(three) => self.rakp3(three, now),
        };
        let (kind, payload) = setup.ok_or(Dropped::Refused)?;
        Ok(plain(kind, &payload))
    }

    /// Encodes a response in the framing of its request.
    fn wrap(&mut self, framing: Framing, response: &Response) -> Result<Vec<u8>, Dropped> {
        let message = response.encode();
        let id = match framing {
            Framing::V15 => return Ok(v15(&message)),
            Framing::Plain => return Ok(plain(PayloadType::Ipmi, &message)),
            Framing::Session(rights) => rights.session,
        };
        let iv = self.random.bytes();
        // The response to Close Session is sealed by the session that it has closed.
        let mut closed = self.stores.closing.take().filter(|one| one.managed == id);
        let session = closed.as_mut().or_else(|| self.sessions.get(id));
        let session = session.ok_or(Dropped::UnknownSession)?;
        let sequence = session.next_sequence();
        let keys = session.keys().ok_or(Dropped::UnknownSession)?;
        let (kind, console) = (PayloadType::Ipmi, session.console);
        Ok(match self.config.pads_whole_blocks {
            true => keys.seal_with_whole_block(kind, console, sequence, &message, iv),
            false => keys.seal(kind, console, sequence, &message, iv),
        })
    }
}
