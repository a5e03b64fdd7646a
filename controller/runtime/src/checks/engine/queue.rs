//! Members of checks, by the keys of the index.

use rackhand_core::checks::dispatch;
#[cfg(test)]
pub(in crate::checks) use rackhand_core::checks::dispatch::IN_FLIGHT;

use crate::store::object::Key;

/// A member of a check.
pub(in crate::checks) type Item = dispatch::Item<Key>;

/// The key of the object behind a member.
pub(in crate::checks) trait MemberKey {
    /// The key of the object, which is in the namespace of the check.
    fn key(&self) -> Key;
}

impl MemberKey for Item {
    fn key(&self) -> Key {
        Key::new(&self.check.namespace, &*self.member)
    }
}
