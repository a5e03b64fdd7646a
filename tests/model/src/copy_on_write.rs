//! Parts of a world that its copies share until one of them changes.

use std::{
    hash::{Hash, Hasher},
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A part of a world. A copy of a world costs little, because an action changes few of its parts.
#[derive(Debug, Clone, Default)]
pub struct CopyOnWrite<T>(Arc<T>);

impl<T> From<T> for CopyOnWrite<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for CopyOnWrite<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Eq> Eq for CopyOnWrite<T> {}

impl<T: Hash> Hash for CopyOnWrite<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
