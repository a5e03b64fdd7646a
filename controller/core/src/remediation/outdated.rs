//! What the agents have done for a remediation that its stored state does not say.
//!
//! After a restore of etcd from a backup, objects are as they were at that time, and the hosts are not. The
//! journals of the agents tell: a host that was switched on again for a remediation is not switched off on
//! the word of a state from before that (F11, F12), and outlets that were switched off are not forgotten (F9).

use jiff::Timestamp;

use super::{State, Step};

/// What an agent did for a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JournalEntry {
    /// Its id; of an operation, see [`super::operation_id`].
    pub id: String,
    /// Name of the host at the agent.
    pub host: String,
    /// Whether it leaves the host off; otherwise the host was switched on, or its hold was released.
    pub is_off: bool,
    /// It is a release, and no operation.
    pub is_release: bool,
    /// How far it has come.
    pub progress: EntryProgress,
}

/// How far an operation in a journal has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryProgress {
    /// It has no outcome yet.
    Running,
    /// The wanted power state was confirmed.
    Confirmed,
    /// It has ended otherwise.
    Ended,
}

/// What the journals of the agents have of a remediation beyond the stored state that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct JournalFacts {
    /// The state is older than a journal, see [`is_outdated`].
    pub is_outdated: bool,
    /// Number of the latest attempt that switched outlets and may have left them off.
    pub outlets_off_in: Option<u32>,
}

impl JournalFacts {
    /// From all journals of a rack. `state`, and the entries of each: as for [`is_outdated`].
    pub fn of(uid: &str, state: Option<&State>, journals: &[Vec<JournalEntry>]) -> Self {
        let outlets = journals.iter().filter_map(|j| outlets_left_off(uid, j));
        Self {
            is_outdated: journals.iter().any(|j| is_outdated(uid, state, j)),
            outlets_off_in: outlets.map(|(_, attempt)| attempt).max(),
        }
    }
}

/// The newest operation of the outlets in a journal, whose newest entry comes first, with its attempt, if they may
/// be off since. That they are on again is certain only after what follows it: a power-on by the BMC, or the release.
pub(super) fn outlets_left_off<'a>(
    uid: &str,
    entries: &'a [JournalEntry],
) -> Option<(&'a JournalEntry, u32)> {
    let mut newest = entries.iter().take_while(|entry| !entry.is_release);
    newest.find_map(|entry| {
        let ((attempt, _), what, ..) = position(uid, &entry.id)?;
        match (is_of_outlets(&entry.id), what) {
            (true, _) => Some(Some((entry, attempt))),
            (false, OFF) => None,
            (false, _) => Some(None),
        }
    })?
}

/// An attempt: its number, and when it began. An attempt that keeps a host off for good has the number of the
/// one before it.
type AttemptKey = (u32, i64);

/// Where an operation stands in the course of its remediation: attempt, off before on, repetitions, try.
type Position = (AttemptKey, u8, u32, u32);

const SOFT_OFF: u8 = 1;
const OFF: u8 = 2;
const ON: u8 = 3;

/// Whether the state is older than the journal of one agent. `state`: as stored; `None`: the remediation has
/// none. `entries`: what that journal has of this remediation, the newest first.
///
/// A state is written before its operation is begun, so a journal is ahead of it only if the state was set
/// back. While the newest entry is a power-off, the host is kept off for this remediation, and going on is
/// right.
///
/// A state that was set back may have gone on before the journal could be read. So its repetitions are not
/// compared with those of another step, and an attempt that began anew is recognised.
pub fn is_outdated(uid: &str, state: Option<&State>, entries: &[JournalEntry]) -> bool {
    let Some(newest) = entries.first().filter(|newest| !newest.is_off) else {
        return false;
    };
    let Some(state) = state else {
        // It was set back to before its first state.
        return true;
    };
    let Some(reached) = reached(state) else {
        return false;
    };
    let (attempt, what, ..) = reached;
    let positions = || entries.iter().filter_map(|entry| position(uid, &entry.id));
    if !positions().any(|p| p.0 == attempt) && positions().any(|p| began_before(state, p.0)) {
        return true;
    }
    if newest.is_release && what < ON {
        // Released only after the last power-off of the attempt.
        return positions().any(|p| p.0 >= attempt);
    }
    positions().any(|p| p > reached)
}

/// Whether the state does not know this attempt, although it has the number of the current one: an attempt
/// begins once.
fn began_before(state: &State, (number, started): AttemptKey) -> bool {
    let is_same = |known: Timestamp| known.as_second() == started;
    let mut recorded = state.attempts.iter();
    number == state.attempt.number
        && !is_same(state.attempt.started)
        && !recorded.any(|known| known.number == number && is_same(known.started))
}

/// The last position that a remediation in this state can have reached; `None` if it only ends from here.
fn reached(s: &State) -> Option<Position> {
    let (what, tries) = match s.step {
        Step::Pending | Step::Retrying | Step::Evicting | Step::Evicted | Step::Holding => (0, 0),
        Step::ShuttingDown => (SOFT_OFF, s.tries),
        Step::PoweringOff | Step::AwaitingConfirmation => (OFF, s.tries),
        Step::ConfirmingOff | Step::Tainting | Step::Draining | Step::Fenced => (OFF, u32::MAX),
        Step::PoweringOn => (ON, s.tries),
        Step::Booting | Step::Restoring => (ON, u32::MAX),
        Step::Aborting | Step::Succeeded | Step::Escalated | Step::Blocked => return None,
    };
    let repeats = s
        .power_off_repeats
        .saturating_add(s.attempt.power_on_repeats);
    let attempt = (s.attempt.number, s.attempt.started.as_second());
    Some((attempt, what, repeats, tries))
}

/// Whether the id is that of an operation of the outlets.
fn is_of_outlets(id: &str) -> bool {
    id.contains("/outlets-")
}

/// Parses the id of an operation of this remediation; `None`: it is of another kind.
fn position(uid: &str, id: &str) -> Option<Position> {
    let mut parts = id.strip_prefix(uid)?.strip_prefix('/')?.split('/');
    let (attempt, started) = parts.next()?.split_once('@')?;
    let what = match parts.next()? {
        "soft-off" => SOFT_OFF,
        "off" | "outlets-off" => OFF,
        "on" | "outlets-on" => ON,
        // Begun while aborting, which is after both.
        "undo" | "outlets-undo" => ON + 1,
        _ => return None,
    };
    let (repeats, tries) = parts.next()?.split_once('.')?;
    Some((
        (attempt.parse().ok()?, started.parse().ok()?),
        what,
        repeats.parse().ok()?,
        tries.parse().ok()?,
    ))
}
