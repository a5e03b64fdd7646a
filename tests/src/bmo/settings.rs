//! The periods of baremetal-operator and Ironic, shortened.

use std::time::Duration;

/// How fast both are, and which release the operator is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The operator's steady poll (60 s).
    pub poll: Duration,
    /// Its poll while Ironic works on something (3 s).
    pub wait: Duration,
    /// Its first wait after an error (1 to 2 min); each further one doubles it, nine times at most.
    pub backoff: Duration,
    /// Ironic's power sync (120 s).
    pub sync: Duration,
    /// `force_power_state_during_sync`: the host is put back to what the database says.
    pub force: bool,
    /// `power_state_sync_max_retries`: how many mismatches in a row are answered by force.
    pub sync_retries: u32,
    /// How long a hard change of power may take (120 s).
    pub hard: Duration,
    /// How long a soft off may take (180 s).
    pub soft: Duration,
    /// Up to v0.13 it deletes the hold keys of others while it provisions.
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
