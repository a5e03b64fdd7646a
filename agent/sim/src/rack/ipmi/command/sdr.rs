//! The sensor data record repository (IPMI 2.0, chapter 33).
//!
//! Owns: the records, which never change, and the reservation.

use rackhand_bmc::ipmi::wire::CompletionCode;

use super::{Reply, exactly};
use crate::rack::ipmi::sensors::SENSORS;

const LAST: u16 = 0xffff;

#[derive(Debug)]
pub(super) struct Repository {
    records: Vec<Vec<u8>>,
    reservation: u16,
    reserved: bool,
}

impl Repository {
    pub(super) fn new() -> Self {
        let ids = 1_u16..LAST;
        let records = ids.zip(&SENSORS).map(|(id, sensor)| sensor.record(id));
        Self {
            records: records.collect(),
            reservation: 0,
            reserved: false,
        }
    }

    pub(super) fn info(&self) -> Vec<u8> {
        let count = u16::try_from(self.records.len()).unwrap_or(u16::MAX);
        let mut reply = vec![0x51];
        reply.extend(count.to_le_bytes());
        // No free space, never changed, Reserve supported.
        reply.extend([0; 10]);
        reply.push(0x02);
        reply
    }

    pub(super) fn reserve(&mut self) -> Vec<u8> {
        self.reservation = self.reservation.wrapping_add(1).max(1);
        self.reserved = true;
        self.reservation.to_le_bytes().to_vec()
    }

    pub(super) fn cancel_reservation(&mut self) {
        self.reserved = false;
    }

    pub(super) fn get(&self, data: &[u8]) -> Reply {
        let [r0, r1, i0, i1, offset, count] = exactly(data)?;
        let valid = self.reserved && u16::from_le_bytes([r0, r1]) == self.reservation;
        if offset > 0 && !valid {
            return Err(CompletionCode::RESERVATION.into());
        }
        let id = u16::from_le_bytes([i0, i1]);
        let at = match id {
            0 => 0,
            LAST => self.records.len().saturating_sub(1),
            id => usize::from(id) - 1,
        };
        let record = self.records.get(at).ok_or(CompletionCode::NOT_PRESENT)?;
        let part = record.get(usize::from(offset)..);
        let part = part.ok_or(CompletionCode::OUT_OF_RANGE)?;
        let next = match u16::try_from(at + 2) {
            Ok(next) if at + 1 < self.records.len() => next,
            _ => LAST,
        };
        let mut reply = next.to_le_bytes().to_vec();
        reply.extend(part.iter().take(count.into()));
        Ok(reply)
    }
}
