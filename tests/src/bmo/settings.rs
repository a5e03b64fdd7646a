//! The periods of baremetal-operator and Ironic, shortened.

use std::time::Duration;

/// Periods of both, and the release of baremetal-operator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Poll interval of baremetal-operator (60 s).
    pub poll: Duration,
    /// Poll interval of baremetal-operator during a power change (3 s).
    pub wait: Duration,
    /// First backoff after an error (1 to 2 min), doubled by each further error, nine times at most.
    pub backoff: Duration,
    /// Interval of Ironic's power sync (120 s).
    pub sync: Duration,
    /// `force_power_state_during_sync`: whether the host is forced back to the state in the database.
    pub force: bool,
    /// `power_state_sync_max_retries`: maximum number of forced changes in a row.
    pub sync_retries: u32,
    /// Timeout of a hard power change (120 s).
    pub hard: Duration,
    /// Timeout of a soft off (180 s).
    pub soft: Duration,
    /// Whether foreign hold keys are deleted during provisioning, as up to v0.13.
    pub deletes_holds: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            wait: Duration::from_millis(100),
            backoff: Duration::from_secs(2),
            sync: Duration::from_secs(2),
            force: true,
            sync_retries: 3,
            hard: Duration::from_secs(8),
            soft: Duration::from_secs(6),
            deletes_holds: false,
        }
    }
}
