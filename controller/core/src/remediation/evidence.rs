//! Evidence that a host is off (F1, F8).
//!
//! Invariant: nothing less than the exact report of the BMC, or of all outlets that feed the host, or the
//! confirmation of a person, is accepted.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{OUTLETS_PROTOCOL, Policy, PowerReading, PowerState, PowerView};

/// What proves that a reported off is true (F1): after a reset of its own, a BMC may report off for a host that
/// runs, and take or refuse a power-off without effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OffProof {
    /// The BMC took the power-off after it had reported another state, without an interruption since.
    Taken,
    /// The agent had read exactly on, and has read the BMC without an interruption since.
    Watched,
    /// The manager had been up for long before the first reading of off.
    ManagerUptime,
    /// All outlets that feed the host are off, or carry no more than its standby power.
    Outlets,
    /// Another device than the BMC took the power-off.
    OtherDevice,
}

/// A power-off command that the BMC took, or refused as already off, as the agent reports it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandTaken {
    /// As sent, for example `ForceOff`.
    pub command: String,
    /// What the BMC answered, in short, for example `204` or `409: already off`.
    pub answer: String,
    /// Time by the agent's monotonic clock, as in [`PowerReading`].
    pub since_start_ms: u64,
    /// What proves the off after it; `None` if the agent does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<OffProof>,
    /// Why it was not known, when a command that takes the power was sent, whether firmware was being updated; `None`:
    /// it was known, was not read on purpose, or the BMC never reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates_unknown: Option<String>,
}

/// The evidence that a host is off.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OffEvidence {
    /// Reported by the BMC, as often and as far apart as F1 requires.
    Bmc {
        /// When this controller received it.
        at: Timestamp,
        /// The readings, oldest first.
        readings: Vec<PowerReading>,
        /// The power-off command that the BMC took before them.
        taken: CommandTaken,
    },
    /// Reported by the PDUs of all outlets that feed the host, after the BMC could not prove it.
    Outlets {
        /// When this controller received it.
        at: Timestamp,
        /// The readings of all outlets together, oldest first.
        readings: Vec<PowerReading>,
        /// The command that the PDUs took before them.
        taken: CommandTaken,
    },
    /// Confirmed by a person with `rackhand.dev/confirm-fenced` (F8).
    Person {
        /// When this controller accepted it.
        at: Timestamp,
    },
}

impl OffEvidence {
    /// When this controller received the evidence.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Bmc { at, .. } | Self::Outlets { at, .. } | Self::Person { at } => *at,
        }
    }

    pub(super) fn at_mut(&mut self) -> &mut Timestamp {
        match self {
            Self::Bmc { at, .. } | Self::Outlets { at, .. } | Self::Person { at } => at,
        }
    }
}

/// Maximum age of the latest reading at the moment in which the Node is changed. The decision
/// requires a younger one; this bounds the time between decision and write, however long the
/// process or the API is stalled. No server that is switched on runs its kubelet earlier.
const READING_AGE_AT_WRITE: Duration = Duration::from_secs(15);

/// Why the latest reading does not prove off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum ReadingError {
    #[error("the host is not confirmed off")]
    NotConfirmed,
    #[error("the power was not read")]
    NotRead,
    #[error("the latest reading is not of the outlets")]
    NotOfOutlets,
    #[error("the latest reading is not off")]
    NotOff,
    #[error("the latest reading is older than {READING_AGE_AT_WRITE:?}; it is read again")]
    Old,
}

/// F1: checks that the latest reading still proves off when a taint is about to be written. `now`
/// is by the monotonic clock that the reading was stamped with.
///
/// # Errors
/// The reading does not prove it; a new decision is required.
pub fn latest_reading_stands(
    off: Option<&OffEvidence>,
    power: Option<&PowerView>,
    now: Timestamp,
) -> Result<(), ReadingError> {
    let power = match (off, power) {
        (None, _) => return Err(ReadingError::NotConfirmed),
        (Some(OffEvidence::Person { .. }), _) => return Ok(()),
        (Some(_), None) => return Err(ReadingError::NotRead),
        (Some(_), Some(power)) => power,
    };
    let is_of_outlets = |r: &PowerReading| r.protocol == OUTLETS_PROTOCOL;
    if matches!(off, Some(OffEvidence::Outlets { .. }))
        && !power.result.as_ref().is_ok_and(is_of_outlets)
    {
        return Err(ReadingError::NotOfOutlets);
    }
    if !matches!(&power.result, Ok(r) if r.state == PowerState::Off) {
        return Err(ReadingError::NotOff);
    }
    let until = power.answered.checked_add(READING_AGE_AT_WRITE);
    if power.answered > now || until.is_ok_and(|until| until < now) {
        return Err(ReadingError::Old);
    }
    Ok(())
}

/// A single reading never confirms off, whatever the policy says (F1).
const LEAST_CONFIRMATIONS: u32 = 2;

/// Why evidence does not confirm off, or on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum EvidenceError {
    #[error(
        "the BMC took no power-off command, or rackhand-agent is too old to report it: update the agent"
    )]
    NoCommand,
    #[error(
        "the agent does not report what proves that the BMC knows the state of the host: update \
         rackhand-agent"
    )]
    NoProof,
    #[error("a reading is {raw:?}, which is not off")]
    NotOff { raw: String },
    #[error("{found} of {wanted} readings of off")]
    TooFew { found: usize, wanted: usize },
    #[error("a reading is from before the BMC took the power-off")]
    BeforeCommand,
    #[error("the readings are of different BMCs")]
    OtherBmc,
    #[error("the readings are only {apart} ms apart, {least} ms are required")]
    TooClose { apart: u64, least: u128 },
    #[error("a reading is not on")]
    NotOn,
    #[error("no reading of the outlets")]
    NoOutletReading,
    #[error("a reading is not of the outlets but of {protocol:?}; update rackhand-agent")]
    NotOfOutlets { protocol: String },
}

/// Checks the evidence of off (F1): the BMC took a power-off command of this operation, or refused it as already off;
/// something proves that it knows the state; the readings after it are all exactly off; there are at least
/// `confirmations`, and at least two, of them, of one BMC; and the first and the last are at least `confirm_interval`
/// apart by the agent's monotonic clock. Returns the command.
///
/// # Errors
/// What is missing in the evidence.
pub fn confirmed_off<'a>(
    taken: Option<&'a CommandTaken>,
    readings: &[PowerReading],
    policy: &Policy,
) -> Result<&'a CommandTaken, EvidenceError> {
    let taken = taken.ok_or(EvidenceError::NoCommand)?;
    if taken.proof.is_none() {
        return Err(EvidenceError::NoProof);
    }
    if let Some(other) = readings.iter().find(|r| r.state != PowerState::Off) {
        let raw = other.raw.clone();
        return Err(EvidenceError::NotOff { raw });
    }
    let wanted = policy.confirmations.max(LEAST_CONFIRMATIONS) as usize;
    let (found, ends) = (readings.len(), readings.first().zip(readings.last()));
    let Some((first, last)) = ends.filter(|_| found >= wanted) else {
        return Err(EvidenceError::TooFew { found, wanted });
    };
    if first.since_start_ms < taken.since_start_ms {
        return Err(EvidenceError::BeforeCommand);
    }
    if readings.iter().any(|r| r.bmc != first.bmc) {
        return Err(EvidenceError::OtherBmc);
    }
    let apart = last.since_start_ms.saturating_sub(first.since_start_ms);
    let least = policy.confirm_interval.as_millis();
    if u128::from(apart) < least {
        return Err(EvidenceError::TooClose { apart, least });
    }
    Ok(taken)
}
