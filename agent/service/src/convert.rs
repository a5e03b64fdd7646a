//! Conversion of readings, failures and records into messages of the gRPC service.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_agent_core::ledger::Device;
use rackhand_bmc::{
    Accepted, BmcError, ErrorKind, FirmwareUpdate, LogEntry, PowerReading, PowerSource, PowerState,
    Severity, SystemIdentity, UpdatePhase,
    operation::{OffProof, Outcome},
};
use rackhand_proto::{
    convert::{duration_to_proto, timestamp_to_proto},
    v1::{self, await_response::Event},
};

use crate::journal::{IdentityRecord, OperationRecord, outcome_to_proto};

pub(crate) fn reading_to_proto(reading: &PowerReading, since_start: Duration) -> v1::PowerReading {
    v1::PowerReading {
        state: state_to_proto(reading.state).into(),
        raw: reading.raw.clone(),
        protocol: source_to_proto(reading.source).into(),
        identity: Some(identity_to_proto(&reading.identity)),
        at: Some(timestamp_to_proto(reading.at)),
        since_start: Some(duration_to_proto(since_start)),
        bmc: reading.bmc.clone(),
    }
}

pub(crate) fn source_to_proto(source: PowerSource) -> v1::Protocol {
    match source {
        PowerSource::Redfish => v1::Protocol::Redfish,
        PowerSource::Ipmi => v1::Protocol::Ipmi,
        PowerSource::Outlets => v1::Protocol::Outlets,
    }
}

pub(crate) fn severity_to_proto(severity: Severity) -> v1::Severity {
    match severity {
        Severity::Ok => v1::Severity::Ok,
        Severity::Warning => v1::Severity::Warning,
        Severity::Critical => v1::Severity::Critical,
        Severity::Unknown => v1::Severity::Unspecified,
    }
}

pub(crate) fn entry_to_proto(entry: LogEntry) -> v1::LogEntry {
    v1::LogEntry {
        id: entry.id,
        at: entry.at.map(timestamp_to_proto),
        severity: severity_to_proto(entry.severity).into(),
        message: entry.message,
        sensor: entry.sensor.unwrap_or_default(),
    }
}

pub(crate) fn taken_to_proto(accepted: &Accepted, since_start: Duration) -> v1::CommandTaken {
    v1::CommandTaken {
        command: accepted.command.clone(),
        answer: accepted.answer.clone(),
        since_start: Some(duration_to_proto(since_start)),
    }
}

pub(crate) fn identity_to_proto(identity: &SystemIdentity) -> v1::SystemIdentity {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    v1::SystemIdentity {
        system_uuid: text(&identity.system_uuid),
        serial: text(&identity.serial),
        vendor: text(&identity.vendor),
        model: text(&identity.model),
    }
}

pub(crate) fn state_to_proto(state: PowerState) -> v1::PowerState {
    match state {
        PowerState::On => v1::PowerState::On,
        PowerState::Off => v1::PowerState::Off,
        PowerState::PoweringOn => v1::PowerState::PoweringOn,
        PowerState::PoweringOff => v1::PowerState::PoweringOff,
        PowerState::Unknown => v1::PowerState::Unknown,
    }
}

pub(crate) fn failure_to_proto(host: &str, error: &BmcError) -> v1::Failure {
    failure(&format!("host {host}"), error)
}

/// The failure of a PDU.
pub(crate) fn pdu_failure_to_proto(pdu: &str, error: &BmcError) -> v1::Failure {
    failure(&format!("PDU {pdu}"), error)
}

fn failure(of: &str, error: &BmcError) -> v1::Failure {
    let kind = match error.kind {
        ErrorKind::Unreachable => v1::FailureKind::Unreachable,
        ErrorKind::Timeout => v1::FailureKind::Timeout,
        ErrorKind::Tls => v1::FailureKind::Tls,
        ErrorKind::Authentication => v1::FailureKind::Authentication,
        ErrorKind::Privilege => v1::FailureKind::Privilege,
        ErrorKind::Protocol => v1::FailureKind::Protocol,
        ErrorKind::System => v1::FailureKind::System,
        ErrorKind::Busy => v1::FailureKind::Busy,
        ErrorKind::Unsupported | ErrorKind::ButtonOnly => v1::FailureKind::Unsupported,
        ErrorKind::Refused | ErrorKind::Precondition => v1::FailureKind::Refused,
        ErrorKind::Configuration => v1::FailureKind::Configuration,
    };
    v1::Failure {
        kind: kind.into(),
        message: format!("{of}: {error}"),
    }
}

/// The detail of an outcome beyond its code.
pub(crate) fn detail(outcome: &Outcome) -> v1::OutcomeDetail {
    match outcome {
        Outcome::NotShutDown { .. } => v1::OutcomeDetail::NotShutDown,
        Outcome::Unknown { .. } => v1::OutcomeDetail::Unknown,
        Outcome::NotSent { .. } => v1::OutcomeDetail::NotSent,
        Outcome::NeedsPower { .. } => v1::OutcomeDetail::NeedsPower,
        Outcome::NotTaken => v1::OutcomeDetail::NotTaken,
        Outcome::Unproven { .. } => v1::OutcomeDetail::Unproven,
        Outcome::CallerGone { .. } => v1::OutcomeDetail::CallerGone,
        Outcome::FirmwareUpdate { .. } => v1::OutcomeDetail::FirmwareUpdate,
        _ => v1::OutcomeDetail::Unspecified,
    }
}

pub(crate) fn update_to_proto(update: &FirmwareUpdate) -> v1::FirmwareUpdate {
    v1::FirmwareUpdate {
        source: update.source.clone(),
        name: update.name.clone(),
        phase: match update.phase {
            UpdatePhase::Running => v1::UpdatePhase::Running,
            UpdatePhase::AtNextStart => v1::UpdatePhase::AtNextStart,
        }
        .into(),
        state: update.state.clone(),
        percent: update.percent.map(u32::from),
        message: update.message.clone(),
    }
}

pub(crate) fn proof_to_proto(proof: Option<OffProof>) -> v1::OffProof {
    match proof {
        None => v1::OffProof::Unspecified,
        Some(OffProof::Taken) => v1::OffProof::Taken,
        Some(OffProof::Watched) => v1::OffProof::Watched,
        Some(OffProof::ManagerUptime) => v1::OffProof::ManagerUptime,
        Some(OffProof::Outlets) => v1::OffProof::Outlets,
        Some(OffProof::OtherDevice) => v1::OffProof::OtherDevice,
    }
}

/// The identity of the journal.
pub(crate) fn journal_to_proto(identity: &IdentityRecord, generation: u64) -> v1::Journal {
    let created = Timestamp::from_nanosecond(identity.created.into()).ok();
    v1::Journal {
        instance: identity.instance.clone(),
        created: created.map(timestamp_to_proto),
        origin: identity.origin,
        generation,
    }
}

/// A record of the journal.
pub(crate) fn record_to_proto(record: OperationRecord) -> v1::OperationInfo {
    let time = |at: i64| {
        let at = Timestamp::from_nanosecond(at.into()).ok();
        at.map(timestamp_to_proto)
    };
    v1::OperationInfo {
        begun: time(record.begun),
        commands: record.sending.iter().filter_map(|at| time(*at)).collect(),
        ended: record
            .outcome
            .is_some()
            .then(|| time(record.ended))
            .flatten(),
        deadline: (record.lifetime.deadline != 0)
            .then(|| time(record.lifetime.deadline))
            .flatten(),
        attended: record.lifetime.is_attended,
        operation_id: record.id,
        host: record.host,
        action: record.action,
        owner: record.owner,
        by: record.by,
        outcome: record.outcome.map(outcome_to_proto),
        detail: record.detail,
        force: record.force,
        overrode: record.overrode,
        cancelled_by: record.cancelled_by,
        device: match record.device {
            Device::Outlets => v1::PowerDevice::Outlets,
            Device::Bmc => v1::PowerDevice::Bmc,
        }
        .into(),
    }
}

/// The events of an operation that only the journal remembers.
pub(crate) fn record_events(record: &OperationRecord) -> Vec<v1::AwaitResponse> {
    let event = |at: i64, event| v1::AwaitResponse {
        at: Timestamp::from_nanosecond(at.into())
            .ok()
            .map(timestamp_to_proto),
        elapsed: Some(duration_to_proto(Duration::from_nanos(
            u64::try_from(at - record.begun).unwrap_or(0),
        ))),
        event: Some(event),
    };
    let mut events = vec![event(record.begun, Event::Accepted(v1::Accepted {}))];
    for at in &record.sending {
        let sent = v1::CommandSent {
            command: record.action.clone(),
            answer: String::new(),
        };
        events.push(event(*at, Event::CommandSent(sent)));
    }
    let outcome = record.outcome.clone().map(outcome_to_proto);
    let outcome = outcome.unwrap_or_else(|| crate::journal::interrupted(record.sending.len()));
    events.push(event(
        record.ended.max(record.begun),
        Event::Outcome(outcome),
    ));
    events
}
