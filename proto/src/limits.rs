//! Limits that an agent enforces for operations; requests beyond them are rejected. A controller
//! keeps its requests within them.

use std::{ops::RangeInclusive, time::Duration};

/// Maximum deadline of an operation: a longer one would block its host.
pub const LONGEST_OPERATION: Duration = Duration::from_secs(3600);

/// Allowed number of readings that confirm a power-off. A single reading is not a confirmation.
pub const CONFIRMATIONS: RangeInclusive<u32> = 2..=10;

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
