//! Device, channel and session commands (IPMI 2.0, chapters 20 and 22).

use std::time::Duration;

use rackhand_bmc::ipmi::wire::{CompletionCode, Request, Suite};

use super::{Bmc, Caller, Refused, Reply, exactly, first};
use crate::rack::ipmi::config::Privilege;

/// The LAN channel.
const CHANNEL: u8 = 1;
/// Channel number for "this channel".
const PRESENT: u8 = 0x0e;

/// Duration of a cold reset.
const RESTART_TAKES: Duration = Duration::from_secs(5);

/// Requested level not available for this user (table 22-25).
const LEVEL_OF_USER: Refused = Refused(0x80);
/// No such session (table 22-26).
const NO_SUCH_SESSION: Refused = Refused(0x87);

impl Bmc {
    pub(super) fn app(&mut self, caller: &Caller, request: &Request) -> Reply {
        match request.command {
            0x01 => Ok(device_id()),
            0x02 => {
                // The response is lost with the session.
                self.restart(RESTART_TAKES, caller.now);
                Ok(Vec::new())
            }
            // Get Device GUID and Get System GUID.
            0x08 | 0x37 => Ok(self.config.guid.to_vec()),
            0x38 => self.auth_capabilities(&request.data),
            0x3b => self.set_privilege(caller, &request.data),
            0x3c => self.close_session(caller, &request.data),
            0x42 => self.channel_info(&request.data),
            0x54 => self.cipher_suites(&request.data),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    /// Table 22-15. Only RMCP+ is offered.
    fn auth_capabilities(&self, data: &[u8]) -> Reply {
        let [channel, privilege] = exactly(data)?;
        Privilege::of(privilege & 0x0f).ok_or(CompletionCode::INVALID_FIELD)?;
        is_here(channel)?;
        let named = 0x04;
        let kg = if self.config.kg.is_some() { 0x20 } else { 0 };
        // Without bit 7 the client is an IPMI 1.5 client, to which nothing can be offered.
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

    /// Table 22-17: the records in lists of 16 bytes.
    fn cipher_suites(&self, data: &[u8]) -> Reply {
        let [_, _, index] = exactly(data)?;
        let records: Vec<u8> = self.config.suites.iter().flat_map(record).collect();
        let from = usize::from(index & 0x3f) * 16;
        let part = records.get(from..).unwrap_or_default();
        let mut reply = vec![CHANNEL];
        reply.extend(part.iter().take(16));
        Ok(reply)
    }

    fn set_privilege(&mut self, caller: &Caller, data: &[u8]) -> Reply {
        let [level] = exactly(data)?;
        let session = caller.session().and_then(|id| self.sessions.get(id));
        let session = session.ok_or(CompletionCode::PRIVILEGE)?;
        // Level 0 only queries the current level.
        if level & 0x0f != 0 {
            let level = Privilege::of(level & 0x0f).ok_or(CompletionCode::INVALID_FIELD)?;
            if level > session.limit {
                return Err(LEVEL_OF_USER);
            }
            session.privilege = level;
        }
        Ok(vec![session.privilege.number()])
    }

    fn close_session(&mut self, caller: &Caller, data: &[u8]) -> Reply {
        let id = u32::from_le_bytes(first(data)?);
        let session = self.sessions.get(id).cloned().ok_or(NO_SUCH_SESSION)?;
        if caller.session() != Some(id) {
            return Err(CompletionCode::PRIVILEGE.into());
        }
        self.sessions.close(id);
        self.counters.sessions_closed += 1;
        self.stores.closing = Some(session);
        Ok(Vec::new())
    }
}

/// Firmware 4.20, with the enterprise number for documentation (RFC 5612), for which no client has
/// OEM code.
fn device_id() -> Vec<u8> {
    const ENTERPRISE: u32 = 32473;
    let [e0, e1, e2, _] = ENTERPRISE.to_le_bytes();
    // IPMI 2.0; chassis, FRU, SEL, SDR and sensor device.
    let mut data = vec![0x20, 0x01, 4, 0x20, 0x02, 0x8f];
    data.extend([e0, e1, e2, 0x00, 0x01, 0, 0, 0, 0]);
    data
}

/// Checks that the channel exists; there is one.
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
