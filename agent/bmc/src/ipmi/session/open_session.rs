//! An open session.

use std::time::Instant;

use super::{Level, sequence_window::Window};
use crate::ipmi::wire::{PayloadType, Request, Response, SessionKeys, Suite};

const APP: u8 = 0x06;
const CLOSE_SESSION: u8 = 0x3c;

/// SessionCounters and keys of an open session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) keys: SessionKeys,
    pub(super) suite: Suite,
    /// Session id of this side (remote console).
    pub(super) console: u32,
    /// Session id of the BMC (managed system).
    pub(super) managed: u32,
    /// The highest privilege that the session allows.
    pub(super) most: Level,
    /// Privilege level that the BMC has granted to the session.
    pub(super) level: Level,
    /// GUID of the managed system, from RAKP message 2.
    pub(super) guid: [u8; 16],
    /// Time of the last response.
    pub(super) heard: Instant,
    pub(super) numbers: SessionCounters,
}

/// Sequence numbers of a session.
#[derive(Debug, Default)]
pub(super) struct SessionCounters {
    session: u32,
    request: u8,
    inbound: Window,
}

impl Session {
    /// Builds a packet with this request, and returns the request's sequence number. Every packet
    /// has new numbers: a BMC drops a session sequence number that it has seen, and may drop a
    /// repeated request sequence number.
    pub(super) fn request(
        &mut self,
        net_fn: u8,
        command: u8,
        data: Vec<u8>,
        iv: [u8; 16],
    ) -> (u8, Vec<u8>) {
        let numbers = &mut self.numbers;
        numbers.session = numbers.session.checked_add(1).unwrap_or(1);
        numbers.request = (numbers.request + 1) & 0x3f;
        let request = Request {
            net_fn,
            lun: 0,
            sequence: numbers.request,
            command,
            data,
        };
        let packet = self.keys.seal(
            PayloadType::Ipmi,
            self.managed,
            numbers.session,
            &request.encode(),
            iv,
        );
        (numbers.request, packet)
    }

    /// The response in a packet, if it belongs to this session and was not received before.
    pub(super) fn response(&mut self, packet: &[u8]) -> Option<Response> {
        let unsealed = self.keys.unseal(packet).ok()?;
        let is_ours =
            unsealed.payload_type == PayloadType::Ipmi && unsealed.session == self.console;
        if !is_ours || !self.numbers.inbound.is_new(unsealed.sequence) {
            return None;
        }
        Response::decode(&unsealed.payload).ok()
    }

    /// The packet that closes the session (IPMI 2.0, section 22.19).
    pub(super) fn close_packet(&mut self, iv: [u8; 16]) -> (u8, Vec<u8>) {
        let data = self.managed.to_le_bytes().to_vec();
        self.request(APP, CLOSE_SESSION, data, iv)
    }
}
