//! The evidence of a host, as lines for people.

use crate::remediation::{HostEvidence, LogRecord, Severity};

/// What was collected before the power-off of an attempt, and what the event log recorded after it.
pub fn evidence_lines(e: &HostEvidence) -> Vec<String> {
    let mut head = format!(
        "evidence of attempt {} at {}",
        e.attempt,
        e.at.strftime("%FT%TZ")
    );
    if let Some(power) = &e.power {
        head.push_str(&format!(": power {power}"));
    }
    for fact in &e.boot {
        head.push_str(&format!(", {fact}"));
    }
    let mut lines = vec![head];
    if let Some(interrupt) = &e.interrupt {
        lines.push(format!("  diagnostic interrupt: {interrupt}"));
    }
    lines.extend(e.sensors.iter().map(|alarm| {
        let value = match alarm.value.as_str() {
            "" => String::new(),
            value => format!(" {value}"),
        };
        format!("  sensor {}:{value} ({})", alarm.name, word(alarm.severity))
    }));
    lines.extend(
        e.log
            .iter()
            .map(|record| format!("  log {}", event(record))),
    );
    lines.extend(e.missing.iter().map(|what| format!("  missing: {what}")));
    if let Some(boot_log) = &e.boot_log {
        let records = boot_log.records.iter();
        lines.extend(records.map(|record| format!("  log after the power-off {}", event(record))));
        if let Some(why) = &boot_log.missing {
            lines.push(format!("  missing: event log after the power-off: {why}"));
        }
    }
    lines
}

fn event(record: &LogRecord) -> String {
    let at = record.at.map(|at| format!("{} ", at.strftime("%FT%TZ")));
    let sensor = match record.sensor.as_str() {
        "" => String::new(),
        sensor if record.message.contains(sensor) => String::new(),
        sensor => format!(" ({sensor})"),
    };
    let count = match record.count {
        0 | 1 => String::new(),
        count => format!(", {count} entries"),
    };
    format!(
        "{}{}: {}{sensor}{count}",
        at.unwrap_or_default(),
        word(record.severity),
        record.message
    )
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "OK",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::remediation::{BootLog, LogEntry, SensorAlarm};

    #[test]
    fn evidence_is_shown_with_what_is_missing() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let entry = |second: i64, sensor: &str| LogEntry {
            id: second.to_string(),
            at: Some(at(second)),
            severity: Severity::Warning,
            sensor: sensor.into(),
            message: "Correctable ECC on DIMM A3".into(),
        };
        let mut evidence = HostEvidence::new(1, at(0));
        evidence.power = Some("On (Redfish)".into());
        evidence.boot = vec!["progress: OSRunning".into()];
        evidence.set_log(&[entry(-9, "DIMM A3"), entry(-5, "DIMM A3")]);
        evidence.sensors = vec![SensorAlarm {
            name: "CPU 1".into(),
            value: "97 C".into(),
            severity: Severity::Critical,
        }];
        evidence.missing = vec!["boot state: no answer in time".into()];
        evidence.boot_log = Some(BootLog {
            records: Vec::new(),
            missing: Some("the response was lost".into()),
        });
        assert_eq!(
            evidence_lines(&evidence),
            [
                "evidence of attempt 1 at 2027-01-15T08:00:00Z: power On (Redfish), progress: OSRunning",
                "  sensor CPU 1: 97 C (critical)",
                "  log 2027-01-15T07:59:55Z warning: Correctable ECC on DIMM A3, 2 entries",
                "  missing: boot state: no answer in time",
                "  missing: event log after the power-off: the response was lost",
            ]
        );
    }
}
