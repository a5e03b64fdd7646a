//! What counts as proof that a host is off (F1, F8).
//!
//! Must never accept less than the BMC's exact word, or a person's.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Policy, PowerReading, PowerState, PowerView};

/// A power-off command that the BMC took, as the agent reports it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandTaken {
    /// As sent, for example `ForceOff`.
    pub command: String,
    /// What the BMC answered, in short, for example `204` or `409: already off`.
    pub answer: String,
    /// When, by the agent's monotonic clock, as in [`PowerReading`].
    pub since_start_ms: u64,
}

/// The proof.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OffEvidence {
    /// The BMC said so, as often and as far apart as F1 asks.
    Bmc {
        /// When this controller learned it.
        at: Timestamp,
        /// The readings, oldest first.
        readings: Vec<PowerReading>,
        /// The power-off that the BMC took before them; `None` only in what an earlier version
        /// has written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        taken: Option<CommandTaken>,
    },
    /// A person said so by `rackhand.dev/confirm-fenced` (F8).
    Person {
        /// When this controller saw it.
        at: Timestamp,
    },
}

impl OffEvidence {
    /// When it was learned.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Bmc { at, .. } | Self::Person { at } => *at,
        }
    }
}

/// How old the BMC's last word may be at the moment in which the Node is changed. The decision asks for
/// less; this bounds what may lie between the two, however long the process or the API stood still. No
/// server that is switched on runs its kubelet before that.
const LAST_WORD_AT_WRITE: Duration = Duration::from_secs(15);

/// F1: whether the BMC's last word still stands behind a taint that is about to be written. `now` is by
/// a clock that cannot be set, the one that the reading was stamped by.
///
/// # Errors
/// Says why not; the decision is made anew then.
pub fn last_word_stands(
    off: Option<&OffEvidence>,
    power: Option<&PowerView>,
    now: Timestamp,
) -> Result<(), String> {
    let power = match (off, power) {
        (None, _) => return Err("the host is not confirmed off".into()),
        (Some(OffEvidence::Person { .. }), _) => return Ok(()),
        (Some(OffEvidence::Bmc { .. }), None) => return Err("the BMC was not asked".into()),
        (Some(OffEvidence::Bmc { .. }), Some(power)) => power,
    };
    if !matches!(&power.result, Ok(r) if r.state == PowerState::Off) {
        return Err("the last word of the BMC is not off".into());
    }
    let until = power.answered.checked_add(LAST_WORD_AT_WRITE);
    if power.answered > now || until.is_ok_and(|until| until < now) {
        return Err(format!(
            "the last word of the BMC is older than {LAST_WORD_AT_WRITE:?}; it is read again"
        ));
    }
    Ok(())
}

/// F1 knows no proof by a single reading, whatever a policy says.
const LEAST_CONFIRMATIONS: u32 = 2;

/// F1: the BMC took a power-off command of this operation, and the readings after it are all
/// exactly off, at least `confirmations` of them and never less than two, all of one BMC, the
/// first and the last at least `confirm_interval` apart by the agent's monotonic clock.
///
/// # Errors
/// Says what is missing.
pub fn confirmed_off(
    taken: Option<&CommandTaken>,
    readings: &[PowerReading],
    policy: &Policy,
) -> Result<(), String> {
    let Some(taken) = taken else {
        return Err(
            "the BMC took no power-off command, or rackhand-agent is too old to report it: \
             update the agent"
                .into(),
        );
    };
    let wanted = policy.confirmations.max(LEAST_CONFIRMATIONS) as usize;
    if let Some(other) = readings.iter().find(|r| r.state != PowerState::Off) {
        return Err(format!("a reading says {:?}, which is not off", other.raw));
    }
    if readings.len() < wanted {
        return Err(format!("{} of {wanted} readings of off", readings.len()));
    }
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        return Err("no reading".into());
    };
    if first.since_start_ms < taken.since_start_ms {
        return Err("a reading is from before the BMC took the power-off".into());
    }
    if readings.iter().any(|r| r.bmc != first.bmc) {
        return Err("the readings are of different BMCs".into());
    }
    let apart = last.since_start_ms.saturating_sub(first.since_start_ms);
    let least = policy.confirm_interval.as_millis();
    if u128::from(apart) < least {
        return Err(format!(
            "the readings are only {apart} ms apart, {least} ms are asked"
        ));
    }
    Ok(())
}
