//! The system event log (IPMI 2.0, chapters 31 and 32).
//!
//! Owns: its records and its reservation. Must never: assign one id to two records.

use rackhand_bmc::ipmi::wire::CompletionCode;

use super::{Reply, exactly};

/// Maximum number of records.
const ROOM: usize = 512;
const RECORD: usize = 16;
const FIRST: u16 = 0x0000;
const LAST: u16 = 0xffff;

#[derive(Debug, Default)]
pub(super) struct Sel {
    records: Vec<(u16, [u8; RECORD])>,
    last_id: u16,
    reservation: u16,
    reserved: bool,
    added: u32,
    erased: u32,
}

impl Sel {
    pub(super) fn info(&self) -> Vec<u8> {
        let count = self.records.len();
        let free = ROOM.saturating_sub(count) * RECORD;
        let number = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
        let mut reply = vec![0x51];
        reply.extend(number(count));
        reply.extend(number(free));
        reply.extend(self.added.to_le_bytes());
        reply.extend(self.erased.to_le_bytes());
        // Reserve is supported.
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

    fn check(&self, reservation: [u8; 2]) -> Result<(), CompletionCode> {
        let valid = self.reserved && u16::from_le_bytes(reservation) == self.reservation;
        valid.then_some(()).ok_or(CompletionCode::RESERVATION)
    }

    fn position(&self, id: u16) -> Option<usize> {
        match id {
            FIRST => (!self.records.is_empty()).then_some(0),
            LAST => self.records.len().checked_sub(1),
            id => self.records.iter().position(|(known, _)| *known == id),
        }
    }

    pub(super) fn get(&self, data: &[u8]) -> Reply {
        let [r0, r1, i0, i1, offset, count] = exactly(data)?;
        let (offset, whole) = (usize::from(offset), count == 0xff);
        if offset > 0 || !whole && usize::from(count) < RECORD {
            self.check([r0, r1])?;
        }
        let at = self.position(u16::from_le_bytes([i0, i1]));
        let at = at.ok_or(CompletionCode::NOT_PRESENT)?;
        let (_, record) = self.records.get(at).ok_or(CompletionCode::NOT_PRESENT)?;
        let next = self.records.get(at + 1).map_or(LAST, |(id, _)| *id);
        let part = record.get(offset..).ok_or(CompletionCode::OUT_OF_RANGE)?;
        let count = if whole {
            part.len()
        } else {
            usize::from(count)
        };
        let part = part.get(..count).ok_or(CompletionCode::OUT_OF_RANGE)?;
        let mut reply = next.to_le_bytes().to_vec();
        reply.extend(part);
        Ok(reply)
    }

    pub(super) fn add(&mut self, data: &[u8], clock: u32) -> Reply {
        let mut record: [u8; RECORD] = exactly(data)?;
        if self.records.len() >= ROOM {
            return Err(CompletionCode::OUT_OF_SPACE.into());
        }
        let id = loop {
            self.last_id = self.last_id.wrapping_add(1);
            let known = self.records.iter().any(|(id, _)| *id == self.last_id);
            if ![FIRST, LAST].contains(&self.last_id) && !known {
                break self.last_id;
            }
        };
        let [low, high] = id.to_le_bytes();
        let [t0, t1, t2, t3] = clock.to_le_bytes();
        let [r0, r1, kind, s0, s1, s2, s3, ..] = &mut record;
        (*r0, *r1) = (low, high);
        // Types from 0xe0 on have no time stamp.
        if *kind < 0xe0 {
            (*s0, *s1, *s2, *s3) = (t0, t1, t2, t3);
        }
        self.records.push((id, record));
        self.added = clock;
        // An added record does not cancel a reservation (31.4.1).
        Ok(vec![low, high])
    }

    pub(super) fn clear(&mut self, data: &[u8], clock: u32) -> Reply {
        let [r0, r1, magic @ .., action] = exactly::<6>(data)?;
        self.check([r0, r1])?;
        if magic != *b"CLR" {
            return Err(CompletionCode::INVALID_FIELD.into());
        }
        match action {
            0xaa => {
                self.records.clear();
                self.erased = clock;
            }
            0x00 => {}
            _ => return Err(CompletionCode::INVALID_FIELD.into()),
        }
        // Erasure completed.
        Ok(vec![0x01])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD_BYTES: [u8; 16] = [
        0, 0, 2, 0, 0, 0, 0, 0x20, 0, 4, 1, 1, 0x57, 0x60, 0x5a, 0x64,
    ];

    #[test]
    fn records_are_read_in_order_and_cleared_under_a_reservation() {
        let mut sel = Sel::default();
        assert_eq!(
            sel.get(&[0, 0, 0, 0, 0, 0xff]),
            Err(CompletionCode::NOT_PRESENT.into())
        );
        sel.add(&RECORD_BYTES, 5).expect("added");
        sel.add(&RECORD_BYTES, 6).expect("added");
        let one = sel.get(&[0, 0, 0, 0, 0, 0xff]).expect("the first");
        assert_eq!(one.get(..9), Some([2, 0, 1, 0, 2, 5, 0, 0, 0].as_slice()));
        let two = sel.get(&[0, 0, 2, 0, 0, 0xff]).expect("the last");
        assert_eq!(two.get(..4), Some([0xff, 0xff, 2, 0].as_slice()));
        let clear = *b"\x01\x00CLR\xaa";
        assert_eq!(
            sel.clear(&clear, 7),
            Err(CompletionCode::RESERVATION.into())
        );
        sel.reserve();
        assert_eq!(sel.clear(&clear, 7), Ok(vec![1]));
        assert_eq!(sel.info().get(1..3), Some([0, 0].as_slice()));
    }

    #[test]
    fn partial_record_read_requires_a_reservation() {
        let mut sel = Sel::default();
        sel.add(&RECORD_BYTES, 5).expect("added");
        assert_eq!(
            sel.get(&[0, 0, 0, 0, 7, 4]),
            Err(CompletionCode::RESERVATION.into())
        );
        sel.reserve();
        let part = sel.get(&[1, 0, 0, 0, 7, 4]).expect("a part");
        assert_eq!(part, [0xff, 0xff, 0x20, 0, 4, 1]);
        assert_eq!(
            sel.get(&[1, 0, 0, 0, 14, 4]),
            Err(CompletionCode::OUT_OF_RANGE.into())
        );
    }

    #[test]
    fn full_log_rejects_further_records() {
        let mut sel = Sel::default();
        for _ in 0..ROOM {
            sel.add(&RECORD_BYTES, 0).expect("added");
        }
        assert_eq!(
            sel.add(&RECORD_BYTES, 0),
            Err(CompletionCode::OUT_OF_SPACE.into())
        );
    }
}
