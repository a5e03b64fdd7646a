//! Time in the model: the present is always the same instant, and everything else moves.
//!
//! When time passes, all stored times are shifted into the past. Two worlds that differ only in when they
//! happened are therefore the same state. Times that are further in the past than any interval of the
//! policy are all the same.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_core::remediation::{Handover, LeaseMemory, OffEvidence, Shell, State};

/// The present.
pub const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// Longer than every interval that decides anything in the model.
const LONG_AGO: Duration = Duration::from_secs(32);

/// The longest pause before a cordon is set again that somebody removes each time.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The present and `seconds`.
pub fn after(seconds: u64) -> Timestamp {
    NOW.checked_add(Duration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// How long until `t`; zero for the past.
pub fn until(t: Timestamp) -> Duration {
    Duration::try_from(t.duration_since(NOW)).unwrap_or_default()
}

/// Shifts one time by `passed` into the past.
pub fn shift(t: &mut Timestamp, passed: Duration) {
    let oldest = NOW.checked_sub(LONG_AGO).unwrap_or(Timestamp::MIN);
    *t = t.checked_sub(passed).unwrap_or(Timestamp::MIN).max(oldest);
}

/// Shifts a time that may be absent.
pub fn shift_some(t: &mut Option<Timestamp>, passed: Duration) {
    if let Some(t) = t {
        shift(t, passed);
    }
}

/// Shifts the times of a stored state. The start of the attempt is part of operation ids and decides
/// nothing else, so it stays the same instant for every attempt.
pub fn shift_state(s: &mut State, passed: Duration) {
    shift(&mut s.since, passed);
    let Handover {
        released,
        unreported,
        taken: _,
        held_by_others: _,
    } = &mut s.attempt.handover;
    let times = [
        &mut s.retry_at,
        &mut s.attempt.drained,
        &mut s.attempt.on,
        &mut s.node_back,
    ];
    for t in times.into_iter().chain([released, unreported]) {
        shift_some(t, passed);
    }
    if let Some(
        OffEvidence::Bmc { at, .. } | OffEvidence::Outlets { at, .. } | OffEvidence::Person { at },
    ) = &mut s.attempt.off
    {
        shift(at, passed);
    }
    if let Some(eviction) = &mut s.attempt.eviction {
        shift(&mut eviction.until, passed);
        shift(&mut eviction.moved, passed);
    }
    let again = s.cordoned.as_mut().and_then(|of| of.again.as_mut());
    if let Some(at) = again {
        let oldest = NOW.checked_sub(LONGEST_PAUSE).unwrap_or(Timestamp::MIN);
        *at = at.checked_sub(passed).unwrap_or(oldest).max(oldest);
    }
    if let Some(watch) = &mut s.attempt.update {
        shift(&mut watch.first_seen, passed);
        shift(&mut watch.last_moved, passed);
    }
    if let Some(pin) = &mut s.pinned {
        shift_some(&mut pin.until, passed);
    }
    for attempt in &mut s.attempts {
        attempt.ended = NOW;
        for t in [&mut attempt.off, &mut attempt.drained, &mut attempt.on] {
            *t = t.map(|_| NOW);
        }
    }
}

/// Shifts the times that an engine remembers.
pub fn shift_shell(shell: &mut Shell, passed: Duration) {
    if let Some(state) = &mut shell.state {
        shift_state(state, passed);
    }
    for answer in shell.evictions.answers.values_mut() {
        shift(&mut answer.at, passed);
    }
    if let Some(view) = &mut shell.power {
        shift(&mut view.asked, passed);
        shift(&mut view.answered, passed);
    }
    if let Some(read) = &mut shell.updates {
        shift(&mut read.at, passed);
    }
    shift_some(&mut shell.silent_since, passed);
    if let Some(kept) = &mut shell.node.kept {
        shift(&mut kept.asked, passed);
        if let Some(lease) = &mut kept.node.lease {
            shift(&mut lease.unchanged_since, passed);
        }
    }
}

/// Shifts the times since when Leases have been seen.
pub fn shift_leases(leases: &mut LeaseMemory, passed: Duration) {
    for (_, since) in leases.seen.values_mut() {
        shift(since, passed);
    }
}
