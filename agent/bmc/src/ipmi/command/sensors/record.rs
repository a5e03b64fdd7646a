//! Parser of the parts of sensor data records (IPMI 2.0, 43.1 and 43.2) that readings need.
//!
//! It does not use `ipmi-rs-core`, because those parsers panic on truncated and malformed records.

use super::{
    reading::{Factors, THRESHOLD},
    units::Units,
};
use crate::ipmi::command::text;

/// Length of a record's header; the last byte is the number of bytes that follow.
pub(super) const HEADER: usize = 5;

const FULL: u8 = 0x01;
const COMPACT: u8 = 0x02;

/// Slave address of the BMC, as the owner of a sensor.
const BMC: u8 = 0x20;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SensorRecord {
    owner: u8,
    /// Owner channel, LUN of its FRU device, and owner LUN.
    owner_path: u8,
    /// Sensor number at its owner.
    pub(super) number: u8,
    /// Id of the entity that the sensor belongs to (IPMI 2.0, table 43-13).
    pub(super) entity: u8,
    /// Sensor type: the quantity or condition that it measures (table 42-3).
    pub(super) sensor_type: u8,
    /// Event/reading type: the meaning of its states (table 42-1).
    pub(super) event_type: u8,
    has_threshold_access: bool,
    pub(super) units: Units,
    /// Conversion factors; `None`: the sensor has no numeric value.
    pub(super) factors: Option<Factors>,
    pub(super) name: String,
}

impl SensorRecord {
    /// Whether the BMC itself owns the sensor. The number of a sensor of a satellite controller
    /// means another sensor at the BMC.
    pub(super) fn is_the_bmcs_own(&self) -> bool {
        self.owner == BMC && self.owner_path & 0xf3 == 0
    }

    /// Whether the states are threshold comparisons.
    pub(super) fn has_thresholds(&self) -> bool {
        self.event_type == THRESHOLD && self.has_threshold_access
    }
}

/// Whether a record of this type describes sensors that can be read.
pub(super) fn is_sensor(record_type: u8) -> bool {
    matches!(record_type, FULL | COMPACT)
}

/// Parses the sensors of a record with its header; a shared compact record has several.
pub(super) fn parse(record: &[u8]) -> Vec<SensorRecord> {
    match record.get(3) {
        Some(&FULL) => full(record).into_iter().collect(),
        Some(&COMPACT) => compact(record).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Parses the part that both record types share: bytes 6 to 23.
fn common(bytes: &[u8; 18]) -> SensorRecord {
    let [
        owner,
        owner_path,
        number,
        entity,
        _,
        _,
        capabilities,
        sensor_type,
        event_type,
        ..,
    ] = *bytes;
    let [.., flags, base, modifier] = *bytes;
    SensorRecord {
        owner,
        owner_path,
        number,
        entity,
        sensor_type,
        event_type: event_type & 0x7f,
        has_threshold_access: capabilities >> 2 & 3 != 0,
        units: Units {
            flags,
            base,
            modifier,
        },
        factors: None,
        name: String::new(),
    }
}

fn full(record: &[u8]) -> Option<SensorRecord> {
    let (start, rest) = record.get(HEADER..)?.split_first_chunk::<18>()?;
    let (factors, rest) = rest.split_first_chunk::<7>()?;
    let (_, id) = rest.split_first_chunk::<17>()?;
    let mut sensor = common(start);
    let is_analog = sensor.event_type == THRESHOLD || sensor.units.is_given();
    sensor.factors = Factors::of(sensor.units, *factors).filter(|_| is_analog);
    sensor.name = name(id, sensor.number)?;
    Some(sensor)
}

fn compact(record: &[u8]) -> Option<Vec<SensorRecord>> {
    let (start, rest) = record.get(HEADER..)?.split_first_chunk::<18>()?;
    let (&[sharing, offset], rest) = rest.split_first_chunk()?;
    let (_, id) = rest.split_first_chunk::<6>()?;
    let sensor = common(start);
    let name = name(id, sensor.number)?;
    let count = sharing & 0xf;
    if count < 2 {
        return Some(vec![SensorRecord { name, ..sensor }]);
    }
    let is_alpha = sharing >> 4 & 3 == 1;
    let sensors = (0..count).map(|index| {
        // At most 0x7f + 14.
        let instance = (offset & 0x7f).saturating_add(index);
        let suffix = match is_alpha {
            true => char::from(b'A'.saturating_add(instance % 26)).to_string(),
            false => instance.to_string(),
        };
        SensorRecord {
            number: sensor.number.wrapping_add(index),
            name: format!("{name}{suffix}"),
            ..sensor.clone()
        }
    });
    Some(sensors.collect())
}

/// Decodes the name from its type and length byte; a sensor without a name is named by its number.
fn name(id: &[u8], number: u8) -> Option<String> {
    let (type_length, bytes) = id.split_first()?;
    let name = text::of_sdr(*type_length, bytes);
    Some(match name.as_str() {
        "" => format!("#0x{number:02x}"),
        _ => name,
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ipmi::command::fake::records;

    #[test]
    fn full_sensor_record_of_a_dell_server_is_parsed() {
        let [fan] = &parse(&records::DELL_FAN)[..] else {
            panic!("one sensor");
        };
        assert_eq!(fan.name, "Fan2A");
        assert_eq!((fan.number, fan.entity), (0x32, 0x07));
        assert_eq!((fan.sensor_type, fan.event_type), (0x04, 0x01));
        assert!(fan.is_the_bmcs_own() && fan.has_thresholds());
        assert_eq!(fan.factors.unwrap().value(0x2c), Some(5280.0));
    }

    #[test]
    fn compact_record_has_states_but_no_factors() {
        let record = records::compact(0x51, 0x08, 0x6f, b"PS1 Status");
        let [status] = &parse(&record)[..] else {
            panic!("one sensor");
        };
        assert_eq!(status.name, "PS1 Status");
        assert_eq!((status.number, status.sensor_type), (0x51, 0x08));
        assert_eq!(status.factors, None);
        assert!(!status.has_thresholds());
    }

    #[test]
    fn shared_record_expands_to_several_sensors() {
        let mut record = records::compact(0x60, 0x0d, 0x6f, b"Drive ");
        record[23] = 3;
        record[24] = 5;
        let named: Vec<_> = parse(&record)
            .into_iter()
            .map(|sensor| (sensor.number, sensor.name))
            .collect();
        let wanted = [(0x60, "Drive5"), (0x61, "Drive6"), (0x62, "Drive7")];
        assert_eq!(
            named,
            wanted.map(|(number, name)| (number, name.to_owned()))
        );
        record[23] = 0x12;
        record[24] = 1;
        assert_eq!(parse(&record)[0].name, "DriveB");
    }

    #[test]
    fn sensor_of_another_controller_is_not_owned_by_the_bmc() {
        for (at, value) in [(5, 0x2c), (6, 0x60), (6, 0x01), (5, 0x41)] {
            let mut record = records::DELL_FAN.to_vec();
            record[at] = value;
            assert!(!parse(&record)[0].is_the_bmcs_own(), "{at} {value:#x}");
        }
    }

    #[test]
    fn sensor_without_a_name_is_named_by_its_number() {
        let mut record = records::DELL_FAN.to_vec();
        record[47] = 0xc0;
        assert_eq!(parse(&record)[0].name, "#0x32");
    }

    #[test]
    fn truncated_record_or_other_record_type_has_no_sensors() {
        for length in 0..48 {
            assert_eq!(parse(&records::DELL_FAN[..length]), [], "{length}");
        }
        let mut record = records::DELL_FAN.to_vec();
        for other in [0x00, 0x03, 0x08, 0x10, 0x11, 0x12, 0xc0] {
            record[3] = other;
            assert_eq!(parse(&record), [], "{other:#x}");
        }
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_sensor_records_does_not_panic(mut record in vec(any::<u8>(), 0..120), kind in 0_u8..4) {
            if let Some(byte) = record.get_mut(3) {
                *byte = kind;
            }
            prop_assert!(parse(&record).len() <= 15);
        }
    }
}
