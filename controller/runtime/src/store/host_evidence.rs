//! The evidence of a host as it is kept in objects.

use rackhand_api::kinds::host_evidence as shown;
use rackhand_core::remediation::{BootLog, HostEvidence, LogRecord, SensorAlarm};

use super::clock::to_second;

/// As a status and a history contain it.
pub(crate) fn to_api(e: &HostEvidence) -> shown::HostEvidence {
    shown::HostEvidence {
        attempt: i32::try_from(e.attempt.max(1)).unwrap_or(i32::MAX),
        collected_at: to_second(e.at),
        power: e.power.clone(),
        boot: e.boot.clone(),
        interrupt: e.interrupt.clone(),
        log: e.log.iter().map(record_to_api).collect(),
        sensors: e.sensors.iter().map(sensor_to_api).collect(),
        missing: e.missing.clone(),
        boot_log: e.boot_log.as_ref().map(|log| shown::BootLog {
            records: log.records.iter().map(record_to_api).collect(),
            missing: log.missing.clone(),
        }),
    }
}

/// The evidence that a history contains.
pub fn evidence_of_api(e: &shown::HostEvidence) -> HostEvidence {
    HostEvidence {
        power: e.power.clone(),
        boot: e.boot.clone(),
        interrupt: e.interrupt.clone(),
        log: e.log.iter().map(record_of_api).collect(),
        sensors: e.sensors.iter().map(sensor_of_api).collect(),
        missing: e.missing.clone(),
        boot_log: e.boot_log.as_ref().map(|log| BootLog {
            records: log.records.iter().map(record_of_api).collect(),
            missing: log.missing.clone(),
        }),
        ..HostEvidence::new(u32::try_from(e.attempt).unwrap_or(1), e.collected_at)
    }
}

fn record_to_api(record: &LogRecord) -> shown::LogRecord {
    shown::LogRecord {
        at: record.at.map(to_second),
        severity: record.severity,
        sensor: Some(record.sensor.clone()).filter(|sensor| !sensor.is_empty()),
        message: record.message.clone(),
        count: i32::try_from(record.count).unwrap_or(i32::MAX),
    }
}

fn record_of_api(record: &shown::LogRecord) -> LogRecord {
    LogRecord {
        at: record.at,
        severity: record.severity,
        sensor: record.sensor.clone().unwrap_or_default(),
        message: record.message.clone(),
        count: u32::try_from(record.count).unwrap_or(1),
    }
}

fn sensor_to_api(alarm: &SensorAlarm) -> shown::SensorAlarm {
    shown::SensorAlarm {
        name: alarm.name.clone(),
        value: Some(alarm.value.clone()).filter(|value| !value.is_empty()),
        severity: alarm.severity,
    }
}

fn sensor_of_api(alarm: &shown::SensorAlarm) -> SensorAlarm {
    SensorAlarm {
        name: alarm.name.clone(),
        value: alarm.value.clone().unwrap_or_default(),
        severity: alarm.severity,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rackhand_core::remediation::{LogEntry, Severity};

    use super::*;

    #[test]
    fn evidence_is_the_same_after_it_was_kept_in_an_object() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let mut evidence = HostEvidence::new(2, at);
        let entry = |severity, sensor: &str| LogEntry {
            id: "1".into(),
            at: Some(at),
            severity,
            sensor: sensor.into(),
            message: "Correctable ECC".into(),
        };
        let log = [entry(Severity::Warning, "DIMM A3"), entry(Severity::Ok, "")];
        evidence.set_log(&log);
        evidence.newest = None;
        evidence.power = Some("On (Redfish)".into());
        evidence.boot = vec!["progress: OSRunning".into()];
        evidence.interrupt = Some("sent; the BMC took it".into());
        evidence.missing = vec!["boot state: no time was left".into()];
        evidence.sensors = vec![SensorAlarm {
            name: "Fan 1".into(),
            value: String::new(),
            severity: Severity::Critical,
        }];
        evidence.boot_log = Some(BootLog {
            records: evidence.log.clone(),
            missing: None,
        });
        assert_eq!(evidence_of_api(&to_api(&evidence)), evidence);
    }
}
