//! Meaning of events for signals (IPMI 2.0, tables 42-2 and 42-3).

use crate::{
    EventMeaning, FaultKind, StopKind,
    ipmi::command::{sensors::reading::THRESHOLD, severity::SENSOR_SPECIFIC},
};

/// Event type of states of redundancy.
const REDUNDANCY: u8 = 0x0b;

/// Meaning of the assertion, or the deassertion, of a state: event type, sensor type and offset. `purpose`: of the
/// timer of a Watchdog 2, where the event has it.
pub(super) fn of_event(
    (event_type, sensor_type, offset): (u8, u8, u8),
    is_asserted: bool,
    purpose: Option<u8>,
) -> EventMeaning {
    use EventMeaning::{Fault, FaultEnded, Other, Start, Stop};
    let lasting = |kind| match is_asserted {
        true => Fault(kind),
        false => FaultEnded(kind),
    };
    match (event_type, sensor_type, offset) {
        // Redundancy of power supplies and of the power unit: full; lost, or without enough resources.
        (REDUNDANCY, 0x08 | 0x09, 0) => match is_asserted {
            true => FaultEnded(FaultKind::PowerRedundancyLost),
            false => Other,
        },
        (REDUNDANCY, 0x08 | 0x09, 1 | 5) => lasting(FaultKind::PowerRedundancyLost),
        // Temperature: upper non-recoverable, going high.
        (THRESHOLD, 0x01, 0x0b) => lasting(FaultKind::ThermalTrip),
        // Processor: thermal trip. Memory: critical overtemperature.
        (SENSOR_SPECIFIC, 0x07, 1) | (SENSOR_SPECIFIC, 0x0c, 0x0a) => {
            lasting(FaultKind::ThermalTrip)
        }
        // The rest happens, and its deassertion is no event.
        _ if !is_asserted => Other,
        (SENSOR_SPECIFIC, 0x0c, 1) => Fault(FaultKind::UncorrectableMemory),
        // OS stop: during the start, and at run time. The other offsets are orderly.
        (SENSOR_SPECIFIC, 0x20, 0 | 1) => Stop(StopKind::OperatingSystem),
        // Watchdog 1: those of the operating system.
        (SENSOR_SPECIFIC, 0x11, 1..=6) => Stop(StopKind::Watchdog),
        // Watchdog 2: expired, with or without an action; the timers of the firmware are 1 and 2. The interrupt before
        // it (8) is no expiry.
        (SENSOR_SPECIFIC, 0x23, 0..=3) => match purpose {
            Some(1 | 2) => Other,
            _ => Stop(StopKind::Watchdog),
        },
        // Power unit off; firmware progress; OEM boot event; boot initiated; OS boot completed; S0.
        (SENSOR_SPECIFIC, 0x09, 0)
        | (SENSOR_SPECIFIC, 0x0f, 2)
        | (SENSOR_SPECIFIC, 0x12, 1)
        | (SENSOR_SPECIFIC, 0x1d, 0..=7)
        | (SENSOR_SPECIFIC, 0x1f, 0..=6)
        | (SENSOR_SPECIFIC, 0x22, 0) => Start,
        _ => Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_follow_table_42_3() {
        use EventMeaning::{Fault, FaultEnded, Other, Start, Stop};
        let lost = FaultKind::PowerRedundancyLost;
        let trip = FaultKind::ThermalTrip;
        for (event, asserted, purpose, expected) in [
            ((0x6f, 0x20, 0), true, None, Stop(StopKind::OperatingSystem)),
            ((0x6f, 0x20, 1), true, None, Stop(StopKind::OperatingSystem)),
            ((0x6f, 0x20, 1), false, None, Other),
            ((0x6f, 0x20, 3), true, None, Other),
            ((0x6f, 0x23, 1), true, Some(4), Stop(StopKind::Watchdog)),
            ((0x6f, 0x23, 0), true, None, Stop(StopKind::Watchdog)),
            ((0x6f, 0x23, 1), true, Some(2), Other),
            ((0x6f, 0x23, 8), true, Some(4), Other),
            ((0x6f, 0x11, 0), true, None, Other),
            ((0x6f, 0x11, 1), true, None, Stop(StopKind::Watchdog)),
            ((0x6f, 0x1d, 1), true, None, Start),
            ((0x6f, 0x1f, 1), true, None, Start),
            ((0x6f, 0x09, 0), true, None, Start),
            ((0x6f, 0x09, 0), false, None, Other),
            (
                (0x6f, 0x0c, 1),
                true,
                None,
                Fault(FaultKind::UncorrectableMemory),
            ),
            ((0x6f, 0x0c, 0), true, None, Other),
            ((0x6f, 0x07, 1), true, None, Fault(trip)),
            ((0x6f, 0x07, 1), false, None, FaultEnded(trip)),
            ((0x01, 0x01, 0x0b), true, None, Fault(trip)),
            ((0x01, 0x01, 0x09), true, None, Other),
            ((0x0b, 0x08, 1), true, None, Fault(lost)),
            ((0x0b, 0x08, 0), true, None, FaultEnded(lost)),
            ((0x0b, 0x08, 1), false, None, FaultEnded(lost)),
            ((0x0b, 0x04, 1), true, None, Other),
            ((0x03, 0x20, 1), true, None, Other),
        ] {
            assert_eq!(
                of_event(event, asserted, purpose),
                expected,
                "{event:x?} {asserted}"
            );
        }
    }
}
