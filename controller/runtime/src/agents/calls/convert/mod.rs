//! Conversion of the agent's messages into the types of the core.

pub(in crate::agents) mod host_evidence;
pub(in crate::agents) mod watched;

use super::updates::firmware_update;
use rackhand_core::remediation::{
    CommandTaken, OUTLETS_PROTOCOL, ObservedOperation, OffProof, OperationOutcome, OperationView,
    PowerDevice, PowerReading, PowerState,
};
use rackhand_identity::SystemUuid;
use rackhand_proto::{
    convert::{duration_from_proto, timestamp_from_proto},
    v1,
};

/// The view of an operation that waits for its staggered power-on; `None` if the agent does not report when
/// the wait ends.
pub(super) fn staged(waiting: v1::Waiting) -> Option<OperationView> {
    let due = timestamp_from_proto(waiting.until.as_ref()?).ok()?;
    Some(OperationView::Staged {
        why: waiting.reason,
        due,
    })
}

/// The view of an operation that has ended. `observed` has its earlier readings, for an agent that does not
/// report what proves off.
pub(super) fn finished(outcome: &v1::Outcome, observed: &ObservedOperation) -> OperationView {
    let mut why = outcome.message.clone();
    if why.is_empty() {
        why = outcome
            .failure
            .as_ref()
            .map(|f| f.message.clone())
            .unwrap_or_default();
    }
    let result = match outcome.code() {
        v1::OutcomeCode::Confirmed => {
            match outcome
                .readings
                .iter()
                .map(reading)
                .collect::<Result<Vec<_>, _>>()
            {
                Ok(readings) => OperationOutcome::Confirmed {
                    readings,
                    taken: taken(outcome, observed),
                },
                Err(why) => OperationOutcome::Unconfirmed { why },
            }
        }
        v1::OutcomeCode::Unconfirmed | v1::OutcomeCode::Unspecified => {
            OperationOutcome::Unconfirmed { why }
        }
        v1::OutcomeCode::Failed => match (&outcome.update, outcome.detail()) {
            (Some(update), v1::OutcomeDetail::FirmwareUpdate) => {
                let update = firmware_update(update);
                match outcome.commands_sent {
                    0 => OperationOutcome::FirmwareUpdate { update, why },
                    _ => OperationOutcome::UpdateAfterCommand { update, why },
                }
            }
            _ => OperationOutcome::Failed { why },
        },
        v1::OutcomeCode::IdentityMismatch => OperationOutcome::IdentityMismatch { why },
        v1::OutcomeCode::Cancelled => OperationOutcome::Cancelled,
        v1::OutcomeCode::Interrupted => OperationOutcome::Interrupted,
    };
    OperationView::Finished {
        outcome: result,
        commands_sent: outcome.commands_sent,
    }
}

/// The power-off command that the BMC has taken. A command with a time that cannot be parsed proves nothing
/// (F1).
fn taken(outcome: &v1::Outcome, observed: &ObservedOperation) -> Option<CommandTaken> {
    let taken = outcome.power_off_taken.as_ref()?;
    let since = duration_from_proto(taken.since_start.as_ref()?).ok()?;
    let taken = CommandTaken {
        command: taken.command.clone(),
        answer: taken.answer.clone(),
        since_start_ms: u64::try_from(since.as_millis()).ok()?,
        proof: proof(outcome.off_proof()),
        updates_unknown: Some(outcome.updates_unknown.clone()).filter(|why| !why.is_empty()),
    };
    Some(CommandTaken {
        proof: taken.proof.or_else(|| observed.proof(&taken)),
        ..taken
    })
}

fn proof(proof: v1::OffProof) -> Option<OffProof> {
    match proof {
        v1::OffProof::Unspecified => None,
        v1::OffProof::Taken => Some(OffProof::Taken),
        v1::OffProof::Watched => Some(OffProof::Watched),
        v1::OffProof::ManagerUptime => Some(OffProof::ManagerUptime),
        v1::OffProof::Outlets => Some(OffProof::Outlets),
        v1::OffProof::OtherDevice => Some(OffProof::OtherDevice),
    }
}

fn identity(i: &v1::SystemIdentity) -> String {
    // An agent of an earlier version reports placeholders of the firmware as they are.
    if SystemUuid::parse(&i.system_uuid).is_none() {
        i.serial.clone()
    } else {
        i.system_uuid.clone()
    }
}

fn protocol(p: v1::Protocol) -> &'static str {
    match p {
        v1::Protocol::Redfish => "Redfish",
        v1::Protocol::Ipmi => "IPMI",
        v1::Protocol::Outlets => OUTLETS_PROTOCOL,
        v1::Protocol::Unspecified => "",
    }
}

pub(super) fn device(device: PowerDevice) -> v1::PowerDevice {
    match device {
        PowerDevice::Bmc => v1::PowerDevice::Bmc,
        PowerDevice::Outlets => v1::PowerDevice::Outlets,
    }
}

fn power_state(state: v1::PowerState) -> PowerState {
    match state {
        v1::PowerState::On => PowerState::On,
        v1::PowerState::Off => PowerState::Off,
        v1::PowerState::PoweringOn => PowerState::PoweringOn,
        v1::PowerState::PoweringOff => PowerState::PoweringOff,
        v1::PowerState::Unknown | v1::PowerState::Unspecified => PowerState::Unknown,
    }
}

pub(super) fn reading(r: &v1::PowerReading) -> Result<PowerReading, String> {
    let state = power_state(r.state());
    let at = r.at.as_ref().ok_or("a reading without a time")?;
    let since = r
        .since_start
        .as_ref()
        .ok_or("a reading without a monotonic time")?;
    Ok(PowerReading {
        state,
        raw: r.raw.clone(),
        protocol: protocol(r.protocol()).into(),
        identity: r.identity.as_ref().map(identity).unwrap_or_default(),
        at: timestamp_from_proto(at).map_err(|e| e.to_string())?,
        since_start_ms: duration_from_proto(since)
            .ok()
            .and_then(|d| u64::try_from(d.as_millis()).ok())
            .ok_or("a reading with an odd monotonic time")?,
        bmc: r.bmc.clone(),
    })
}

#[cfg(test)]
mod tests;
