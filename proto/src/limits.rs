//! What an agent takes of an operation. Whoever asks for more, or for less time than it takes, is
//! refused: a controller keeps its requests within these bounds.

use std::{ops::RangeInclusive, time::Duration};

/// Longer operations are a mistake: nobody would wait for them, and they block their host.
pub const LONGEST_OPERATION: Duration = Duration::from_secs(3600);

/// How many readings may confirm a power-off. One is not a confirmation.
pub const CONFIRMATIONS: RangeInclusive<u32> = 2..=10;

/// Whether an operation that takes at least `least` may have this deadline.
///
/// # Errors
/// Why not.
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
