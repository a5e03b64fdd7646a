//! Severity of events (IPMI 2.0, tables 42-2 and 42-3).
//!
//! The specification defines states, but no severities. Here, Critical stops the host, loses data
//! or means a failure; Warning means degraded operation; all else is informational.

use crate::Severity;

/// Event/reading type of states that depend on the sensor type.
pub(super) const SENSOR_SPECIFIC: u8 = 0x6f;

/// One letter per offset: O ok, W warning, C critical; any other character is unknown.
type Weights = &'static str;

/// Severities of thresholds (offsets 0 to 11: lower, then upper; each going low, going high) and of
/// generic states, by event type.
const GENERIC: &[(u8, Weights)] = &[
    // A value that crosses back over a critical limit is still beyond the non-critical one.
    (0x01, "WOCWCCOWWCCC"),
    (0x02, "OOO"),
    // The vendor defines whether an asserted state is good or bad.
    (0x03, "O?"),
    (0x04, "OW"),
    (0x05, "OW"),
    (0x06, "OW"),
    (0x07, "OWCCWCCOO"),
    (0x08, "WO"),
    (0x09, "OO"),
    (0x0a, "OOOOWOWOC"),
    (0x0b, "OWWWWCWW"),
    (0x0c, "OOOO"),
];

/// Severities of sensor-specific states by sensor type.
const SPECIFIC: &[(u8, Weights)] = &[
    // Physical security.
    (0x05, "WWWWWWW"),
    // Platform security.
    (0x06, "WWWWWW"),
    // Processor.
    (0x07, "CCCCCCCOWOWCW"),
    // Power supply.
    (0x08, "OCWCCWCO"),
    // Power unit.
    (0x09, "OOCWCCCW"),
    // Memory.
    (0x0c, "WCCWWWOCOWC"),
    // Drive slot.
    (0x0d, "OCWOOCCWW"),
    // System firmware.
    (0x0f, "CCO"),
    // Event logging.
    (0x10, "WWOWWWW"),
    // Watchdog 1.
    (0x11, "CCCCCCWW"),
    // System event.
    (0x12, "OOCOOO"),
    // Critical interrupt.
    (0x13, "CCCCCCCWCCCW"),
    // Button.
    (0x14, "OOOOO"),
    // Chip set.
    (0x19, "CC"),
    // Cable.
    (0x1b, "OW"),
    // Boot initiated.
    (0x1d, "OOOOOOOO"),
    // Boot error.
    (0x1e, "CCCCW"),
    // OS boot and installation.
    (0x1f, "OOOOOOOOOWC"),
    // OS stop.
    (0x20, "CCOOOW"),
    // Slot.
    (0x21, "COOOOOOOOO"),
    // ACPI power state.
    (0x22, "OOOOOOOOOOOOO?O"),
    // Watchdog 2.
    (0x23, "WCCC????W"),
    // Platform alert.
    (0x24, "OOOO"),
    // Entity presence.
    (0x25, "OWW"),
    // LAN.
    (0x27, "WO"),
    // Management subsystem.
    (0x28, "WWCCWW"),
    // Battery.
    (0x29, "WCO"),
    // Session audit.
    (0x2a, "OOWW"),
    // Version change.
    (0x2b, "OOWWWWOO"),
    // FRU state.
    (0x2c, "OOOOOOOW"),
];

/// States whose deassertion is a warning: event type, sensor type (0: any) and offset.
const GOOD_TO_HAVE: &[(u8, u8, u8)] = &[
    (0x08, 0, 1),
    (0x0b, 0, 0),
    (SENSOR_SPECIFIC, 0x07, 7),
    (SENSOR_SPECIFIC, 0x08, 0),
    (SENSOR_SPECIFIC, 0x0c, 6),
    (SENSOR_SPECIFIC, 0x0d, 0),
    (SENSOR_SPECIFIC, 0x1b, 0),
    (SENSOR_SPECIFIC, 0x25, 0),
    (SENSOR_SPECIFIC, 0x29, 2),
];

/// Severity of the assertion or the deassertion of a state.
pub(super) fn of_event(event_type: u8, sensor_type: u8, offset: u8, asserted: bool) -> Severity {
    let of_state = of_state(event_type, sensor_type, offset);
    if asserted {
        return of_state;
    }
    let is_missed = GOOD_TO_HAVE.iter().any(|(event, sensor, state)| {
        (*event, *state) == (event_type, offset) && [0, sensor_type].contains(sensor)
    });
    match of_state {
        Severity::Unknown => Severity::Unknown,
        _ if is_missed => Severity::Warning,
        _ => Severity::Ok,
    }
}

/// Severity of an asserted state.
pub(super) fn of_state(event_type: u8, sensor_type: u8, offset: u8) -> Severity {
    let letter = weights(event_type, sensor_type)
        .and_then(|weights| weights.as_bytes().get(usize::from(offset)));
    match letter {
        Some(b'O') => Severity::Ok,
        Some(b'W') => Severity::Warning,
        Some(b'C') => Severity::Critical,
        _ => Severity::Unknown,
    }
}

/// Whether the states of this sensor type are in the tables.
pub(super) fn is_known(event_type: u8, sensor_type: u8) -> bool {
    weights(event_type, sensor_type).is_some()
}

/// Whether the states report presence only.
pub(super) fn is_presence(event_type: u8, sensor_type: u8) -> bool {
    event_type == 0x08 || (event_type, sensor_type) == (SENSOR_SPECIFIC, 0x25)
}

fn weights(event_type: u8, sensor_type: u8) -> Option<Weights> {
    let (table, key) = if event_type == SENSOR_SPECIFIC {
        (SPECIFIC, sensor_type)
    } else {
        (GENERIC, event_type)
    };
    let row = table.iter().find(|(number, _)| *number == key)?;
    Some(row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_that_stops_a_host_is_critical() {
        for (event, sensor, offset) in [
            (0x01, 0x01, 9),
            (0x01, 0x02, 2),
            (0x01, 0x04, 4),
            (0x6f, 0x07, 0),
            (0x6f, 0x08, 1),
            (0x6f, 0x08, 3),
            (0x6f, 0x09, 6),
            (0x6f, 0x0c, 1),
            (0x6f, 0x0d, 1),
            (0x6f, 0x0f, 1),
            (0x6f, 0x1e, 0),
            (0x6f, 0x20, 1),
            (0x6f, 0x23, 1),
            (0x07, 0x16, 3),
        ] {
            let severity = of_event(event, sensor, offset, true);
            assert_eq!(
                severity,
                Severity::Critical,
                "{event:#x} {sensor:#x} {offset}"
            );
            let ended = of_event(event, sensor, offset, false);
            assert_eq!(ended, Severity::Ok, "{event:#x} {sensor:#x} {offset}");
        }
    }

    #[test]
    fn degraded_operation_is_a_warning() {
        for (event, sensor, offset) in [
            (0x01, 0x01, 7),
            (0x01, 0x01, 8),
            (0x04, 0x0d, 1),
            (0x0b, 0x08, 1),
            (0x6f, 0x08, 2),
            (0x6f, 0x0c, 0),
        ] {
            let severity = of_event(event, sensor, offset, true);
            assert_eq!(
                severity,
                Severity::Warning,
                "{event:#x} {sensor:#x} {offset}"
            );
        }
    }

    #[test]
    fn routine_event_is_ok() {
        for (event, sensor, offset) in [
            (0x01, 0x01, 1),
            (0x6f, 0x09, 0),
            (0x6f, 0x10, 2),
            (0x6f, 0x14, 0),
            (0x6f, 0x1d, 0),
            (0x6f, 0x20, 3),
            (0x6f, 0x22, 5),
        ] {
            let severity = of_event(event, sensor, offset, true);
            assert_eq!(severity, Severity::Ok, "{event:#x} {sensor:#x} {offset}");
        }
    }

    #[test]
    fn deasserted_good_state_is_a_warning() {
        assert_eq!(of_event(0x6f, 0x08, 0, false), Severity::Warning);
        assert_eq!(of_event(0x0b, 0x09, 0, false), Severity::Warning);
        assert_eq!(of_event(0x08, 0x15, 1, false), Severity::Warning);
    }

    #[test]
    fn event_outside_the_tables_has_unknown_severity() {
        for (event, sensor, offset) in [
            (0x70, 0x01, 0),
            (0x6f, 0xc0, 0),
            (0x6f, 0x08, 15),
            (0x01, 0x01, 12),
            (0x03, 0x15, 1),
            (0x6f, 0x23, 5),
        ] {
            for asserted in [true, false] {
                let severity = of_event(event, sensor, offset, asserted);
                assert_eq!(
                    severity,
                    Severity::Unknown,
                    "{event:#x} {sensor:#x} {offset}"
                );
            }
        }
    }
}
