//! What this process remembers of each maintenance. A new leader reads or does it again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rackhand_core::{maintenance::LeaseMark, remediation::HostRef};

use super::resolve::Subject;

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
    /// The host as its remediation has recorded it.
    pub(super) host: Option<HostRef>,
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
