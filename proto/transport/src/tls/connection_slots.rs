//! Limits of open connections per caller.
//!
//! Plain data. Controllers have their own limit, so that operators cannot exclude them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::identity::Identity;

/// Open connections.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    /// Maximum for all operators together.
    total: usize,
    /// Maximum for one identity.
    each: usize,
    taken: Mutex<HashMap<Identity, usize>>,
}

impl ConnectionSlots {
    pub(super) fn new(total: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            each,
            taken: Mutex::default(),
        })
    }

    /// Takes a slot for one more connection; `None` if this identity, or all operators together,
    /// are at their limit.
    pub(super) fn take(self: &Arc<Self>, identity: &Identity) -> Option<ConnectionSlot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(identity).copied().unwrap_or(0);
        let counts = taken
            .iter()
            .filter(|(who, _)| **who != Identity::Controller);
        let all: usize = counts.map(|(_, count)| count).sum();
        let is_full = *identity != Identity::Controller && all >= self.total;
        if own >= self.each || is_full {
            return None;
        }
        taken.insert(identity.clone(), own + 1);
        Some(ConnectionSlot {
            places: self.clone(),
            identity: identity.clone(),
        })
    }
}

/// A taken slot; dropping it frees it.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    identity: Identity,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self
            .places
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.identity) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str) -> Identity {
        Identity::Operator(name.to_owned())
    }

    #[test]
    fn slots_are_limited_per_identity() {
        let places = ConnectionSlots::new(5, 2);
        let ann: Vec<_> = (0..9)
            .filter_map(|_| places.take(&operator("ann")))
            .collect();
        assert_eq!(ann.len(), 2);
        assert!(places.take(&operator("bob")).is_some());
        drop(ann);
        assert!(places.take(&operator("ann")).is_some(), "given back");
        assert_eq!(places.taken.lock().unwrap().len(), 0, "no entry is left");
    }

    #[test]
    fn controllers_have_slots_while_operators_fill_theirs() {
        let places = ConnectionSlots::new(3, 2);
        let crowd: Vec<_> = ["a", "a", "b", "b", "c"]
            .iter()
            .filter_map(|name| places.take(&operator(name)))
            .collect();
        assert_eq!(crowd.len(), 3);
        assert!(places.take(&operator("c")).is_none());
        let controllers: Vec<_> = (0..9)
            .filter_map(|_| places.take(&Identity::Controller))
            .collect();
        assert_eq!(controllers.len(), 2);
        drop(crowd);
        assert!(places.take(&operator("c")).is_some());
    }
}
