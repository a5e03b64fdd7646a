//! Sensors of a simulated BMC: sensor data records, readings, thresholds.
//!
//! Owns: their bytes (IPMI 2.0, tables 43-1 and 43-2, sections 35.9 and 35.14).

/// Bit of a reading that marks it as unavailable.
const UNAVAILABLE: u8 = 0x20;
/// Events and scanning are enabled.
const SCANNING: u8 = 0xc0;

/// A sensor. Its value is the raw byte times the multiplier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sensor {
    /// Name, at most 16 bytes.
    name: &'static str,
    pub(super) number: u8,
    /// Entity id (table 43-13).
    entity: u8,
    /// Sensor type (table 42-3).
    kind: u8,
    /// Unit code (table 43-15).
    unit: u8,
    multiplier: u8,
    /// Raw reading while the host is on.
    on: u8,
    /// Raw reading while the host is off; `None`: unavailable.
    off: Option<u8>,
    /// Raw thresholds in the order of their masks: lower non-critical, critical, non-recoverable,
    /// upper non-critical, critical, non-recoverable. A sensor without thresholds is discrete
    /// (event type 0x6f).
    thresholds: Option<[Option<u8>; 6]>,
}

impl Sensor {
    const fn new(name: &'static str, number: u8, [entity, kind, unit]: [u8; 3]) -> Self {
        Self {
            name,
            number,
            entity,
            kind,
            unit,
            multiplier: 1,
            on: 0,
            off: None,
            thresholds: Some([None; 6]),
        }
    }
}

/// Inlet and CPU temperature, a fan, power draw, and the state of a power supply.
pub(super) const SENSORS: [Sensor; 5] = [
    Sensor {
        on: 24,
        off: Some(22),
        thresholds: Some([None, None, None, Some(37), Some(42), Some(47)]),
        ..Sensor::new("Inlet Temp", 1, [0x37, 0x01, 1])
    },
    Sensor {
        on: 51,
        thresholds: Some([None, None, None, Some(90), Some(95), Some(100)]),
        ..Sensor::new("CPU1 Temp", 2, [0x03, 0x01, 1])
    },
    Sensor {
        multiplier: 120,
        on: 46,
        off: Some(0),
        thresholds: Some([Some(5), Some(3), None, None, None, None]),
        ..Sensor::new("Fan1", 3, [0x1d, 0x04, 18])
    },
    Sensor {
        multiplier: 2,
        on: 106,
        off: Some(7),
        ..Sensor::new("PSU1 Power", 4, [0x0a, 0x0b, 6])
    },
    // Presence detected.
    Sensor {
        on: 0x01,
        off: Some(0x01),
        thresholds: None,
        ..Sensor::new("PSU1 Status", 5, [0x0a, 0x08, 0])
    },
];

/// One bit for each threshold that meets the condition.
fn mask(thresholds: [Option<u8>; 6], is_set: impl Fn(usize, u8) -> bool) -> u8 {
    let numbered = thresholds.into_iter().enumerate();
    numbered.fold(0, |mask, (bit, limit)| {
        mask | u8::from(limit.is_some_and(|limit| is_set(bit, limit))) << bit
    })
}

impl Sensor {
    /// Get Sensor Thresholds.
    pub(super) fn thresholds_reply(&self) -> Vec<u8> {
        let thresholds = self.thresholds.unwrap_or_default();
        let mut reply = vec![mask(thresholds, |_, _| true)];
        reply.extend(thresholds.map(Option::unwrap_or_default));
        reply
    }

    /// Get Sensor Reading.
    pub(super) fn reading_reply(&self, on: bool) -> Vec<u8> {
        let Some(raw) = (if on { Some(self.on) } else { self.off }) else {
            return vec![0, SCANNING | UNAVAILABLE, 0xc0];
        };
        let Some(thresholds) = self.thresholds else {
            return vec![0, SCANNING, raw, 0x80];
        };
        let crossed = mask(thresholds, |bit, limit| match bit {
            0..3 => raw <= limit,
            _ => raw >= limit,
        });
        vec![raw, SCANNING, 0xc0 | crossed]
    }

    /// Its sensor data record.
    pub(super) fn record(&self, id: u16) -> Vec<u8> {
        let (kind, body) = match self.thresholds {
            Some(thresholds) => (0x01, self.full(thresholds)),
            None => (0x02, self.compact()),
        };
        let name = self.name.as_bytes();
        let length = |length: usize| u8::try_from(length).unwrap_or(0);
        let mut record = id.to_le_bytes().to_vec();
        record.extend([0x51, kind, length(body.len() + 1 + name.len())]);
        record.extend(body);
        record.push(0xc0 | length(name.len()));
        record.extend(name);
        record
    }

    /// Owner, number, entity and its instance, initialisation, capabilities, type.
    fn head(&self, capabilities: u8, event: u8) -> Vec<u8> {
        let owner = [0x20, 0x00, self.number, self.entity, 1];
        let mut bytes = owner.to_vec();
        bytes.extend([0x7f, capabilities, self.kind, event]);
        bytes
    }

    fn full(&self, thresholds: [Option<u8>; 6]) -> Vec<u8> {
        let mask = mask(thresholds, |_, _| true);
        // Auto re-arm, readable thresholds if there are any, no events.
        let readable = if mask == 0 { 0x00 } else { 0x04 };
        let mut bytes = self.head(0x43 | readable, 0x01);
        bytes.extend([0, 0, 0, 0, mask, 0]);
        bytes.extend([0x00, self.unit, 0x00, 0x00]);
        bytes.extend([self.multiplier, 0, 0, 0, 0, 0]);
        // No nominal values; the whole range of the raw byte.
        bytes.extend([0, 0, 0, 0, 0xff, 0x00]);
        let [lnc, lc, lnr, unc, uc, unr] = thresholds.map(Option::unwrap_or_default);
        bytes.extend([unr, uc, unc, lnr, lc, lnc]);
        bytes.extend([0, 0, 0, 0, 0]);
        bytes
    }

    fn compact(&self) -> Vec<u8> {
        let mut bytes = self.head(0x43, 0x6f);
        bytes.extend([0, 0, 0, 0]);
        // The supported states; a state has no unit.
        bytes.extend([0x0f, 0x00, 0xc0, 0, 0]);
        bytes.extend([0x01, 0x00, 0, 0, 0, 0, 0, 0]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensor_records_have_the_specified_lengths() {
        for (id, sensor) in (1..).zip(&SENSORS) {
            let record = sensor.record(id);
            let fixed = if sensor.thresholds.is_some() { 48 } else { 32 };
            assert_eq!(record.len(), fixed + sensor.name.len());
            assert_eq!(usize::from(record[4]), record.len() - 5);
        }
    }

    #[test]
    fn reading_reports_crossed_thresholds() {
        let mut fan = SENSORS[2];
        assert_eq!(fan.reading_reply(true), [46, 0xc0, 0xc0]);
        fan.on = 4;
        assert_eq!(fan.reading_reply(true), [4, 0xc0, 0xc1]);
        assert_eq!(fan.reading_reply(false), [0, 0xc0, 0xc3]);
        assert_eq!(SENSORS[1].reading_reply(false), [0, 0xe0, 0xc0]);
    }
}
