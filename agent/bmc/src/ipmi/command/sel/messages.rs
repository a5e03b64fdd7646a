//! Texts of event log entries (IPMI 2.0, tables 32-1 to 32-3 and 42-1 to 42-3).

use std::fmt;

use ipmi_rs_core::storage::sdr::{SensorType, decode_event};
use jiff::Timestamp;

use super::meaning;
use crate::{
    EventMeaning, LogEntry, Severity, StopKind,
    ipmi::command::{
        manufacturers,
        sensors::reading::THRESHOLD,
        severity::{self, SENSOR_SPECIFIC},
        text,
    },
};

/// Size of an entry in bytes.
pub(super) const ENTRY_SIZE: usize = 16;

const SYSTEM_EVENT: u8 = 0x02;
/// Timestamp values without a date: unspecified, and seconds since the start of a BMC whose clock
/// is not set.
const UNSPECIFIED: u32 = 0xffff_ffff;
const CLOCK_SET: u32 = 0x2000_0000;
/// Record type under which Linux logs a panic message, in parts.
const LINUX_PANIC: u8 = 0xf0;
/// How the text of such a record begins.
const PANIC: &str = "Linux kernel panic";

/// State names of table 42-3 that `ipmi-rs-core` lacks, by sensor type.
const MORE_STATES: &[(u8, &[&str])] = &[
    (
        0x1b,
        &[
            "Cable/Interconnect is connected",
            "Configuration Error - Incorrect cable connected",
        ],
    ),
    (
        0x21,
        &[
            "Fault Status asserted",
            "Identify Status asserted",
            "Device installed/attached",
            "Ready for Device Installation",
            "Ready for Device Removal",
            "Slot Power is Off",
            "Device Removal Request",
            "Interlock asserted",
            "Slot is Disabled",
            "Slot holds spare device",
        ],
    ),
];

/// Purpose of a watchdog timer (table 42-3, Watchdog 2).
const WATCHDOG_USES: [&str; 6] = ["", "BIOS FRB2", "BIOS/POST", "OS Load", "SMS/OS", "OEM"];

/// Decodes one record of the system event log.
pub(super) fn entry(entry: &[u8; ENTRY_SIZE]) -> LogEntry {
    let [low, high, record_type, t0, t1, t2, t3, rest @ ..] = *entry;
    let stamp = timestamp(u32::from_le_bytes([t0, t1, t2, t3]));
    let id = u16::from_le_bytes([low, high]).to_string();
    let oem = |at, message| LogEntry {
        id: id.clone(),
        at,
        severity: Severity::Unknown,
        message,
        sensor: None,
        meaning: EventMeaning::Other,
    };
    match record_type {
        SYSTEM_EVENT => {
            let [_, _, _, sensor_type, number, direction_type, event @ ..] = rest;
            let event = Event {
                sensor_type,
                event_type: direction_type & 0x7f,
                is_asserted: direction_type & 0x80 == 0,
                data: event,
            };
            LogEntry {
                id,
                at: stamp,
                severity: event.severity(),
                message: event.to_string(),
                sensor: Some(format!("{} #0x{number:02x}", SensorType::from(sensor_type))),
                meaning: event.meaning(),
            }
        }
        0xc0..=0xdf => {
            let [m0, m1, m2, data @ ..] = rest;
            let number = u32::from_le_bytes([m0, m1, m2, 0]);
            let maker =
                manufacturers::name(number).map_or_else(String::new, |name| format!(" ({name})"));
            let data = text::hex(&data);
            let message =
                format!("OEM record 0x{record_type:02x} of manufacturer {number}{maker}: {data}");
            oem(stamp, message)
        }
        0xe0..=0xff => {
            let [_, _, _, data @ ..] = *entry;
            let message = untimed(record_type, &data);
            let is_panic = message.starts_with(PANIC);
            LogEntry {
                meaning: if is_panic {
                    EventMeaning::Stop(StopKind::OperatingSystem)
                } else {
                    EventMeaning::Other
                },
                ..oem(None, message)
            }
        }
        _ => {
            let [_, _, _, data @ ..] = *entry;
            let data = text::hex(&data);
            oem(None, format!("record of type 0x{record_type:02x}: {data}"))
        }
    }
}

/// Text of an OEM record without a timestamp.
fn untimed(record_type: u8, data: &[u8; 13]) -> String {
    // Address of the controller, part number, and up to 11 characters.
    let [_, part, panic @ ..] = data;
    let end = panic.iter().position(|byte| *byte == 0);
    let (panic, padding) = panic.split_at(end.unwrap_or(panic.len()));
    let is_text = panic.iter().all(|byte| (0x20..0x7f).contains(byte));
    let is_padded = padding.iter().all(|byte| *byte == 0);
    match str::from_utf8(panic) {
        Ok(words) if record_type == LINUX_PANIC && !words.is_empty() && is_text && is_padded => {
            format!("{PANIC}, part {part}: {words}")
        }
        _ => format!("OEM record 0x{record_type:02x}: {}", text::hex(data)),
    }
}

fn timestamp(seconds: u32) -> Option<Timestamp> {
    if seconds == UNSPECIFIED || seconds < CLOCK_SET {
        return None;
    }
    Timestamp::from_second(seconds.into()).ok()
}

#[derive(Debug, Clone, Copy)]
struct Event {
    sensor_type: u8,
    event_type: u8,
    is_asserted: bool,
    data: [u8; 3],
}

impl Event {
    fn offset(self) -> u8 {
        let [first, ..] = self.data;
        first & 0xf
    }

    fn severity(self) -> Severity {
        let offset = self.offset();
        severity::of_event(self.event_type, self.sensor_type, offset, self.is_asserted)
    }

    fn meaning(self) -> EventMeaning {
        let [_, purpose, _] = self.data;
        let [first, ..] = self.data;
        // Bits 7:6 of the first byte: the second byte has the sensor-specific extension.
        let purpose = (first >> 6 == 3).then_some(purpose & 0xf);
        meaning::of_event(
            (self.event_type, self.sensor_type, self.offset()),
            self.is_asserted,
            purpose,
        )
    }

    /// The state that the event reports; `None`: not in the tables.
    fn state(self) -> Option<String> {
        let known = State(self).to_string();
        if !known.is_empty() {
            return Some(known);
        }
        let more = MORE_STATES
            .iter()
            .find(|(sensor_type, _)| *sensor_type == self.sensor_type)
            .filter(|_| self.event_type == SENSOR_SPECIFIC)?;
        let state = more.1.get(usize::from(self.offset()))?;
        Some((*state).to_owned())
    }

    /// Text for the two further event data bytes (table 29-6); empty if they add nothing.
    fn details(self) -> String {
        let [first, second, third] = self.data;
        let second = (first >> 6, second);
        let third = (first >> 4 & 3, third);
        if self.event_type == THRESHOLD {
            return match (second, third) {
                ((1, reading), (1, limit)) => {
                    format!(" (reading 0x{reading:02x}, threshold 0x{limit:02x}, both raw)")
                }
                ((1, reading), _) => format!(" (reading 0x{reading:02x}, raw)"),
                _ => String::new(),
            };
        }
        if self.event_type == SENSOR_SPECIFIC {
            match (SensorType::from(self.sensor_type), second, third) {
                (SensorType::Watchdog2, (3, purpose), _) => {
                    let purpose = WATCHDOG_USES.get(usize::from(purpose & 0xf));
                    if let Some(purpose) = purpose.filter(|purpose| !purpose.is_empty()) {
                        return format!(" ({purpose} timer)");
                    }
                }
                (SensorType::Memory, _, (3, module)) if module != 0xff => {
                    return format!(" (memory module 0x{module:02x})");
                }
                _ => {}
            }
        }
        // Unspecified, or all ones: nothing was written.
        let is_said = |(kind, byte): (u8, u8)| kind != 0 && byte != 0xff;
        if is_said(second) || is_said(third) {
            format!(" (data {})", text::hex(&[second.1, third.1]))
        } else {
            String::new()
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state() {
            Some(state) => write!(f, "{state}{}", self.details())?,
            None => write!(
                f,
                "event of type 0x{:02x} at a sensor of type 0x{:02x}: {}",
                self.event_type,
                self.sensor_type,
                text::hex(&self.data)
            )?,
        }
        if !self.is_asserted {
            f.write_str(", deasserted")?;
        }
        Ok(())
    }
}

/// State names of `ipmi-rs-core`; empty for unknown states.
struct State(Event);

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(event) = self;
        let sensor_type = SensorType::from(event.sensor_type);
        decode_event(f, event.event_type, sensor_type, event.offset())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A system event from timestamp, sensor type and number, direction and type, and event data.
    fn event(seconds: u32, rest: [u8; 6]) -> LogEntry {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..3].copy_from_slice(&[0x34, 0x12, 0x02]);
        bytes[3..7].copy_from_slice(&seconds.to_le_bytes());
        bytes[7..10].copy_from_slice(&[0x20, 0x00, 0x04]);
        bytes[10..].copy_from_slice(&rest);
        entry(&bytes)
    }

    fn words(rest: [u8; 6]) -> (String, Severity) {
        let entry = event(0, rest);
        (entry.message, entry.severity)
    }

    #[test]
    fn power_input_loss_is_decoded_with_time_and_sensor() {
        let entry = event(1_754_000_000, [0x08, 0x61, 0x6f, 0x03, 0xff, 0xff]);
        assert_eq!(
            entry,
            LogEntry {
                id: "4660".to_owned(),
                at: Some("2025-07-31T22:13:20Z".parse().unwrap()),
                severity: Severity::Critical,
                message: "Power Supply input lost (AC/DC)".to_owned(),
                sensor: Some("Power Supply #0x61".to_owned()),
                meaning: EventMeaning::Other,
            }
        );
    }

    #[test]
    fn common_events_use_the_texts_of_the_specification() {
        for (rest, message, severity) in [
            (
                [0x01, 0x04, 0x01, 0x59, 0x60, 0x5a],
                "Upper Critical - going high (reading 0x60, threshold 0x5a, both raw)",
                Severity::Critical,
            ),
            (
                [0x04, 0x30, 0x01, 0x40, 0x05, 0xff],
                "Lower Non-critical - going low (reading 0x05, raw)",
                Severity::Warning,
            ),
            (
                [0x08, 0x61, 0xef, 0x03, 0xff, 0xff],
                "Power Supply input lost (AC/DC), deasserted",
                Severity::Ok,
            ),
            (
                [0x0c, 0x87, 0x6f, 0x31, 0xff, 0x02],
                "Uncorrectable ECC / other uncorrectable memory error (memory module 0x02)",
                Severity::Critical,
            ),
            (
                [0x23, 0x03, 0x6f, 0xc1, 0x04, 0xff],
                "Hard Reset (SMS/OS timer)",
                Severity::Critical,
            ),
            (
                [0x20, 0x46, 0x6f, 0x01, 0xff, 0xff],
                "Run-time Critical Stop",
                Severity::Critical,
            ),
            (
                [0x1e, 0x47, 0x6f, 0x00, 0xff, 0xff],
                "No bootable media",
                Severity::Critical,
            ),
            (
                [0x14, 0x48, 0x6f, 0x00, 0xff, 0xff],
                "Power Button pressed",
                Severity::Ok,
            ),
            (
                [0x22, 0x49, 0x6f, 0x05, 0xff, 0xff],
                "S5 / G2 'soft-off'",
                Severity::Ok,
            ),
            (
                [0x0d, 0x50, 0x6f, 0x01, 0xff, 0xff],
                "Drive Fault",
                Severity::Critical,
            ),
            (
                [0x09, 0x51, 0x0b, 0x01, 0xff, 0xff],
                "Redundancy Lost",
                Severity::Warning,
            ),
            (
                [0x21, 0x52, 0x6f, 0x00, 0xff, 0xff],
                "Fault Status asserted",
                Severity::Critical,
            ),
            (
                [0x07, 0x53, 0x6f, 0xa0, 0x12, 0x34],
                "IERR (data 12 34)",
                Severity::Critical,
            ),
        ] {
            assert_eq!(words(rest), (message.to_owned(), severity));
        }
    }

    #[test]
    fn unknown_event_is_shown_in_numbers() {
        assert_eq!(
            words([0xc8, 0x01, 0x72, 0x0a, 0xbe, 0xef]),
            (
                "event of type 0x72 at a sensor of type 0xc8: 0a be ef".to_owned(),
                Severity::Unknown
            )
        );
        let entry = event(0, [0xc8, 0x01, 0x72, 0, 0, 0]);
        assert_eq!(entry.sensor.as_deref(), Some("OEM (0xC8) #0x01"));
    }

    #[test]
    fn timestamp_of_an_unset_clock_is_none() {
        for seconds in [0, 77, 0x1fff_ffff, 0xffff_ffff] {
            assert_eq!(timestamp(seconds), None, "{seconds}");
        }
        assert!(timestamp(0x2000_0000).is_some());
        assert!(timestamp(0xffff_fffe).is_some());
    }

    #[test]
    fn oem_record_is_shown_as_raw_bytes() {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[2] = 0xdd;
        bytes[3..7].copy_from_slice(&1_754_000_000_u32.to_le_bytes());
        bytes[7..10].copy_from_slice(&[0xa2, 0x02, 0x00]);
        let dell = entry(&bytes);
        assert_eq!(
            dell.message,
            "OEM record 0xdd of manufacturer 674 (Dell): 00 00 00 00 00 00"
        );
        assert!(dell.at.is_some());
        bytes[2] = 0xe1;
        let untimed = entry(&bytes);
        assert!(
            untimed.message.starts_with("OEM record 0xe1: 80 "),
            "{untimed:?}"
        );
        assert_eq!((untimed.at, untimed.severity), (None, Severity::Unknown));
        bytes[2] = 0x44;
        let other = entry(&bytes);
        assert!(
            other.message.starts_with("record of type 0x44: "),
            "{other:?}"
        );
    }

    #[test]
    fn linux_panic_record_is_shown_as_text() {
        let mut bytes = *b"\x07\x00\xf0\x20\x01Attempted t";
        assert_eq!(
            entry(&bytes).message,
            "Linux kernel panic, part 1: Attempted t"
        );
        bytes[8..].fill(0);
        assert_eq!(entry(&bytes).message, "Linux kernel panic, part 1: Att");
        bytes[5] = 0x07;
        assert!(
            entry(&bytes)
                .message
                .starts_with("OEM record 0xf0: 20 01 07")
        );
    }

    proptest! {
        #[test]
        fn every_entry_has_a_printable_message(bytes: [u8; ENTRY_SIZE], kind in 0_u8..4) {
            let mut bytes = bytes;
            bytes[2] = [0x02, 0xc5, 0xf0, bytes[2]][usize::from(kind)];
            let entry = entry(&bytes);
            prop_assert!(!entry.message.is_empty());
            prop_assert!(!entry.message.chars().any(char::is_control));
        }
    }
}
