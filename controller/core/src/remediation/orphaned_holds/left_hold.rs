//! A hold at an agent whose remediation has ended, or is gone with a restore of etcd.
//!
//! Invariant: the hold is released only when outlets that were switched off for the remediation are on again
//! (F9). The host itself is not switched on: its desired power state is unknown.

use super::super::{EntryProgress, JournalEntry, outdated::outlets_left_off};

/// What is done about the hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeftHoldAction {
    /// An operation runs; its end is awaited.
    Wait,
    /// Begins to switch the outlets on.
    SwitchOutletsOn {
        /// Id of the operation.
        id: String,
        /// The host whose outlets were switched off. The hold may be on another one that they feed too.
        host: String,
    },
    /// Releases the hold: nothing else of the remediation is left.
    Release,
}

/// Whether no remediation needs a hold at an agent. `has_finalizer`: whether the remediation that it is for has our
/// finalizer, which it has from before its first power-off until its end; `None` if there is no such remediation.
/// A hold of an unknown owner is kept unless the agent reports that it belongs to this election, because one agent
/// may serve several management clusters.
pub fn is_left(has_finalizer: Option<bool>, is_ours: Option<bool>) -> bool {
    match has_finalizer {
        Some(has_finalizer) => !has_finalizer,
        None => is_ours == Some(true),
    }
}

/// Decides about a hold that was left. `uid`: that of the remediation; `journals`: what the agents of the rack
/// have of it, each with the newest entry first; `has_outlets`: whether an inventory names outlets of a host.
pub fn left_hold(
    uid: &str,
    journals: &[Vec<JournalEntry>],
    has_outlets: impl Fn(&str) -> bool,
) -> LeftHoldAction {
    let entries = || journals.iter().flatten();
    if entries().any(|entry| entry.progress == EntryProgress::Running) {
        return LeftHoldAction::Wait;
    }
    let prefix = format!("{uid}/left/outlets-on/");
    let tries = || entries().filter_map(|e| Some((e, e.id.strip_prefix(&prefix)?)));
    let are_on = tries().any(|(entry, _)| entry.progress == EntryProgress::Confirmed);
    let mut left_off = journals.iter().filter_map(|j| outlets_left_off(uid, j));
    let host = match left_off.next() {
        Some((entry, _)) if !are_on && has_outlets(&entry.host) => entry.host.clone(),
        _ => return LeftHoldAction::Release,
    };
    let numbers = tries().filter_map(|(_, number)| number.parse::<u32>().ok());
    let next = numbers.max().map_or(0, |last| last.saturating_add(1));
    LeftHoldAction::SwitchOutletsOn {
        id: format!("{prefix}{next}"),
        host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_only_own_holds_of_ended_remediations_are_left() {
        let (runs, ended, deleted) = (Some(true), Some(false), None);
        for (owner, is_ours, left) in [
            (runs, Some(true), false),
            (runs, None, false),
            (ended, Some(true), true),
            (ended, None, true),
            (deleted, Some(true), true),
            (deleted, None, false),
            (deleted, Some(false), false),
        ] {
            assert_eq!(is_left(owner, is_ours), left, "{owner:?} {is_ours:?}");
        }
    }

    const UID: &str = "r1";
    const HOST: &str = "host-7";

    fn entry(what: &str, progress: EntryProgress) -> JournalEntry {
        JournalEntry {
            id: format!("{UID}/{what}"),
            host: HOST.into(),
            is_off: what.contains("off/"),
            is_release: what.starts_with("release"),
            progress,
        }
    }

    fn decide(entries: &[(&str, EntryProgress)]) -> LeftHoldAction {
        let entries = entries
            .iter()
            .map(|(what, progress)| entry(what, *progress));
        left_hold(UID, &[Vec::new(), entries.collect()], |host| host == HOST)
    }

    #[test]
    fn f9_hold_that_is_left_is_released_only_with_its_outlets_on() {
        use EntryProgress::{Confirmed, Ended, Running};
        let release = LeftHoldAction::Release;
        let on = |n: u32| LeftHoldAction::SwitchOutletsOn {
            id: format!("r1/left/outlets-on/{n}"),
            host: HOST.into(),
        };
        let bmc = ("1@5/off/0.0", Ended);
        let cut = ("1@5/outlets-off/0.1", Confirmed);
        let back = ("1@5/outlets-on/0.0", Confirmed);
        let first = ("left/outlets-on/0", Ended);
        for (newest_first, expected) in [
            (vec![], release.clone()),
            (vec![bmc], release.clone()),
            (vec![("1@5/off/0.0", Running)], LeftHoldAction::Wait),
            (vec![cut, bmc], on(0)),
            // The BMC was tried again.
            (vec![("1@5/off/0.2", Ended), cut, bmc], on(0)),
            (vec![("1@5/outlets-off/0.1", Ended), bmc], on(0)),
            // Its answer is not known, so it may not have worked.
            (vec![("1@5/outlets-on/0.0", Ended), cut, bmc], on(0)),
            (vec![("1@5/on/0.1", Ended), back, cut, bmc], release.clone()),
            (vec![("release/7", Ended), cut, bmc], release.clone()),
            (
                vec![("left/outlets-on/0", Running), cut],
                LeftHoldAction::Wait,
            ),
            (vec![first, cut], on(1)),
            (
                vec![("left/outlets-on/1", Confirmed), first, cut],
                release.clone(),
            ),
        ] {
            assert_eq!(decide(&newest_first), expected, "{newest_first:?}");
        }
        // No inventory names them any more: whoever removed them answers for them.
        let cut = vec![entry("1@5/outlets-off/0.1", Confirmed)];
        assert_eq!(left_hold(UID, &[cut], |_| false), release);
    }
}
