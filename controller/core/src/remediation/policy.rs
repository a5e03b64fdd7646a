//! What the user asked for, validated, and the waits that bound every step.
//!
//! Owns defaults and their reasons. Must never hold a time that is not a duration.

use std::time::Duration;

/// What happens when a drain takes longer than its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DrainBlocked {
    /// Stay off, say what blocks, go on when it is gone (F4).
    KeepOff,
    /// Switch on although pods or volumes remain: the user's explicit choice (F4).
    PowerOn,
}

/// Everything that a remediation obeys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Attempts after the first one (CAPM3: cycles = retryLimit + 1).
    pub retry_limit: u32,
    /// How long a host may take from the confirmed power-on until its Node is Ready. CAPM3 starts
    /// this clock at the power-off, so that a slow drain eats the boot; here it starts at the
    /// confirmed power-on.
    pub boot_timeout: Duration,
    /// Readings of exactly off that confirm it (F1).
    pub confirmations: u32,
    /// Least time between the first and the last of them (F1).
    pub confirm_interval: Duration,
    /// How long baremetal-operator may act before the agent does (cooperative mode, A3).
    pub cooperative_grace: Duration,
    /// How long one power-off operation may take.
    pub power_off_timeout: Duration,
    /// Power-off operations that may fail before a person is asked (F8).
    pub power_off_tries: u32,
    /// How long one power-on operation may take.
    pub power_on_timeout: Duration,
    /// Wait between failed operations.
    pub retry_interval: Duration,
    /// Wait between retries once a person has been asked.
    pub unconfirmed_interval: Duration,
    /// A reading of off older than this is no longer proof while the taint stands (F3).
    pub hold_watch: Duration,
    /// Time between two looks at pods and volumes.
    pub drain_poll: Duration,
    /// When a drain is called blocked.
    pub drain_timeout: Duration,
    /// And what then.
    pub drain_blocked: DrainBlocked,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retry_limit: 1,
            boot_timeout: Duration::from_secs(600),
            confirmations: 2,
            confirm_interval: Duration::from_secs(2),
            cooperative_grace: Duration::from_secs(20),
            // Ironic allows 120 s for a change of power; slow chassis took 46 s to switch on.
            power_off_timeout: Duration::from_secs(180),
            power_off_tries: 3,
            power_on_timeout: Duration::from_secs(180),
            retry_interval: Duration::from_secs(5),
            unconfirmed_interval: Duration::from_secs(60),
            hold_watch: Duration::from_secs(5),
            drain_poll: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(600),
            drain_blocked: DrainBlocked::KeepOff,
        }
    }
}

/// What is wrong with a strategy as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PolicyError {
    /// Nothing was asked for.
    #[error("spec.strategy is not set; set spec.strategy.type to Reboot")]
    NoStrategy,
    /// Not a strategy of this kind.
    #[error("spec.strategy.type {0:?} is not known; use Reboot")]
    UnknownStrategy(String),
    /// A field does not read.
    #[error("{field}: {message}")]
    Field {
        /// Its path.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}
