//! A watched host as a message of the service.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use rackhand_agent_core::ledger::Hold;
use rackhand_bmc::{
    FaultKind, HardwareFault, PowerState, StopKind, SystemStop,
    operation::{Expected, LastReading},
};
use rackhand_proto::{convert::duration_to_proto, v1};
use tonic::Status;

use super::host::{Failure, HealthReading, Snapshot, StopReading};
use crate::{
    convert::{
        entry_to_proto, failure_to_proto, identity_to_proto, severity_to_proto, source_to_proto,
        state_to_proto,
    },
    engine::bmcs::clients::Clients,
};

/// A host that is not watched.
pub(super) fn refused(id: &str, refusal: &Status) -> v1::WatchedHost {
    v1::WatchedHost {
        id: id.to_owned(),
        failure: Some(v1::Failure {
            kind: v1::FailureKind::Configuration.into(),
            message: refusal.message().to_owned(),
        }),
        refused: true,
        ..v1::WatchedHost::default()
    }
}

pub(super) fn host(
    clients: &Clients,
    holds: &HashMap<String, Hold>,
    snapshot: Snapshot,
) -> v1::WatchedHost {
    let target = &snapshot.target;
    let name = &target.host;
    let keys = clients.known(target).keys;
    let held = holds
        .iter()
        .find(|(key, hold)| hold.keys(key).matches(&keys));
    let is_gone = snapshot.failure == Some(Failure::Gone);
    let (power, mismatch) = match &snapshot.failure {
        None => power(clients, &snapshot),
        Some(_) => (None, None),
    };
    let failure = match &snapshot.failure {
        None => mismatch,
        Some(Failure::Bmc(error)) => Some(failure_to_proto(name, error)),
        Some(Failure::Gone) => Some(v1::Failure {
            kind: v1::FailureKind::Configuration.into(),
            message: format!(
                "host {name} has left the inventory of rack {}, or its BMC is no longer accepted",
                target.config.rack
            ),
        }),
    };
    let last_switch = clients.switches.last(target, &keys);
    v1::WatchedHost {
        id: snapshot.id,
        power,
        failure,
        refused: is_gone,
        last_switch: last_switch.map(|(command, age)| v1::PowerSwitch {
            command: command.words().to_owned(),
            age: Some(duration_to_proto(age)),
        }),
        operation_running: clients.queue(target).has_operation(&keys),
        held_by: held.map(|(_, hold)| hold.owner.clone()).unwrap_or_default(),
        answered: snapshot.answered,
        backoff: snapshot.backoff.map(duration_to_proto),
        stops: snapshot.stops.map(|stops| stops_to_proto(name, &stops)),
        health: snapshot.health.map(|health| health_to_proto(name, &health)),
    }
}

/// The power, or the failure of a BMC that belongs to another system.
fn power(
    clients: &Clients,
    snapshot: &Snapshot,
) -> (Option<v1::WatchedPower>, Option<v1::Failure>) {
    let Some((last, now)) = clients.last_reading(&snapshot.target) else {
        return (None, None);
    };
    if let Some(failure) = mismatch(&snapshot.target.host, &snapshot.expected, &last) {
        return (None, Some(failure));
    }
    let age = |at: Duration| duration_to_proto(now.saturating_sub(at));
    let state = |state: PowerState| i32::from(state_to_proto(state));
    let power = v1::WatchedPower {
        state: state(last.state),
        raw: last.raw,
        protocol: source_to_proto(last.source).into(),
        age: Some(age(last.at)),
        observation: last.observation,
        readings: last.readings,
        state_age: Some(age(last.since)),
        previous: last.previous.map(state).unwrap_or_default(),
        last_on_age: last.last_on.map(age),
        identify_led: last.identify_led,
        identity: Some(identity_to_proto(&last.identity)),
    };
    (Some(power), None)
}

fn mismatch(name: &str, expected: &Expected, last: &LastReading) -> Option<v1::Failure> {
    let mismatch = expected.mismatch(&last.identity)?;
    Some(v1::Failure {
        kind: v1::FailureKind::Identity.into(),
        message: format!(
            "host {name}: the BMC belongs to another system: {mismatch}; correct the address of the BMC"
        ),
    })
}

fn stops_to_proto(name: &str, reading: &StopReading) -> v1::StopReading {
    let age = Some(duration_to_proto(reading.at.elapsed()));
    match &reading.stop {
        Err(error) => v1::StopReading {
            age,
            failure: Some(failure_to_proto(name, error)),
            ..v1::StopReading::default()
        },
        Ok(None) => v1::StopReading {
            age,
            ..v1::StopReading::default()
        },
        Ok(Some(stop)) => v1::StopReading {
            age,
            failure: None,
            kind: match stop.kind {
                StopKind::OperatingSystem => v1::StopKind::OperatingSystem,
                StopKind::Watchdog => v1::StopKind::Watchdog,
            }
            .into(),
            entry: Some(entry_to_proto(stop.entry.clone())),
            start: stop.start.clone().map(entry_to_proto),
            stop_age: stop_age(stop, Timestamp::now()),
        },
    }
}

/// `None`: the entry has no time that says anything, or one in the future.
fn stop_age(stop: &SystemStop, now: Timestamp) -> Option<prost_types::Duration> {
    let age = now.duration_since(stop.written()?);
    Duration::try_from(age).ok().map(duration_to_proto)
}

fn health_to_proto(name: &str, reading: &HealthReading) -> v1::HealthReading {
    let severity = |of: &HardwareFault| severity_to_proto(of.severity).into();
    v1::HealthReading {
        age: Some(duration_to_proto(reading.at.elapsed())),
        failure: reading
            .failure
            .as_ref()
            .map(|error| failure_to_proto(name, error)),
        rollup: reading
            .rollup
            .map(|rollup| severity_to_proto(rollup.severity).into())
            .unwrap_or_default(),
        faults: reading
            .faults
            .iter()
            .map(|fault| v1::HardwareFault {
                kind: match fault.kind {
                    FaultKind::CriticalHealth => v1::FaultKind::CriticalHealth,
                    FaultKind::UncorrectableMemory => v1::FaultKind::UncorrectableMemory,
                    FaultKind::ThermalTrip => v1::FaultKind::ThermalTrip,
                    FaultKind::PowerRedundancyLost => v1::FaultKind::PowerRedundancyLost,
                }
                .into(),
                severity: severity(fault),
                message: message(fault),
                entry: fault.entry.clone().map(entry_to_proto),
            })
            .collect(),
    }
}

fn message(fault: &HardwareFault) -> String {
    match &fault.entry {
        None => "the BMC reports the health of the host as critical".to_owned(),
        Some(entry) => match &entry.sensor {
            Some(sensor) => format!("{sensor}: {}", entry.message),
            None => entry.message.clone(),
        },
    }
}
