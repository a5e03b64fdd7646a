//! What this process remembers of each maintenance. A new leader reads or does it again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rackhand_core::{
    maintenance::{LeaseMark, Mark},
    remediation::HostRef,
};

use super::resolve::Subject;
use crate::store::api::ApiError;

/// Pause before a mark is tried again that was refused.
const REFUSED_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// What is remembered of one maintenance.
#[derive(Default)]
pub(super) struct Memory {
    /// When medik8s' Lease was read or written last, and what it showed.
    pub(super) lease: Option<(Timestamp, LeaseMark)>,
    /// When the locator LED was lit last.
    pub(super) lit: Option<Timestamp>,
    /// Whether the locator LED was put out since.
    pub(super) out: bool,
    /// What the spec was resolved to, and when.
    pub(super) resolved: Option<(Timestamp, Result<Subject, String>)>,
    /// Marks that could not be set when that was tried last, by the API server's answer, and when.
    pub(super) refused: BTreeMap<Mark, (Timestamp, String)>,
    /// Pods that its remediation has evicted.
    pub(super) evicted: Option<u32>,
    /// The host as its remediation has recorded it.
    pub(super) host: Option<HostRef>,
}

impl Memory {
    /// Whether setting a mark was refused so recently that it is not tried again yet.
    pub(super) fn is_refused(&self, mark: Mark, now: Timestamp) -> bool {
        let refused = self.refused.get(&mark);
        refused.is_some_and(|(at, _)| now.duration_since(*at) < REFUSED_AGAIN)
    }

    /// Remembers what came of setting a mark.
    pub(super) fn tried(&mut self, mark: Mark, done: &Result<(), ApiError>, now: Timestamp) {
        match done {
            Ok(()) if self.is_refused(mark, now) => {}
            Ok(()) => drop(self.refused.remove(&mark)),
            Err(error) => drop(self.refused.insert(mark, (now, error.to_string()))),
        }
    }

    /// Why a mark that health checks heed could not be set. A locator LED is none of those.
    pub(super) fn mark_refused(&self) -> Option<String> {
        let mut heeded = (self.refused.iter()).filter(|(mark, _)| **mark != Mark::LocatorLED);
        heeded.next().map(|(_, (_, why))| why.clone())
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
