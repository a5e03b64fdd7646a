//! Device, channel and session commands (IPMI 2.0, chapters 20 and 22).

use rackhand_bmc::ipmi::wire::{CompletionCode, Request, Suite};

use super::{Bmc, Caller, Refused, Reply, exactly, first};
use crate::rack::ipmi::config::Privilege;
use crate::rack::ipmi::session::Rights;

/// The LAN channel.
const CHANNEL: u8 = 1;
/// "This channel".
const PRESENT: u8 = 0x0e;

/// Requested level not available for this user (table 22-25).
const LEVEL_OF_USER: Refused = Refused(0x80);
/// No such session (table 22-26).
const NO_SUCH_SESSION: Refused = Refused(0x87);

impl Bmc {
    pub(super) fn app(&mut self, caller: &Caller<'_>, request: &Request) -> Reply {
        match request.command {
            0x01 => Ok(self.device_id()),
            0x02 | 0x03 => {
                // The answer is lost with the BMC.
                let takes = self.config.behaviour.restart_takes;
                self.restart(takes, caller.now);
                Ok(Vec::new())
            }
            // Get Self Test Results: no error.
            0x04 => Ok(vec![0x55, 0x00]),
            // Get Device GUID and Get System GUID: one thing in most machines.
            0x08 | 0x37 => Ok(caller.effects.guid.unwrap_or(self.config.guid).to_vec()),
            0x38 => self.auth_capabilities(&request.data),
            0x3b => self.set_privilege(caller, &request.data),
            0x3c => self.close_session(caller, &request.data),
            0x3d => self.session_info(caller, &request.data),
            0x42 => self.channel_info(&request.data),
            0x54 => self.cipher_suites(&request.data),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    fn device_id(&self) -> Vec<u8> {
        let product = &self.config.product;
        let (major, minor) = product.firmware;
        let [e0, e1, e2, _] = product.enterprise.to_le_bytes();
        let [p0, p1] = product.id.to_le_bytes();
        let minor = ((minor / 10) << 4) | (minor % 10);
        // IPMI 2.0; chassis, FRU, SEL, SDR and sensor device.
        let mut data = vec![0x20, 0x01, major & 0x7f, minor, 0x02, 0x8f];
        data.extend([e0, e1, e2, p0, p1, 0, 0, 0, 0]);
        data
    }

    /// Table 22-15. Only RMCP+ is offered.
    fn auth_capabilities(&self, data: &[u8]) -> Reply {
        let [channel, privilege] = exactly(data)?;
        Privilege::of(privilege & 0x0f).ok_or(CompletionCode::INVALID_FIELD)?;
        is_here(channel)?;
        let named = 0x04;
        let kg = if self.config.kg.is_some() { 0x20 } else { 0 };
        // Without bit 7 an IPMI 1.5 client asks, to which nothing can be offered.
        Ok(if channel & 0x80 != 0 {
            vec![CHANNEL, 0x80, named | kg, 0x02, 0, 0, 0, 0]
        } else {
            vec![CHANNEL, 0x00, named, 0x00, 0, 0, 0, 0]
        })
    }

    /// Table 22-24: 802.3 LAN, IPMB-1.0, multi-session.
    fn channel_info(&self, data: &[u8]) -> Reply {
        let [channel] = exactly(data)?;
        is_here(channel)?;
        let active = u8::try_from(self.sessions.active()).unwrap_or(u8::MAX);
        let sessions = 0x80 | active.min(0x3f);
        Ok(vec![CHANNEL, 0x04, 0x01, sessions, 0xf2, 0x1b, 0, 0, 0])
    }

    /// Table 22-17: 16 bytes of the records at a time.
    fn cipher_suites(&self, data: &[u8]) -> Reply {
        let [_, _, index] = exactly(data)?;
        let records: Vec<u8> = self.config.suites.iter().flat_map(record).collect();
        let from = usize::from(index & 0x3f) * 16;
        let part = records.get(from..).unwrap_or_default();
        let mut reply = vec![CHANNEL];
        reply.extend(part.iter().take(16));
        Ok(reply)
    }

    fn set_privilege(&mut self, caller: &Caller<'_>, data: &[u8]) -> Reply {
        let [level] = exactly(data)?;
        let session = caller.session().and_then(|id| self.sessions.get(id));
        let session = session.ok_or(CompletionCode::PRIVILEGE)?;
        // 0 asks what it is.
        if level & 0x0f != 0 {
            let level = Privilege::of(level & 0x0f).ok_or(CompletionCode::INVALID_FIELD)?;
            if level > session.limit {
                return Err(LEVEL_OF_USER);
            }
            session.privilege = level;
        }
        Ok(vec![session.privilege.number()])
    }

    fn close_session(&mut self, caller: &Caller<'_>, data: &[u8]) -> Reply {
        let id = u32::from_le_bytes(first(data)?);
        let own = caller.session() == Some(id);
        // Other sessions may be closed by an administrator (22.19).
        let administrator = |rights: Rights| rights.privilege == Privilege::Administrator;
        let may = own || caller.rights.is_some_and(administrator);
        if !may {
            return Err(CompletionCode::PRIVILEGE.into());
        }
        let closed = self.sessions.get(id).cloned().ok_or(NO_SUCH_SESSION)?;
        self.sessions.close(id);
        self.counters.sessions_closed += 1;
        self.stores.closing = own.then_some(closed);
        Ok(Vec::new())
    }

    /// Table 22-26.
    fn session_info(&self, caller: &Caller<'_>, data: &[u8]) -> Reply {
        let [index, rest @ ..] = data else {
            return Err(CompletionCode::LENGTH.into());
        };
        let count = |number: usize| u8::try_from(number).unwrap_or(0x3f).min(0x3f);
        let slots = count(self.sessions.limit());
        let active = count(self.sessions.active());
        let mut all = (1_u8..).zip(self.sessions.all_active());
        let found = match index {
            0x00 => all.find(|(_, one)| Some(one.managed) == caller.session()),
            0xff => {
                let id = u32::from_le_bytes(first(rest)?);
                all.find(|(_, one)| one.managed == id)
            }
            0xfe => {
                let [handle] = first(rest)?;
                all.find(|(number, _)| *number == handle)
            }
            index => all.find(|(number, _)| number == index),
        };
        let Some((handle, session)) = found else {
            return Ok(vec![0, slots, active]);
        };
        let user = session.user.and_then(|user| u8::try_from(user + 2).ok());
        let mut reply = vec![handle, slots, active, user.unwrap_or(0x3f)];
        reply.extend([session.privilege.number(), 0x10 | CHANNEL]);
        match session.peer.ip() {
            std::net::IpAddr::V4(address) => reply.extend(address.octets()),
            std::net::IpAddr::V6(_) => reply.extend([0; 4]),
        }
        reply.extend([0; 6]);
        reply.extend(session.peer.port().to_le_bytes());
        Ok(reply)
    }
}

/// There is one channel.
fn is_here(channel: u8) -> Result<(), CompletionCode> {
    let known = [CHANNEL, PRESENT].contains(&(channel & 0x0f));
    known.then_some(()).ok_or(CompletionCode::INVALID_FIELD)
}

/// A cipher suite record (table 22-18).
fn record(suite: &Suite) -> [u8; 5] {
    let [authentication, integrity, confidentiality] = suite.algorithms();
    let (integrity, confidentiality) = (0x40 | integrity, 0x80 | confidentiality);
    [
        0xc0,
        suite.number(),
        authentication,
        integrity,
        confidentiality,
    ]
}
