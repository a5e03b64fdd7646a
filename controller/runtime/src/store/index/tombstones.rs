//! Tombstones of deleted objects.
//!
//! Keeps the UIDs of the latest objects that a watch has reported as deleted. The response to a write may
//! arrive after the deletion and would otherwise restore the object, because a watch reports a deletion only
//! once. The size is bounded.

use std::collections::{BTreeSet, VecDeque};

/// Number of UIDs kept: more than are deleted during one API call in the largest failure.
const REMEMBERED: usize = 1024;

/// UIDs of the latest deleted objects.
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

    /// Whether the object with this UID was deleted.
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
