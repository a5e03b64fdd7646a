//! The Leases of the Nodes of one cluster, as far as signals need them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::after;
use crate::remediation::{LeaseFacts, renewal_limit};

/// The Lease of a Node, and when it was read last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObservedLease {
    /// The Lease.
    pub facts: LeaseFacts,
    /// Before which time it was read last: a renewal after that is not known yet.
    pub read: Timestamp,
    /// Whether this process has seen it change: otherwise `unchanged_since` is the time of the first read.
    pub has_moved: bool,
}

impl ObservedLease {
    /// Whether it is known to have been renewed after `at`.
    #[must_use]
    pub fn is_renewed_after(&self, at: Timestamp) -> bool {
        self.has_moved && self.facts.unchanged_since > at && self.read > at
    }

    /// Whether it was older at `at` than its renewal interval and 2 s, by a read that began no earlier than that.
    #[must_use]
    pub fn is_silent_at(&self, at: Timestamp) -> bool {
        self.read >= at && self.silent_from() <= at
    }

    /// From when on it counts as silent, if it is not renewed.
    #[must_use]
    pub fn silent_from(&self) -> Timestamp {
        after(
            self.facts.unchanged_since,
            renewal_limit(self.facts.duration),
        )
    }
}

/// The Leases of the other Nodes of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OtherLeases {
    /// Nodes whose Lease has been renewed within its duration, this Node's silence apart: those of which a renewal
    /// can be expected.
    pub expected: usize,
    /// Those of them that have renewed it after this Node has for the last time.
    pub renewed: usize,
}

impl OtherLeases {
    /// Whether most of the Leases of which a renewal can be expected were renewed. Otherwise the API server, or the
    /// network to it, is the likelier cause of a Lease that is not.
    #[must_use]
    pub fn are_renewed(self) -> bool {
        self.renewed > 0 && self.renewed * 2 > self.expected
    }
}

/// Counts the Leases of the other Nodes of a cluster, at the time that `lease` was read. A Lease that was silent for
/// longer than its duration before this one was renewed last shows nothing about the time since.
fn other_leases<'a>(
    lease: &ObservedLease,
    others: impl IntoIterator<Item = &'a ObservedLease>,
) -> OtherLeases {
    let since = lease.facts.unchanged_since;
    let mut counted = OtherLeases::default();
    for other in others {
        let valid_until = after(other.facts.unchanged_since, other.facts.duration);
        if valid_until < since {
            continue;
        }
        counted.expected += 1;
        counted.renewed += usize::from(other.facts.unchanged_since > since);
    }
    counted
}

/// The Leases of the Nodes of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClusterLeases {
    leases: BTreeMap<String, ObservedLease>,
}

impl ClusterLeases {
    /// Records a read that began at `asked`.
    pub fn record(&mut self, node: &str, facts: LeaseFacts, asked: Timestamp) {
        let before = self.leases.get(node);
        let has_moved =
            before.is_some_and(|seen| seen.has_moved || seen.facts.renewed != facts.renewed);
        let observed = ObservedLease {
            facts,
            read: asked,
            has_moved,
        };
        self.leases.insert(node.to_owned(), observed);
    }

    /// Forgets the Leases of Nodes that a whole list did not have.
    pub fn retain(&mut self, listed: &BTreeSet<String>) {
        self.leases.retain(|node, _| listed.contains(node));
    }

    /// The Lease of a Node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&ObservedLease> {
        self.leases.get(node)
    }

    /// The Leases of the other Nodes, counted for this one.
    #[must_use]
    pub fn others(&self, node: &str) -> OtherLeases {
        let Some(lease) = self.of(node) else {
            return OtherLeases::default();
        };
        let others = self.leases.iter().filter(|(name, _)| *name != node);
        other_leases(lease, others.map(|(_, lease)| lease))
    }
}
