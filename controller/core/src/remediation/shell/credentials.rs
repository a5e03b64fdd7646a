//! How long the address and the credentials of a BMC are used again, so that not every call reads the Secret.

use std::time::Duration;

use jiff::Timestamp;

use super::Shell;

/// Longest use of credentials that were read once. They are kept by the process for one remediation only.
const KEPT: Duration = Duration::from_secs(60);

impl Shell {
    /// Whether credentials that were read at this time are used again. After anything that they may have caused to
    /// fail, the Secret is read: its password may have been rotated.
    #[must_use]
    pub fn may_use_credentials(&self, read: Timestamp, now: Timestamp) -> bool {
        // A time ahead is from before the clock was set back.
        let age = Duration::try_from(now.duration_since(read));
        let is_recent = age.is_ok_and(|age| age < KEPT);
        let has_answered = self.power.as_ref().is_none_or(|view| view.result.is_ok());
        let has_failed = self.state.as_ref().is_some_and(|s| s.failure.is_some());
        is_recent && has_answered && !has_failed && self.failures == 0
    }
}
