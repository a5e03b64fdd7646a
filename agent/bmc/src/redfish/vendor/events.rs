//! Meaning of entries of Redfish event logs for signals, by registry and make.
//!
//! Must never: take an entry of routine for a stop or a fault.

use crate::{EventMeaning, FaultKind, Severity, StopKind};

use EventMeaning::{Fault, FaultEnded, Other, Start, Stop};

/// What an entry reports about its event; empty: not reported.
#[derive(Debug, Clone, Copy)]
pub(in crate::redfish) struct EventFacts<'a> {
    /// `MessageId`.
    pub(in crate::redfish) message_id: &'a str,
    /// `SensorType` of a SEL entry.
    pub(in crate::redfish) sensor_type: &'a str,
    /// `EntryCode` of a SEL entry.
    pub(in crate::redfish) code: &'a str,
    pub(in crate::redfish) message: &'a str,
    pub(in crate::redfish) severity: Severity,
}

/// Meanings by the last part of a MessageId.
const MESSAGES: &[(&str, EventMeaning)] = &[
    // Dell: critical stops of the operating system, and watchdogs (1, then 2; ASR0100 is that of the firmware).
    ("OSE0000", Stop(StopKind::OperatingSystem)),
    ("OSE0001", Stop(StopKind::OperatingSystem)),
    ("ASR0000", Stop(StopKind::Watchdog)),
    ("ASR0001", Stop(StopKind::Watchdog)),
    ("ASR0002", Stop(StopKind::Watchdog)),
    ("ASR0003", Stop(StopKind::Watchdog)),
    ("ASR0101", Stop(StopKind::Watchdog)),
    ("ASR0102", Stop(StopKind::Watchdog)),
    ("ASR0103", Stop(StopKind::Watchdog)),
    ("ASR0104", Stop(StopKind::Watchdog)),
    ("ASR0105", Stop(StopKind::Watchdog)),
    ("ASR0106", Stop(StopKind::Watchdog)),
    // Dell: starts, power on and off, and the start of the operating system.
    ("PWR2000", Start),
    ("PWR2001", Start),
    ("PWR2002", Start),
    ("PWR2003", Start),
    ("PWR2004", Start),
    ("PWR2005", Start),
    ("PWR2006", Start),
    ("PWR2007", Start),
    ("SYS1000", Start),
    ("SYS1001", Start),
    ("OSE1000", Start),
    ("OSE1002", Start),
    // Dell: faults.
    ("MEM0001", Fault(FaultKind::UncorrectableMemory)),
    ("CPU0001", Fault(FaultKind::ThermalTrip)),
    ("RDU0012", Fault(FaultKind::PowerRedundancyLost)),
    ("RDU0015", Fault(FaultKind::PowerRedundancyLost)),
    ("RDU0011", FaultEnded(FaultKind::PowerRedundancyLost)),
    // OpenBMC registry.
    ("BIOSBoot", Start),
    ("DCPowerOn", Start),
    ("DCPowerOff", Start),
    (
        "MemoryECCUncorrectable",
        Fault(FaultKind::UncorrectableMemory),
    ),
    ("CPUThermalTrip", Fault(FaultKind::ThermalTrip)),
    (
        "PowerUnitRedundancyLost",
        Fault(FaultKind::PowerRedundancyLost),
    ),
    (
        "PowerUnitRedundancyRegained",
        FaultEnded(FaultKind::PowerRedundancyLost),
    ),
    // HPE: iLOEvents.
    ("PowerRedundancyLost", Fault(FaultKind::PowerRedundancyLost)),
    (
        "PowerRedundancyRestored",
        FaultEnded(FaultKind::PowerRedundancyLost),
    ),
];

/// Meanings by phrases of IPMI's tables and of makes without a registry, in lower case. A phrase counts only in an
/// entry that the BMC does not report as OK.
const PHRASES: &[(&str, EventMeaning)] = &[
    ("run-time critical stop", Stop(StopKind::OperatingSystem)),
    ("runtime critical stop", Stop(StopKind::OperatingSystem)),
    (
        "critical stop during os load",
        Stop(StopKind::OperatingSystem),
    ),
    ("kernel panic", Stop(StopKind::OperatingSystem)),
    ("uncorrectable ecc", Fault(FaultKind::UncorrectableMemory)),
    (
        "uncorrectable memory error",
        Fault(FaultKind::UncorrectableMemory),
    ),
    ("thermal trip", Fault(FaultKind::ThermalTrip)),
    (
        "power supply redundancy is lost",
        Fault(FaultKind::PowerRedundancyLost),
    ),
    (
        "power supplies are no longer redundant",
        Fault(FaultKind::PowerRedundancyLost),
    ),
];

/// Meanings of whole types of sensors (DSP0268, `LogEntry.SensorType`).
const SENSORS: &[(&str, EventMeaning)] = &[
    ("SystemBoot/Restart", Start),
    ("BaseOSBoot/InstallationStatus", Start),
];

/// The meaning of an entry.
pub(in crate::redfish) fn event_meaning(facts: &EventFacts<'_>) -> EventMeaning {
    let last = facts.message_id.rsplit('.').next().unwrap_or_default();
    let by_id = MESSAGES
        .iter()
        .find(|(id, _)| id.eq_ignore_ascii_case(last));
    if let Some((_, meaning)) = by_id {
        return *meaning;
    }
    if facts.code.eq_ignore_ascii_case("Deassert") {
        return Other;
    }
    let by_sensor = SENSORS
        .iter()
        .find(|(sensor, _)| sensor.eq_ignore_ascii_case(facts.sensor_type));
    if let Some((_, meaning)) = by_sensor {
        return *meaning;
    }
    let message = facts.message.to_ascii_lowercase();
    if facts.severity == Severity::Ok || message.contains("deassert") {
        return Other;
    }
    let by_phrase = PHRASES.iter().find(|(phrase, _)| message.contains(phrase));
    by_phrase.map_or(Other, |(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(message_id: &str, sensor_type: &str, message: &str, severity: Severity) -> EventMeaning {
        event_meaning(&EventFacts {
            message_id,
            sensor_type,
            code: "",
            message,
            severity,
        })
    }

    #[test]
    fn entries_of_each_make_have_their_meaning() {
        let critical = Severity::Critical;
        for (id, sensor, message, severity, expected) in [
            (
                "IDRAC.2.8.OSE0001",
                "",
                "",
                critical,
                Stop(StopKind::OperatingSystem),
            ),
            ("OSE0001", "", "", critical, Stop(StopKind::OperatingSystem)),
            (
                "ASR0001",
                "",
                "The watchdog timer reset the system.",
                critical,
                Stop(StopKind::Watchdog),
            ),
            ("ASR0100", "", "", critical, Other),
            (
                "IDRAC.2.8.SYS1000",
                "",
                "System is turning on.",
                Severity::Ok,
                Start,
            ),
            (
                "RDU0012",
                "",
                "Power supply redundancy is lost.",
                critical,
                Fault(FaultKind::PowerRedundancyLost),
            ),
            (
                "RDU0011",
                "",
                "The power supplies are redundant.",
                Severity::Ok,
                FaultEnded(FaultKind::PowerRedundancyLost),
            ),
            (
                "OpenBMC.0.1.MemoryECCUncorrectable",
                "",
                "",
                critical,
                Fault(FaultKind::UncorrectableMemory),
            ),
            (
                "OpenBMC.0.1.MemoryECCCorrectable",
                "",
                "",
                Severity::Warning,
                Other,
            ),
            (
                "iLOEvents.2.1.PowerRedundancyLost",
                "",
                "",
                Severity::Warning,
                Fault(FaultKind::PowerRedundancyLost),
            ),
            ("", "SystemBoot/Restart", "", Severity::Ok, Start),
            (
                "",
                "",
                "OS Stop/Shutdown: Run-time critical stop",
                critical,
                Stop(StopKind::OperatingSystem),
            ),
            (
                "",
                "",
                "Run-time critical stop, deasserted",
                critical,
                Other,
            ),
            (
                "",
                "",
                "Processor: Thermal Trip",
                critical,
                Fault(FaultKind::ThermalTrip),
            ),
            (
                "",
                "",
                "Test of the thermal trip sensor passed",
                Severity::Ok,
                Other,
            ),
            (
                "Base.1.8.Success",
                "",
                "Fan 1 is slow.",
                Severity::Warning,
                Other,
            ),
        ] {
            assert_eq!(
                of(id, sensor, message, severity),
                expected,
                "{id} {sensor} {message}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_texts_do_not_panic(id: String, sensor: String, code: String, message: String) {
            event_meaning(&EventFacts {
                message_id: &id,
                sensor_type: &sensor,
                code: &code,
                message: &message,
                severity: Severity::Critical,
            });
        }
    }
}
