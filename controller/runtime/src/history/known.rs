//! What this process knows of the HostHistory objects, so that a write rarely needs a read before it.
//!
//! Nothing rests on it: a write fails where it is wrong, and the object is read then.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{BuildHasher, RandomState},
};

use kube::ResourceExt;
use rackhand_api::kinds::host_history::HostHistory;

/// Most objects that are kept, of hosts whose remediations go on.
const KEPT: usize = 1_000;
/// Most remediations in an object that is kept. That of a host which fails again and again is long, and is read.
const KEPT_REMEDIATIONS: usize = 3;

/// What is known of an object before it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Before {
    /// As this process has written it last.
    Kept(Box<HostHistory>),
    /// There was none when all were listed, and this process has written none.
    Absent,
    /// It is read.
    Unknown,
}

/// The objects that are known.
#[derive(Default)]
pub(super) struct Known {
    /// Hashes of the names of those that were listed or written: a name is long, and there is one for each host.
    names: HashSet<u64>,
    hasher: RandomState,
    /// Whether all were listed.
    is_listed: bool,
    kept: BTreeMap<String, HostHistory>,
}

impl Known {
    /// Records that an object of this name was there.
    pub(super) fn seen(&mut self, name: &str) {
        self.names.insert(self.hasher.hash_one(name));
    }

    /// Records that every object was seen that was there when they were listed.
    pub(super) fn listed(&mut self) {
        self.is_listed = true;
    }

    /// What is known of an object that is about to be written. It is no longer kept.
    pub(super) fn before(&mut self, name: &str) -> Before {
        if let Some(object) = self.kept.remove(name) {
            return Before::Kept(Box::new(object));
        }
        let is_seen = self.names.contains(&self.hasher.hash_one(name));
        match self.is_listed && !is_seen {
            true => Before::Absent,
            false => Before::Unknown,
        }
    }

    /// Records what was written. `goes_on`: a remediation of this host will be written again.
    pub(super) fn written(&mut self, mut object: HostHistory, goes_on: bool) {
        let name = object.name_any();
        self.seen(&name);
        let remediations = object.status.as_ref().map_or(0, |s| s.remediations.len());
        if goes_on && remediations <= KEPT_REMEDIATIONS && self.kept.len() < KEPT {
            object.metadata.managed_fields = None;
            self.kept.insert(name, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use rackhand_api::kinds::host_history::{HostHistorySpec, HostHistoryStatus};

    use super::*;

    fn object(name: &str) -> HostHistory {
        let spec = HostHistorySpec {
            rack: "r".into(),
            host: "h".into(),
        };
        HostHistory::new(name, spec)
    }

    #[test]
    fn object_that_was_not_listed_is_created_without_a_read() {
        let mut known = Known::default();
        known.seen("a");
        assert_eq!(known.before("b"), Before::Unknown, "the list may go on");
        known.listed();
        assert_eq!(known.before("a"), Before::Unknown);
        assert_eq!(known.before("b"), Before::Absent);
        known.written(object("b"), false);
        assert_eq!(known.before("b"), Before::Unknown);
    }

    #[test]
    fn object_that_is_written_again_is_kept_once_and_bounded() {
        let mut known = Known::default();
        known.written(object("a"), true);
        assert!(matches!(known.before("a"), Before::Kept(kept) if *kept == object("a")));
        assert_eq!(known.before("a"), Before::Unknown, "the write may fail");

        let mut long = object("long");
        let entry = crate::history::queue::tests::entry("u", None);
        long.status = Some(HostHistoryStatus {
            remediations: vec![entry; KEPT_REMEDIATIONS + 1],
            ..HostHistoryStatus::default()
        });
        known.written(long, true);
        assert_eq!(known.before("long"), Before::Unknown);

        for n in 0..=KEPT {
            known.written(object(&format!("n{n}")), true);
        }
        assert_eq!(known.kept.len(), KEPT);
    }
}
