//! The queue of the engine, by the keys of its checks and this process's clock.

use std::time::Instant;

use rackhand_core::dispatch;
#[cfg(test)]
pub(super) use rackhand_core::dispatch::IN_FLIGHT;

use crate::store::object::Key;

/// Members whose turn it is or will be.
pub(super) type Queue = dispatch::Queue<Key, Instant>;

/// A member of a check.
pub(super) type Item = dispatch::Item<Key>;

/// The object that a member is.
pub(super) trait MemberKey {
    /// Its key: a member is in the namespace of its check.
    fn key(&self) -> Key;
}

impl MemberKey for Item {
    fn key(&self) -> Key {
        Key::new(&self.check.namespace, &*self.member)
    }
}
