//! What the events of a power-off show, for an agent that does not report what proves its off (F1).
//!
//! Invariant: an agent that reports a proof is not judged by this, and one that reports none is believed no more
//! than what its own readings show.

use super::super::{CommandTaken, OffProof, PowerReading, PowerState};

/// Longest time from one answer of a BMC to the next between which it cannot have restarted unnoticed, in
/// milliseconds.
const LONGEST_GAP: u64 = 10_000;

/// The readings of one operation, as its events report them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedOperation {
    /// The last reading of the observation that has not been interrupted.
    last: Option<PowerReading>,
    /// When another state than off was read in it first.
    other: Option<u64>,
}

impl ObservedOperation {
    /// The BMC was read.
    pub fn reading(&mut self, reading: PowerReading) {
        let is_next = self.last.as_ref().is_some_and(|last| {
            let gap = reading.since_start_ms.saturating_sub(last.since_start_ms);
            gap <= LONGEST_GAP && last.bmc == reading.bmc && last.protocol == reading.protocol
        });
        if !is_next {
            self.other = None;
        }
        if reading.state != PowerState::Off {
            self.other.get_or_insert(reading.since_start_ms);
        }
        self.last = Some(reading);
    }

    /// A reading or a command failed: the BMC may have restarted.
    pub fn interrupted(&mut self) {
        *self = Self::default();
    }

    /// What proves the off that follows a command. A refusal that an earlier agent took for success, because the
    /// host read off, proves nothing.
    pub fn proof(&self, taken: &CommandTaken) -> Option<OffProof> {
        let is_refusal = taken.answer.contains("already");
        let was_other = self.other.is_some_and(|at| at <= taken.since_start_ms);
        (was_other && !is_refusal).then_some(OffProof::Taken)
    }
}
