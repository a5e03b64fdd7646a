//! Which objects are gone for good.
//!
//! Owns the UIDs that a watch has last seen deleted: the answer to a write of ours may come after
//! that, and no watch tells of the end a second time. Must not grow with the life of the process.

use std::collections::{BTreeSet, VecDeque};

/// How many are remembered: a call that takes as long as it may, in the worst of storms.
const REMEMBERED: usize = 1024;

/// The last objects that were deleted.
#[derive(Default)]
pub(crate) struct Tombstones {
    uids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Tombstones {
    pub(crate) fn put(&mut self, uid: &str) {
        if !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// Whether this object was deleted.
    pub(crate) fn holds(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.uids.contains(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_keep_only_the_latest_uids() {
        let mut gone = Tombstones::default();
        for i in 0..=REMEMBERED {
            gone.put(&i.to_string());
            gone.put(&i.to_string());
        }
        assert!(!gone.holds(Some("0")) && gone.holds(Some("1")));
        assert!(gone.holds(Some(&REMEMBERED.to_string())));
        assert!(!gone.holds(None));
        assert_eq!(
            (gone.uids.len(), gone.order.len()),
            (REMEMBERED, REMEMBERED)
        );
    }
}
