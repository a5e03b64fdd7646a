//! Sensor readings, and their conversion to values and health (IPMI 2.0, 35.14 and 36.3).

use super::units::Units;
use crate::{SensorHealth, Severity, ipmi::command::severity};

/// Event/reading type of sensors with thresholds (IPMI 2.0, table 42-1).
pub(in crate::ipmi::command) const THRESHOLD: u8 = 0x01;

/// Conversion of a raw reading to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factors {
    format: Format,
    linearization: u8,
    m: i16,
    b: i16,
    b_exponent: i8,
    result_exponent: i8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Unsigned,
    OnesComplement,
    TwosComplement,
}

impl Factors {
    /// Parses the unit bytes and bytes 24 to 30 of a full sensor record; `None` for a sensor
    /// without a numeric value. Not by `ipmi-rs-core`, which drops a bit of M and reads one's
    /// complement as unsigned.
    pub(super) fn of(units: Units, bytes: [u8; 7]) -> Option<Self> {
        let [linearization, m, m_high, b, b_high, _, exponents] = bytes;
        let format = match units.flags >> 6 {
            0 => Format::Unsigned,
            1 => Format::OnesComplement,
            2 => Format::TwosComplement,
            _ => return None,
        };
        let ten_bits = |low: u8, high: u8| u16::from(low) | u16::from(high & 0xc0) << 2;
        Some(Self {
            format,
            linearization: linearization & 0x7f,
            m: signed(ten_bits(m, m_high), 10),
            b: signed(ten_bits(b, b_high), 10),
            b_exponent: nibble(exponents),
            result_exponent: nibble(exponents >> 4),
        })
    }

    /// The value of a raw reading: L[(M x + B 10^K1) 10^K2]. `None` if it is not finite, or if the
    /// sensor is nonlinear and would need its factors read for each reading.
    pub(super) fn value(&self, raw: u8) -> Option<f64> {
        let x = match self.format {
            Format::Unsigned => f64::from(raw),
            Format::TwosComplement => f64::from(raw.cast_signed()),
            Format::OnesComplement if raw & 0x80 != 0 => -f64::from(!raw),
            Format::OnesComplement => f64::from(raw),
        };
        let sum = f64::from(self.m) * x + scaled(f64::from(self.b), self.b_exponent);
        let y = scaled(sum, self.result_exponent);
        let value = match self.linearization {
            0 => y,
            1 => y.ln(),
            2 => y.log10(),
            3 => y.log2(),
            4 => y.exp(),
            5 => 10_f64.powf(y),
            6 => y.exp2(),
            7 => 1.0 / y,
            8 => y * y,
            9 => y * y * y,
            10 => y.sqrt(),
            11 => y.cbrt(),
            _ => return None,
        };
        value.is_finite().then_some(value)
    }
}

/// Sign-extends a `count`-bit number in two's complement.
fn signed(bits: u16, count: u32) -> i16 {
    let unused = 16_u32.saturating_sub(count);
    (bits << unused).cast_signed() >> unused
}

fn nibble(byte: u8) -> i8 {
    (byte << 4).cast_signed() >> 4
}

/// Multiplies by a power of ten; divides for negative exponents, so that decimal results are exact.
fn scaled(value: f64, exponent: i8) -> f64 {
    let power = 10_f64.powi(i32::from(exponent).abs());
    if exponent < 0 {
        value / power
    } else {
        value * power
    }
}

/// A Get Sensor Reading response. Parsed here, because `ipmi-rs-core` does not expose discrete
/// states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The raw reading.
    pub(super) raw: u8,
    /// Threshold comparison or asserted states; `None`: not in the response.
    states: Option<u16>,
}

impl Reading {
    /// Parses a response; `None`: truncated, or no current reading (scanning is off, or the reading
    /// is marked unavailable).
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let (&[raw, flags], states) = data.split_first_chunk()?;
        let is_scanning = flags & 0x40 != 0;
        let is_unavailable = flags & 0x20 != 0;
        if is_unavailable || !is_scanning {
            return None;
        }
        let states = match states {
            [] => None,
            [low] => Some(u16::from(*low)),
            [low, high, ..] => Some(u16::from_le_bytes([*low, high & 0x7f])),
        };
        Some(Self { raw, states })
    }

    /// Health by the sensor's thresholds, as the BMC compares them; unknown without thresholds.
    pub(super) fn threshold_health(self, has_thresholds: bool) -> SensorHealth {
        const NON_CRITICAL: u16 = 0b00_1001;
        const CRITICAL: u16 = 0b11_0110;
        match self.states {
            Some(states) if states & CRITICAL != 0 => SensorHealth::Critical,
            Some(states) if states & NON_CRITICAL != 0 => SensorHealth::Warning,
            Some(_) if has_thresholds => SensorHealth::Ok,
            _ => SensorHealth::Unknown,
        }
    }

    /// Health by the worst asserted state of a discrete sensor. An absent part is not a fault.
    pub(super) fn discrete_health(self, event_type: u8, sensor_type: u8) -> SensorHealth {
        let Some(states) = self.states else {
            return SensorHealth::Unknown;
        };
        if !severity::is_known(event_type, sensor_type) {
            return SensorHealth::Unknown;
        }
        if severity::is_presence(event_type, sensor_type) {
            return SensorHealth::Ok;
        }
        let asserted = (0_u8..15).filter(|offset| states >> offset & 1 != 0);
        let health =
            asserted.map(
                |offset| match severity::of_state(event_type, sensor_type, offset) {
                    Severity::Ok => SensorHealth::Ok,
                    Severity::Warning => SensorHealth::Warning,
                    Severity::Critical => SensorHealth::Critical,
                    Severity::Unknown => SensorHealth::Unknown,
                },
            );
        let rank = |health: &SensorHealth| match health {
            SensorHealth::Critical => 3,
            SensorHealth::Warning => 2,
            SensorHealth::Ok => 1,
            SensorHealth::Unknown => 0,
        };
        health.max_by_key(rank).unwrap_or(SensorHealth::Ok)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn factors(flags: u8, bytes: [u8; 7]) -> Factors {
        let units = Units {
            flags,
            base: 1,
            modifier: 0,
        };
        Factors::of(units, bytes).unwrap()
    }

    /// Factors of a linear, unsigned sensor.
    fn linear(m: i16, b: i16, b_exponent: i8, result_exponent: i8) -> [u8; 7] {
        let [m, m_high] = m.to_le_bytes();
        let [b, b_high] = b.to_le_bytes();
        let exponents = (result_exponent << 4 | b_exponent & 0xf).cast_unsigned();
        [0, m, m_high << 6, b, b_high << 6, 0, exponents]
    }

    #[test]
    fn records_of_real_servers_convert_to_their_values() {
        // A Dell R630's "Fan2A" and "Inlet Temp": M = 120; B = -128.
        let fan = factors(0, [0x00, 0x78, 0x02, 0x00, 0x02, 0x30, 0x00]);
        assert_eq!(fan.value(0x2c), Some(5280.0));
        let inlet = factors(0, [0x00, 0x01, 0x02, 0x80, 0xc2, 0x30, 0x00]);
        assert_eq!(inlet.value(0x99), Some(25.0));
        // 12 V: 61 mV per step, result exponent -3.
        let volts = factors(0, linear(61, 0, 0, -3));
        assert_eq!(volts.value(198), Some(12.078));
    }

    #[test]
    fn signed_formats_and_factors_are_decoded() {
        assert_eq!(factors(0, linear(-1, 0, 0, 0)).value(7), Some(-7.0));
        assert_eq!(factors(0, linear(-512, 511, 0, 0)).value(1), Some(-1.0));
        assert_eq!(factors(0x80, linear(1, 0, 0, 0)).value(0xff), Some(-1.0));
        assert_eq!(factors(0x40, linear(1, 0, 0, 0)).value(0xfe), Some(-1.0));
        assert_eq!(factors(0x40, linear(1, 0, 0, 0)).value(0x7f), Some(127.0));
        assert_eq!(factors(0, linear(2, 5, 2, -1)).value(10), Some(52.0));
        assert_eq!(factors(0, linear(2, 5, -1, 1)).value(10), Some(205.0));
        let units = Units {
            flags: 0xc0,
            base: 0,
            modifier: 0,
        };
        assert_eq!(Factors::of(units, [0; 7]), None);
    }

    #[test]
    fn linearization_follows_table_43_1() {
        for (number, raw, value) in [
            (1, 1, 0.0),
            (2, 100, 2.0),
            (3, 8, 3.0),
            (4, 0, 1.0),
            (5, 2, 100.0),
            (6, 3, 8.0),
            (7, 4, 0.25),
            (8, 3, 9.0),
            (9, 3, 27.0),
            (10, 9, 3.0),
            (11, 27, 3.0),
        ] {
            let mut bytes = linear(1, 0, 0, 0);
            bytes[0] = number;
            let got = factors(0, bytes).value(raw).unwrap();
            assert!((got - value).abs() < 1e-9, "{number}: {got}");
        }
    }

    #[test]
    fn nonlinear_or_infinite_reading_has_no_value() {
        for number in [12, 0x6f, 0x70, 0x71, 0x7f] {
            let mut bytes = linear(1, 0, 0, 0);
            bytes[0] = number;
            assert_eq!(factors(0, bytes).value(1), None, "{number}");
        }
        let mut reciprocal = linear(1, 0, 0, 0);
        reciprocal[0] = 7;
        assert_eq!(factors(0, reciprocal).value(0), None);
        let mut logarithm = linear(1, 0, 0, 0);
        logarithm[0] = 1;
        assert_eq!(factors(0, logarithm).value(0), None);
    }

    #[test]
    fn unavailable_reading_is_none() {
        assert!(Reading::parse(&[0x2c, 0xc0, 0xc0]).is_some());
        assert!(Reading::parse(&[0x2c, 0xc0]).is_some());
        for data in [
            &[0x2c, 0xe0, 0xc0][..],
            &[0x2c, 0x80, 0xc0],
            &[0x00, 0x00, 0x00, 0x00],
            &[0x2c],
            &[],
        ] {
            assert_eq!(Reading::parse(data), None, "{data:?}");
        }
    }

    #[test]
    fn health_follows_the_threshold_bits() {
        for (status, health) in [
            // Reserved bits are set.
            (0xc0, SensorHealth::Ok),
            (0xc1, SensorHealth::Warning),
            (0xc8, SensorHealth::Warning),
            (0x18, SensorHealth::Critical),
            (0x03, SensorHealth::Critical),
            (0x38, SensorHealth::Critical),
            (0x07, SensorHealth::Critical),
        ] {
            let reading = Reading::parse(&[1, 0x40, status]).unwrap();
            assert_eq!(reading.threshold_health(true), health, "{status:#x}");
        }
        let silent = Reading::parse(&[1, 0x40]).unwrap();
        assert_eq!(silent.threshold_health(true), SensorHealth::Unknown);
        let without = Reading::parse(&[1, 0x40, 0]).unwrap();
        assert_eq!(without.threshold_health(false), SensorHealth::Unknown);
    }

    #[test]
    fn discrete_sensor_health_follows_its_worst_asserted_state() {
        let health = |event, sensor, states: u16| {
            let [low, high] = states.to_le_bytes();
            let reading = Reading::parse(&[0, 0xc0, low, high]).unwrap();
            reading.discrete_health(event, sensor)
        };
        // Power supply: present; present and failed; predicted to fail.
        assert_eq!(health(0x6f, 0x08, 0x8001), SensorHealth::Ok);
        assert_eq!(health(0x6f, 0x08, 0b011), SensorHealth::Critical);
        assert_eq!(health(0x6f, 0x08, 0b101), SensorHealth::Warning);
        // Redundancy: full; lost.
        assert_eq!(health(0x0b, 0x09, 1), SensorHealth::Ok);
        assert_eq!(health(0x0b, 0x09, 2), SensorHealth::Warning);
        // Absence is not a fault; states defined by a vendor have no known health.
        assert_eq!(health(0x08, 0x15, 1), SensorHealth::Ok);
        assert_eq!(health(0x70, 0xc0, 1), SensorHealth::Unknown);
        assert_eq!(health(0x6f, 0x0d, 0), SensorHealth::Ok);
    }

    proptest! {
        #[test]
        fn arbitrary_readings_do_not_panic_and_are_finite(
            flags: u8,
            bytes: [u8; 7],
            data in vec(any::<u8>(), 0..8),
            event: u8,
            sensor: u8,
        ) {
            let units = Units { flags, base: event, modifier: sensor };
            if let Some(reading) = Reading::parse(&data) {
                reading.threshold_health(flags & 1 != 0);
                reading.discrete_health(event, sensor);
                let value = Factors::of(units, bytes).and_then(|factors| factors.value(reading.raw));
                prop_assert!(value.is_none_or(f64::is_finite));
            }
        }

        #[test]
        fn conversion_factors_round_trip(
            m in -512_i16..512,
            b in -512_i16..512,
            b_exponent in -8_i8..8,
            result_exponent in -8_i8..8,
        ) {
            let read = factors(0, linear(m, b, b_exponent, result_exponent));
            prop_assert_eq!(
                (read.m, read.b, read.b_exponent, read.result_exponent),
                (m, b, b_exponent, result_exponent)
            );
        }
    }
}
