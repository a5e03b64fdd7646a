//! Conversion of an agent's readings from a BMC into the evidence of the core.
//!
//! Must never: keep the address of a BMC, which failure messages contain.

use jiff::Timestamp;
use rackhand_core::remediation::{HostEvidence, LogEntry, SensorAlarm, Severity};
use rackhand_proto::{
    convert::timestamp_from_proto,
    v1::{
        self, interrupt_result::Result as Interrupted, read_boot_state_result::Result as Boot,
        read_events_response::Result as Events, read_power_response::Result as Power,
        read_sensors_response::Result as Sensors,
    },
};

/// The evidence of a response that arrived at `now`.
pub(crate) fn evidence(
    response: v1::CollectEvidenceResponse,
    attempt: u32,
    now: Timestamp,
) -> HostEvidence {
    let mut evidence = HostEvidence::new(attempt, now);
    match response.power.and_then(|power| power.result) {
        Some(Power::Reading(reading)) => {
            let protocol = super::protocol(reading.protocol());
            evidence.power = Some(format!("{} ({protocol})", reading.raw));
        }
        Some(Power::Failure(failure)) => missing(&mut evidence, "power", Some(&failure)),
        None => missing(&mut evidence, "power", None),
    }
    match response.log.and_then(|log| log.result) {
        Some(Events::Log(log)) => evidence.set_log(&log_entries(log)),
        Some(Events::Failure(failure)) => missing(&mut evidence, "event log", Some(&failure)),
        None => missing(&mut evidence, "event log", None),
    }
    match response.boot.and_then(|boot| boot.result) {
        Some(Boot::State(state)) => evidence.boot = boot(state),
        Some(Boot::Failure(failure)) => missing(&mut evidence, "boot state", Some(&failure)),
        None => missing(&mut evidence, "boot state", None),
    }
    match response.sensors.and_then(|sensors| sensors.result) {
        Some(Sensors::Sensors(read)) => {
            evidence.sensors = read.sensors.into_iter().filter_map(alarm).collect();
        }
        Some(Sensors::Failure(failure)) => missing(&mut evidence, "sensors", Some(&failure)),
        None => missing(&mut evidence, "sensors", None),
    }
    if let Some(result) = response.interrupt.and_then(|interrupt| interrupt.result) {
        let (text, interrupted) = interrupt(&result);
        (evidence.interrupt, evidence.interrupted) = (Some(text), interrupted);
    }
    evidence
}

fn missing(evidence: &mut HostEvidence, part: &str, failure: Option<&v1::Failure>) {
    let why = match failure.map(v1::Failure::kind) {
        None => "no time was left",
        Some(v1::FailureKind::Timeout) => "no answer in time",
        Some(v1::FailureKind::Unreachable) => "the BMC cannot be reached",
        Some(v1::FailureKind::Unsupported) => "not supported by the BMC",
        Some(v1::FailureKind::Privilege) => "the account may not read it",
        Some(v1::FailureKind::Authentication) => "the BMC rejects the password",
        Some(v1::FailureKind::Busy) => "the BMC is busy",
        Some(_) => "the BMC answered with an error",
    };
    evidence.missing.push(format!("{part}: {why}"));
}

/// The entries, the oldest first.
pub(crate) fn log_entries(log: v1::EventLog) -> Vec<LogEntry> {
    let entry = |entry: v1::LogEntry| LogEntry {
        severity: severity(entry.severity()),
        at: entry.at.and_then(|at| timestamp_from_proto(&at).ok()),
        id: entry.id,
        sensor: entry.sensor,
        message: entry.message,
    };
    log.entries.into_iter().map(entry).collect()
}

fn severity(severity: v1::Severity) -> Severity {
    match severity {
        v1::Severity::Unspecified | v1::Severity::Ok => Severity::Ok,
        v1::Severity::Warning => Severity::Warning,
        v1::Severity::Critical => Severity::Critical,
    }
}

fn boot(state: v1::BootState) -> Vec<String> {
    let said = |name: &str, text: String| (!text.is_empty()).then(|| format!("{name}: {text}"));
    let facts = [
        said("progress", state.progress),
        said("last start", state.restart_cause),
    ];
    facts.into_iter().flatten().chain(state.faults).collect()
}

fn alarm(sensor: v1::Sensor) -> Option<SensorAlarm> {
    let severity = severity(sensor.health());
    let value = sensor.value.map(|value| format!("{value} {}", sensor.unit));
    (severity != Severity::Ok).then(|| SensorAlarm {
        name: sensor.name,
        value: value.unwrap_or_default().trim_end().to_owned(),
        severity,
    })
}

/// The result of the interrupt, and whether the host may be writing a dump.
fn interrupt(result: &Interrupted) -> (String, bool) {
    let outcome = match result {
        Interrupted::Refused(why) => return (format!("not sent: {why}"), false),
        Interrupted::Status(status) => status.outcome.as_ref(),
    };
    let Some(outcome) = outcome else {
        return ("sent; the BMC has not answered yet".to_owned(), true);
    };
    match outcome.code() {
        v1::OutcomeCode::Confirmed => ("sent; the BMC took it".to_owned(), true),
        v1::OutcomeCode::IdentityMismatch => (
            "not sent: the BMC belongs to another system".to_owned(),
            false,
        ),
        _ if outcome.detail() == v1::OutcomeDetail::NeedsPower => {
            ("not sent: the host has no power".to_owned(), false)
        }
        _ if outcome.commands_sent > 0 => (
            "sent; it is not known whether the BMC took it".to_owned(),
            true,
        ),
        _ => ("not sent: the BMC did not take it".to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: v1::FailureKind) -> v1::Failure {
        v1::Failure {
            kind: kind.into(),
            message: "no answer from 10.0.0.7".into(),
        }
    }

    #[test]
    fn each_part_is_evidence_or_named_as_missing_without_an_address() {
        let log = v1::EventLog {
            entries: vec![v1::LogEntry {
                id: "7".into(),
                severity: v1::Severity::Critical.into(),
                message: "CPU machine check".into(),
                ..v1::LogEntry::default()
            }],
            total: None,
        };
        let sensor = |health: v1::Severity, value| v1::Sensor {
            name: "Fan 1".into(),
            value,
            unit: "RPM".into(),
            health: health.into(),
            ..v1::Sensor::default()
        };
        let response = v1::CollectEvidenceResponse {
            power: Some(v1::ReadPowerResponse {
                result: Some(Power::Failure(failure(v1::FailureKind::Timeout))),
            }),
            log: Some(v1::ReadEventsResponse {
                result: Some(Events::Log(log)),
            }),
            boot: None,
            sensors: Some(v1::ReadSensorsResponse {
                result: Some(Sensors::Sensors(v1::Sensors {
                    sensors: vec![
                        sensor(v1::Severity::Critical, Some(0.0)),
                        sensor(v1::Severity::Ok, Some(9.0)),
                        sensor(v1::Severity::Warning, None),
                    ],
                })),
            }),
            interrupt: None,
        };
        let e = evidence(response, 2, Timestamp::UNIX_EPOCH);
        assert_eq!((e.attempt, &*e.log[0].message), (2, "CPU machine check"));
        let values: Vec<&str> = e.sensors.iter().map(|s| &*s.value).collect();
        assert_eq!(values, ["0 RPM", ""]);
        assert_eq!(
            e.missing,
            ["power: no answer in time", "boot state: no time was left"]
        );
    }

    #[test]
    fn only_an_interrupt_that_may_have_been_taken_is_waited_for() {
        let outcome = |code: v1::OutcomeCode, sent| {
            let outcome = v1::Outcome {
                code: code.into(),
                commands_sent: sent,
                ..v1::Outcome::default()
            };
            let status = v1::OperationStatus {
                outcome: Some(outcome),
                ..v1::OperationStatus::default()
            };
            interrupt(&Interrupted::Status(status)).1
        };
        assert!(outcome(v1::OutcomeCode::Confirmed, 1));
        assert!(outcome(v1::OutcomeCode::Unconfirmed, 1));
        assert!(!outcome(v1::OutcomeCode::Unconfirmed, 0));
        assert!(!outcome(v1::OutcomeCode::IdentityMismatch, 0));
        assert!(!interrupt(&Interrupted::Refused("older term".into())).1);
        assert!(interrupt(&Interrupted::Status(v1::OperationStatus::default())).1);
    }
}
