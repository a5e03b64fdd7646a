//! Sensors of a simulated BMC: full sensor records, readings, thresholds.
//!
//! Owns their bytes (IPMI 2.0, tables 43-1 and 43-2, sections 35.9 and 35.14).

/// Bit of a reading that says that there is none.
const UNAVAILABLE: u8 = 0x20;
/// Events and scanning are on.
const SCANNING: u8 = 0xc0;

/// A sensor. Its value is `(multiplier * raw) * 10^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Name, 16 bytes at most.
    pub name: String,
    pub number: u8,
    /// What it belongs to (table 43-13).
    pub entity: u8,
    /// Which of these.
    pub instance: u8,
    /// What it measures (table 42-3).
    pub kind: u8,
    /// In which unit (table 43-15).
    pub unit: u8,
    /// The multiplier M, up to 511.
    pub multiplier: u16,
    /// The exponent of the result, -8 to 7.
    pub exponent: i8,
    /// Raw reading while the host is on.
    pub on: u8,
    /// Raw reading while it is off; none: not available.
    pub off: Option<u8>,
    /// Raw lower non-recoverable, critical and non-critical, then upper non-critical, critical and
    /// non-recoverable thresholds; a state (event type 0x6f) where there are none.
    pub thresholds: Option<[Option<u8>; 6]>,
}

impl Sensor {
    /// Inlet and CPU temperature, a fan, power drawn, and the state of a power supply.
    pub fn usual() -> Vec<Self> {
        let analog = |name: &str, number, entity, kind, unit| Self {
            name: name.to_owned(),
            number,
            entity,
            instance: 1,
            kind,
            unit,
            multiplier: 1,
            exponent: 0,
            on: 0,
            off: None,
            thresholds: Some([None; 6]),
        };
        let upper = |critical, recoverable| {
            let nc = u8::saturating_sub(critical, 5);
            Some([
                None,
                None,
                None,
                Some(nc),
                Some(critical),
                Some(recoverable),
            ])
        };
        vec![
            Self {
                on: 24,
                off: Some(22),
                thresholds: upper(42, 47),
                ..analog("Inlet Temp", 1, 0x37, 0x01, 1)
            },
            Self {
                on: 51,
                thresholds: upper(95, 100),
                ..analog("CPU1 Temp", 2, 0x03, 0x01, 1)
            },
            Self {
                multiplier: 120,
                on: 46,
                off: Some(0),
                thresholds: Some([None, Some(3), Some(5), None, None, None]),
                ..analog("Fan1", 3, 0x1d, 0x04, 18)
            },
            Self {
                multiplier: 2,
                on: 106,
                off: Some(7),
                ..analog("PSU1 Power", 4, 0x0a, 0x0b, 6)
            },
            Self {
                // Presence detected.
                on: 0x01,
                off: Some(0x01),
                thresholds: None,
                ..analog("PSU1 Status", 5, 0x0a, 0x08, 0)
            },
        ]
    }

    /// Bits as in the masks: lower nc, c, nr, upper nc, c, nr.
    fn mask_order(thresholds: [Option<u8>; 6]) -> [Option<u8>; 6] {
        let [lnr, lc, lnc, unc, uc, unr] = thresholds;
        [lnc, lc, lnr, unc, uc, unr]
    }

    fn mask(thresholds: [Option<u8>; 6]) -> u8 {
        let ordered = Self::mask_order(thresholds).into_iter().enumerate();
        ordered.fold(0, |mask, (bit, value)| {
            mask | u8::from(value.is_some()) << bit
        })
    }

    /// Get Sensor Thresholds.
    pub(super) fn thresholds_reply(&self) -> Vec<u8> {
        let thresholds = self.thresholds.unwrap_or_default();
        let mut reply = vec![Self::mask(thresholds)];
        reply.extend(Self::mask_order(thresholds).map(Option::unwrap_or_default));
        reply
    }

    /// Get Sensor Reading.
    pub(super) fn reading_reply(&self, on: bool) -> Vec<u8> {
        let raw = if on { Some(self.on) } else { self.off };
        let Some(raw) = raw else {
            return vec![0, SCANNING | UNAVAILABLE, 0xc0];
        };
        let Some(thresholds) = self.thresholds else {
            return vec![0, SCANNING, raw, 0x80];
        };
        let ordered = Self::mask_order(thresholds).into_iter().enumerate();
        let crossed = ordered.fold(0, |bits, (bit, limit)| {
            let beyond = |limit| if bit < 3 { raw <= limit } else { raw >= limit };
            bits | u8::from(limit.is_some_and(beyond)) << bit
        });
        vec![raw, SCANNING, 0xc0 | crossed]
    }

    /// Its sensor data record.
    pub(super) fn record(&self, id: u16) -> Vec<u8> {
        let (kind, body) = match self.thresholds {
            Some(thresholds) => (0x01, self.full(thresholds)),
            None => (0x02, self.compact()),
        };
        let name: Vec<u8> = self.name.bytes().take(16).collect();
        let length = u8::try_from(body.len() + 1 + name.len()).unwrap_or(0);
        let mut record = id.to_le_bytes().to_vec();
        record.extend([0x51, kind, length]);
        record.extend(body);
        record.push(0xc0 | u8::try_from(name.len()).unwrap_or(0));
        record.extend(name);
        record
    }

    /// Owner, number, entity, initialisation, capabilities, type.
    fn head(&self, capabilities: u8, event: u8) -> Vec<u8> {
        let owner = [0x20, 0x00, self.number, self.entity, self.instance];
        let mut bytes = owner.to_vec();
        bytes.extend([0x7f, capabilities, self.kind, event]);
        bytes
    }

    fn full(&self, thresholds: [Option<u8>; 6]) -> Vec<u8> {
        let mask = Self::mask(thresholds);
        // Auto re-arm, thresholds are readable where there are any, no events.
        let readable = if mask == 0 { 0x00 } else { 0x04 };
        let mut bytes = self.head(0x43 | readable, 0x01);
        bytes.extend([0, 0, 0, 0, mask, 0]);
        bytes.extend([0x00, self.unit, 0x00, 0x00]);
        let [low, high] = self.multiplier.to_le_bytes();
        bytes.extend([low, (high & 0x03) << 6, 0, 0, 0]);
        let [exponent] = self.exponent.to_le_bytes();
        bytes.push(exponent << 4);
        // No nominal values; the whole range of the raw byte.
        bytes.extend([0, 0, 0, 0, 0xff, 0x00]);
        let [lnr, lc, lnc, unc, uc, unr] = thresholds.map(Option::unwrap_or_default);
        bytes.extend([unr, uc, unc, lnr, lc, lnc]);
        bytes.extend([0, 0, 0, 0, 0]);
        bytes
    }

    fn compact(&self) -> Vec<u8> {
        let mut bytes = self.head(0x43, 0x6f);
        let states = [0x0f, 0x00];
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(states);
        // A state has no unit.
        bytes.extend([0xc0, 0, 0]);
        bytes.extend([0x01, 0x00, 0, 0, 0, 0, 0, 0]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_lengths_of_the_tables() {
        let sensors = Sensor::usual();
        let names = |id: usize| sensors[id].name.len();
        assert_eq!(sensors[0].record(1).len(), 48 + names(0));
        assert_eq!(sensors[4].record(5).len(), 32 + names(4));
        for (id, sensor) in (1..).zip(&sensors) {
            let record = sensor.record(id);
            assert_eq!(usize::from(record[4]), record.len() - 5);
        }
    }

    #[test]
    fn a_reading_says_which_threshold_it_has_crossed() {
        let mut fan = Sensor::usual().swap_remove(2);
        assert_eq!(fan.reading_reply(true), [46, 0xc0, 0xc0]);
        fan.on = 4;
        assert_eq!(fan.reading_reply(true), [4, 0xc0, 0xc1]);
        assert_eq!(fan.reading_reply(false), [0, 0xc0, 0xc3]);
        let cpu = Sensor::usual().swap_remove(1);
        assert_eq!(cpu.reading_reply(false), [0, 0xe0, 0xc0]);
    }
}
