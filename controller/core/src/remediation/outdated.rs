//! Whether a stored state is older than what the agents have done for its remediation.
//!
//! After a restore of etcd from a backup, objects are as they were at that time, and the hosts are not. The
//! journals of the agents tell: a host that was switched on again for a remediation is not switched off on
//! the word of a state from before that (F11, F12).

use super::{State, Step};

/// What an agent did for a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JournalEntry {
    /// Its id; of an operation, see [`super::operation_id`].
    pub id: String,
    /// Whether it leaves the host off; otherwise the host was switched on, or its hold was released.
    pub is_off: bool,
    /// It is a release, and no operation.
    pub is_release: bool,
}

/// Where an operation stands in the course of its remediation: attempt and its start, repetitions, off
/// before on, try.
type Position = (u32, i64, u32, u8, u32);

const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether the state is older than the journal of one agent. `entries`: what that journal has of this
/// remediation, the newest first.
///
/// A state is written before its operation is begun, so a journal is ahead of it only if the state was set
/// back. While the newest entry is a power-off, the host is kept off for this remediation, and going on is
/// right.
pub fn is_outdated(uid: &str, state: &State, entries: &[JournalEntry]) -> bool {
    let (Some(reached), Some(newest)) = (reached(state), entries.first()) else {
        return false;
    };
    if newest.is_off {
        return false;
    }
    let mut positions = entries.iter().filter_map(|entry| position(uid, &entry.id));
    let (attempt, started, repeats, what, _) = reached;
    let is_this_off = |p: &Position| *p >= (attempt, started, repeats, OFF, 0);
    if newest.is_release && what < ON {
        return positions.any(|p| is_this_off(&p));
    }
    positions.any(|p| p > reached)
}

/// The last position that a remediation in this state can have reached; `None` if it only ends from here.
fn reached(s: &State) -> Option<Position> {
    let (what, tries) = match s.step {
        Step::Pending | Step::Retrying | Step::Holding => (0, 0),
        Step::PoweringOff | Step::AwaitingConfirmation => (OFF, s.tries),
        Step::ConfirmingOff | Step::Tainting | Step::Draining | Step::Fenced => (OFF, u32::MAX),
        Step::PoweringOn => (ON, s.tries),
        Step::Booting | Step::Restoring => (ON, u32::MAX),
        Step::Aborting | Step::Succeeded | Step::Escalated | Step::Blocked => return None,
    };
    let repeats = s.power_off_repeats.saturating_add(s.power_on_repeats);
    let started = s.attempt_started.as_second();
    Some((s.attempt, started, repeats, what, tries))
}

/// Parses the id of an operation of this remediation; `None`: it is of another kind.
fn position(uid: &str, id: &str) -> Option<Position> {
    let mut parts = id.strip_prefix(uid)?.strip_prefix('/')?.split('/');
    let (attempt, started) = parts.next()?.split_once('@')?;
    let what = match parts.next()? {
        "off" => OFF,
        "on" => ON,
        // Begun while aborting, which is after both.
        "undo" => ON + 1,
        _ => return None,
    };
    let (repeats, tries) = parts.next()?.split_once('.')?;
    Some((
        attempt.parse().ok()?,
        started.parse().ok()?,
        repeats.parse().ok()?,
        what,
        tries.parse().ok()?,
    ))
}
