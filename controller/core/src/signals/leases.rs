//! The Leases of the Nodes of one cluster, as far as signals need them.

use std::collections::BTreeMap;

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

/// The Leases of the Nodes of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClusterLeases {
    leases: BTreeMap<String, ObservedLease>,
    /// The times of all, so that each of many Nodes is compared with the others without reading all of them.
    times: Times,
}

/// The times of the Leases of a cluster, each in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Times {
    renewed: Vec<Timestamp>,
    valid_until: Vec<Timestamp>,
}

impl Times {
    fn add(&mut self, facts: &LeaseFacts) {
        for (times, time) in self.of(facts) {
            let place = times.partition_point(|other| *other < time);
            times.insert(place, time);
        }
    }

    fn remove(&mut self, facts: &LeaseFacts) {
        for (times, time) in self.of(facts) {
            if let Ok(place) = times.binary_search(&time) {
                times.remove(place);
            }
        }
    }

    fn of(&mut self, facts: &LeaseFacts) -> [(&mut Vec<Timestamp>, Timestamp); 2] {
        [
            (&mut self.renewed, facts.unchanged_since),
            (&mut self.valid_until, valid_until(facts)),
        ]
    }

    fn all<'a>(leases: impl Iterator<Item = &'a ObservedLease>) -> Self {
        let mut times = Self::default();
        for lease in leases {
            times.renewed.push(lease.facts.unchanged_since);
            times.valid_until.push(valid_until(&lease.facts));
        }
        times.renewed.sort_unstable();
        times.valid_until.sort_unstable();
        times
    }
}

fn valid_until(facts: &LeaseFacts) -> Timestamp {
    after(facts.unchanged_since, facts.duration)
}

impl ClusterLeases {
    /// Records a read of one Lease that began at `asked`.
    pub fn record(&mut self, node: &str, facts: LeaseFacts, asked: Timestamp) {
        let before = self.leases.remove(node);
        if let Some(before) = &before {
            self.times.remove(&before.facts);
        }
        self.times.add(&facts);
        let observed = observed(before.as_ref(), facts, asked);
        self.leases.insert(node.to_owned(), observed);
    }

    /// Records a list of all Leases that began at `asked`. Those of Nodes that it does not have are forgotten.
    pub fn record_all(
        &mut self,
        listed: impl IntoIterator<Item = (String, LeaseFacts)>,
        asked: Timestamp,
    ) {
        let before = std::mem::take(&mut self.leases);
        let listed = listed.into_iter().map(|(node, facts)| {
            let observed = observed(before.get(&node), facts, asked);
            (node, observed)
        });
        self.leases = listed.collect();
        self.times = Times::all(self.leases.values());
    }

    /// The Lease of a Node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&ObservedLease> {
        self.leases.get(node)
    }

    /// The Leases of the other Nodes, counted for this one at the time that its own was read. A Lease that was silent for
    /// longer than its duration before this one was renewed last shows nothing about the time since.
    #[must_use]
    pub fn others(&self, node: &str) -> OtherLeases {
        let Some(lease) = self.of(node) else {
            return OtherLeases::default();
        };
        let since = lease.facts.unchanged_since;
        let Times {
            renewed,
            valid_until,
        } = &self.times;
        let of_all = |times: &[Timestamp], before: usize| times.len().saturating_sub(before);
        let valid = of_all(valid_until, valid_until.partition_point(|at| *at < since));
        OtherLeases {
            // Its own is among them.
            expected: valid.saturating_sub(1),
            renewed: of_all(renewed, renewed.partition_point(|at| *at <= since)),
        }
    }
}

fn observed(before: Option<&ObservedLease>, facts: LeaseFacts, asked: Timestamp) -> ObservedLease {
    let has_moved =
        before.is_some_and(|seen| seen.has_moved || seen.facts.renewed != facts.renewed);
    ObservedLease {
        facts,
        read: asked,
        has_moved,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// What is counted, Lease by Lease.
    fn counted(leases: &BTreeMap<String, ObservedLease>, node: &str) -> OtherLeases {
        let Some(lease) = leases.get(node) else {
            return OtherLeases::default();
        };
        let since = lease.facts.unchanged_since;
        let others = leases.iter().filter(|(name, _)| *name != node);
        let valid: Vec<_> = others
            .filter(|(_, other)| valid_until(&other.facts) >= since)
            .collect();
        let renewed = valid
            .iter()
            .filter(|(_, other)| other.facts.unchanged_since > since);
        OtherLeases {
            expected: valid.len(),
            renewed: renewed.count(),
        }
    }

    fn facts((since, duration): (i64, u64)) -> LeaseFacts {
        LeaseFacts {
            renewed: since.to_string(),
            unchanged_since: Timestamp::from_second(since).unwrap(),
            duration: Duration::from_secs(duration),
        }
    }

    proptest! {
        #[test]
        fn others_are_counted_as_lease_by_lease(
            reads in prop::collection::vec((0_u8..6, (0_i64..9, 0_u64..4)), 0..20),
            list in prop::option::of(prop::collection::btree_map(0_u8..6, (0_i64..9, 0_u64..4), 0..6)),
            later in prop::collection::vec((0_u8..6, (0_i64..9, 0_u64..4)), 0..5),
        ) {
            let mut leases = ClusterLeases::default();
            let asked = Timestamp::from_second(100).unwrap();
            for (node, read) in reads {
                leases.record(&node.to_string(), facts(read), asked);
            }
            if let Some(list) = list {
                let listed = list.iter().map(|(node, read)| (node.to_string(), facts(*read)));
                leases.record_all(listed, asked);
                prop_assert_eq!(leases.leases.len(), list.len());
            }
            for (node, read) in later {
                leases.record(&node.to_string(), facts(read), asked);
            }
            for node in 0..6_u8 {
                let node = node.to_string();
                prop_assert_eq!(leases.others(&node), counted(&leases.leases, &node));
            }
        }
    }
}
