//! What the API server serves and permits now: some of it may be gone for a while.

use std::{collections::BTreeMap, time::Duration};

use super::resource::Resource;
use crate::kernel::World;

/// Something that an API server does not do for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restriction {
    /// Nobody has rights on a kind. Watches that have begun go on until they end.
    Denied(Resource),
    /// A version of a group is not served.
    Dropped(&'static str, &'static str),
    /// The CRD of a kind is not established yet.
    NotEstablished(Resource),
    /// The API server accepts requests before it lists its CRDs.
    Starting,
}

/// The restrictions that hold now, each with the time of its beginning.
#[derive(Debug, Default)]
pub(crate) struct Serving(BTreeMap<Restriction, Duration>);

// === impl Restriction ===

impl Restriction {
    fn hides(self, resource: &Resource) -> bool {
        match self {
            Self::Denied(_) => false,
            Self::Dropped(group, version) => resource.group == group && resource.version == version,
            Self::NotEstablished(late) => late == *resource,
            Self::Starting => resource.has_generation(),
        }
    }

    fn denies(self, resource: &Resource) -> bool {
        self == Self::Denied(*resource)
    }
}

// === impl Serving ===

impl Serving {
    /// Whether the path of a kind is served.
    pub(super) fn serves(&self, resource: &Resource) -> bool {
        !self.0.keys().any(|restriction| restriction.hides(resource))
    }

    /// Whether a client has rights on a kind.
    pub(super) fn permits(&self, resource: &Resource) -> bool {
        !self
            .0
            .keys()
            .any(|restriction| restriction.denies(resource))
    }

    /// The answer at `/readyz`.
    pub(super) fn is_ready(&self) -> bool {
        !self.0.contains_key(&Restriction::Starting)
    }

    /// Since when a kind cannot be read.
    pub(crate) fn unreadable_since(&self, resource: &Resource) -> Option<Duration> {
        let hidden =
            |restriction: &Restriction| restriction.hides(resource) || restriction.denies(resource);
        let found = self.0.iter().filter(|(restriction, _)| hidden(restriction));
        found.map(|(_, since)| *since).min()
    }
}

impl World {
    /// Begins a restriction. Watches at paths that are not served any more end.
    pub(crate) fn restrict(&mut self, restriction: Restriction) {
        let now = self.now();
        self.api.serving.0.entry(restriction).or_insert(now);
        self.break_watches_of(|resource| restriction.hides(resource));
    }

    /// Ends a restriction.
    pub(crate) fn lift(&mut self, restriction: Restriction) {
        self.api.serving.0.remove(&restriction);
    }

    /// Ends all restrictions.
    pub(crate) fn lift_all(&mut self) {
        self.api.serving.0.clear();
    }
}
