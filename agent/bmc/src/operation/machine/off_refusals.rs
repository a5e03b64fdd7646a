//! Refusals of a power-off by a BMC that reports off.

use std::time::Duration;

use crate::{ErrorKind, operation::CallFailure};

/// Number of refused power-offs after which no further one is sent to a BMC that reports off: a refusal proves
/// nothing, however often it is repeated.
const MOST: u32 = 5;
/// Longest pause between two refused power-offs.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Number of power-offs that failed while the host read off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct OffRefusals {
    failed: u32,
    refused: u32,
}

impl OffRefusals {
    /// Counts a failed power-off. `true`: no further one is sent.
    pub(super) fn count(&mut self, failed: &CallFailure) -> bool {
        self.failed = self.failed.saturating_add(1);
        let is_refusal = matches!(
            failed.kind,
            ErrorKind::Refused | ErrorKind::Protocol | ErrorKind::Unsupported
        );
        self.refused = self.refused.saturating_add(u32::from(is_refusal));
        is_refusal && self.refused >= MOST
    }

    /// Pause before the next power-off, which grows from `first` with each failure.
    pub(super) fn pause(self, first: Duration) -> Duration {
        let factor = 1_u32 << self.failed.saturating_sub(1).min(8);
        first.saturating_mul(factor).min(LONGEST_PAUSE.max(first))
    }
}
