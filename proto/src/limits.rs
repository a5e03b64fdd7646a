//! Limits that an agent enforces for operations; requests beyond them are rejected. A controller
//! keeps its requests within them.

use std::{ops::RangeInclusive, time::Duration};

/// Maximum deadline of an operation: a longer one would block its host.
pub const LONGEST_OPERATION: Duration = Duration::from_secs(3600);

/// Allowed number of readings that confirm a power-off. A single reading is not a confirmation.
pub const CONFIRMATIONS: RangeInclusive<u32> = 2..=10;

/// Maximum number of entries in a message that changes what a stream watches.
pub const WATCH_CHANGES: usize = 500;

/// Maximum number of hosts that a stream watches.
pub const WATCHED_HOSTS: usize = 5_000;

/// Maximum number of hosts in a message about watched hosts.
pub const WATCHED_BATCH: usize = 250;

/// Maximum length of the name of a host within a stream, in bytes.
pub const WATCH_ID: usize = 512;

/// Shortest time between two readings that confirm a power state for a stream.
pub const SECOND_READING: Duration = Duration::from_secs(2);

/// Shortest time between two readings of the health of the hardware.
pub const SHORTEST_HEALTH_INTERVAL: Duration = Duration::from_secs(60);

/// Time between two heartbeats of a stream that watches hosts.
pub const WATCH_HEARTBEAT: Duration = Duration::from_secs(30);

/// Maximum number of hardware faults of one host in a message.
pub const HARDWARE_FAULTS: usize = 16;

/// Checks that an operation that takes at least `least` may have this deadline.
///
/// # Errors
///
/// The reason why not.
pub fn check_deadline(deadline: Duration, least: Duration) -> Result<(), String> {
    if deadline > LONGEST_OPERATION {
        return Err(format!("deadline: longer than {LONGEST_OPERATION:?}"));
    }
    if least >= deadline {
        return Err(format!(
            "deadline: {deadline:?} is too short: the operation takes at least {least:?}"
        ));
    }
    Ok(())
}
