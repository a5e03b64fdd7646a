//! What one call of the client has used up and risked so far.
//!
//! Owns: two flags. Must never: outlive its call.

use std::sync::atomic::{AtomicBool, Ordering};

/// The state of one call.
#[derive(Debug, Default)]
pub(super) struct Call {
    logged_in_again: AtomicBool,
    command_sent: AtomicBool,
}

impl Call {
    /// True once: a second refusal in one call is no expired session, and trying on locks the
    /// account.
    pub(super) fn may_log_in_again(&self) -> bool {
        !self.logged_in_again.swap(true, Ordering::Relaxed)
    }

    /// From here on, being cut off leaves open whether the BMC has the command.
    pub(super) fn command_is_sent(&self) {
        self.command_sent.store(true, Ordering::Relaxed);
    }

    /// The BMC has answered that it will not carry the command out.
    pub(super) fn command_is_refused(&self) {
        self.command_sent.store(false, Ordering::Relaxed);
    }

    pub(super) fn command_may_be_sent(&self) -> bool {
        self.command_sent.load(Ordering::Relaxed)
    }
}
