//! What this process remembers of each maintenance. A new leader reads or does it again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rackhand_core::{
    maintenance::{FailedMarks, LeaseMark, MaintenanceWarning, Mark},
    remediation::HostRef,
};

use super::resolve::Subject;
use crate::store::api::ApiError;

/// Pause before a change of a mark is tried again that failed.
const FAILED_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// How long a failure stands if the change is not tried again. A locator LED is lit again every 80 s.
const FAILED_STANDS: SignedDuration = SignedDuration::from_secs(100);

/// What is done with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Set,
    TakeBack,
}

/// What is remembered of one maintenance.
#[derive(Default)]
pub(super) struct Memory {
    /// When medik8s' Lease was read or written last, and what it showed.
    pub(super) lease: Option<(Timestamp, LeaseMark)>,
    /// Since when medik8s' Lease cannot be read.
    pub(super) unread_since: Option<Timestamp>,
    /// UID of the Machine that is gone by a live read.
    pub(super) gone_machine: Option<String>,
    /// When it was read last whether the Machine is gone.
    pub(super) machine_read: Option<Timestamp>,
    /// When the locator LED was lit last.
    pub(super) lit: Option<Timestamp>,
    /// Whether the locator LED was put out since.
    pub(super) out: bool,
    /// What the spec was resolved to, and when.
    pub(super) resolved: Option<(Timestamp, Result<Subject, String>)>,
    /// Changes of marks that failed when they were tried last, when, and with which error.
    failed: BTreeMap<(Mark, Change), (Timestamp, String)>,
    /// Pods that its remediation has evicted.
    pub(super) evicted: Option<u32>,
    /// The host as its remediation has recorded it.
    pub(super) host: Option<HostRef>,
    /// The reasons of the warnings that stand, and have been sent.
    warned: BTreeSet<String>,
}

impl Memory {
    /// The warnings that are not sent yet. One that is over, and comes again, is a new one.
    pub(super) fn new_warnings<'a>(
        &mut self,
        warnings: &'a [MaintenanceWarning],
    ) -> Vec<&'a MaintenanceWarning> {
        let is_new = |w: &&MaintenanceWarning| !self.warned.contains(&w.reason);
        let new = warnings.iter().filter(is_new).collect();
        self.warned = warnings.iter().map(|w| w.reason.clone()).collect();
        new
    }

    /// Whether a change of a mark failed so recently that it is not tried again yet.
    pub(super) fn has_failed(&self, change: (Mark, Change), now: Timestamp) -> bool {
        let failed = self.failed.get(&change);
        failed.is_some_and(|(at, _)| now.duration_since(*at) < FAILED_AGAIN)
    }

    /// Remembers what came of the change of a mark that was tried.
    pub(super) fn tried(
        &mut self,
        change: (Mark, Change),
        done: &Result<(), ApiError>,
        now: Timestamp,
    ) {
        match done {
            Ok(()) => drop(self.failed.remove(&change)),
            Err(error) => drop(self.failed.insert(change, (now, error.to_string()))),
        }
    }

    /// The changes that failed when they were tried last. What was not tried for a while is not wanted any more.
    pub(super) fn failed_marks(&self, now: Timestamp) -> FailedMarks {
        let of = |wanted: Change| {
            let recent = self.failed.iter().filter(move |((_, change), (at, _))| {
                *change == wanted && now.duration_since(*at) < FAILED_STANDS
            });
            recent
                .map(|((mark, _), (_, why))| (*mark, why.clone()))
                .collect()
        };
        FailedMarks {
            set: of(Change::Set),
            take_back: of(Change::TakeBack),
        }
    }
}

/// What is remembered, by the UID of the maintenance.
#[derive(Default)]
pub(super) struct Memories(BTreeMap<String, Memory>);

impl Memories {
    pub(super) fn of(&mut self, uid: &str) -> &mut Memory {
        self.0.entry(uid.to_owned()).or_default()
    }

    /// Forgets all other maintenances.
    pub(super) fn retain<'a>(&mut self, uids: impl Iterator<Item = &'a str>) {
        let known: BTreeSet<&str> = uids.collect();
        self.0.retain(|uid, _| known.contains(uid.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_sent_once_until_it_is_over() {
        let mut memory = Memory::default();
        let one = |reason: &str| MaintenanceWarning {
            reason: reason.into(),
            message: "m".into(),
        };
        let both = [one("NodeLeaseTaken"), one("SilentHostLeftOn")];
        assert_eq!(memory.new_warnings(&both[..1]).len(), 1);
        assert_eq!(memory.new_warnings(&both), [&both[1]]);
        assert!(memory.new_warnings(&both).is_empty());
        assert!(memory.new_warnings(&[]).is_empty());
        assert_eq!(memory.new_warnings(&both).len(), 2);
    }
}
