//! The topology of hosts as their BMCs report it, for the judgement of shared causes.
//!
//! Kept in memory: a new leader reads it again within an hour. Pure except for its lock.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rackhand_core::fleet::shared_cause::{DiscoveredTopology, TopologyConflict};
use rackhand_proto::v1;

/// Lifetime of a reading. Hosts are rarely moved, and a reading takes about ten requests to the BMC.
const READ_AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// The topology of every host that was read.
#[derive(Default)]
pub(crate) struct Topologies(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// By `rack/host`.
    known: BTreeMap<String, Known>,
    /// Conflicts with annotations, by Node.
    conflicts: BTreeMap<String, TopologyConflict>,
    /// Number of changes.
    changes: u64,
}

struct Known {
    read: Timestamp,
    topology: DiscoveredTopology,
}

impl Topologies {
    /// Whether a reading of the BMC of a host is due.
    pub(crate) fn is_due(&self, name: &str, now: Timestamp) -> bool {
        let inner = self.0.lock();
        let known = inner.known.get(name);
        known.is_none_or(|known| now.duration_since(known.read) >= READ_AGAIN)
    }

    /// Stores the topology that the BMC of a host reports; `None` if it reports none.
    pub(crate) fn put(&self, name: &str, read: Option<&v1::Topology>, now: Timestamp) {
        let read = read.cloned().unwrap_or_default();
        let switches = read
            .neighbors
            .iter()
            .map(|neighbor| match neighbor.system_name.as_str() {
                "" => neighbor.chassis_id.as_str(),
                name => name,
            });
        let new = DiscoveredTopology::new(&read.rack, switches, now);
        let inner = &mut *self.0.lock();
        let before = inner.known.remove(name).map(|known| known.topology);
        let (rack, count) = before.as_ref().map_or((None, None), |known| {
            (known.rack.clone(), Some(known.switches.clone()))
        });
        let topology = match before {
            Some(before) => before.updated(new),
            None => new,
        };
        let is_same = rack == topology.rack && count.unwrap_or_default() == topology.switches;
        if !is_same {
            inner.changes += 1;
            tracing::info!(
                host = name,
                rack = topology.rack,
                switches = ?topology.switches,
                "the BMC reports where its host is"
            );
        }
        let known = Known {
            read: now,
            topology,
        };
        inner.known.insert(name.to_owned(), known);
    }

    /// Drops hosts that are no longer in the fleet.
    pub(crate) fn retain(&self, is_member: impl Fn(&str) -> bool) {
        self.0.lock().known.retain(|name, _| is_member(name));
    }

    /// What the BMC of a host reports.
    pub(crate) fn get(&self, rack: &str, host: &str) -> Option<DiscoveredTopology> {
        let inner = self.0.lock();
        let known = inner.known.get(&format!("{rack}/{host}"))?;
        (!known.topology.is_empty()).then(|| known.topology.clone())
    }

    /// A number that differs after each change.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Records whether the annotations of a Node name other switches than its BMC, and logs a new conflict.
    pub(crate) fn set_conflict(&self, node: &str, conflict: Option<TopologyConflict>) {
        let inner = &mut *self.0.lock();
        let Some(conflict) = conflict else {
            inner.conflicts.remove(node);
            return;
        };
        if inner.conflicts.get(node) != Some(&conflict) {
            tracing::warn!(node, "{conflict}");
            inner.conflicts.insert(node.to_owned(), conflict);
        }
    }

    /// The number of hosts with a topology from their BMC, and the number of hosts with a conflict.
    pub(crate) fn counts(&self) -> (i64, i64) {
        let inner = self.0.lock();
        let discovered = inner
            .known
            .values()
            .filter(|known| !known.topology.is_empty());
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        (number(discovered.count()), number(inner.conflicts.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn read(rack: &str, neighbors: &[(&str, &str)]) -> v1::Topology {
        let neighbors = neighbors.iter().map(|(name, chassis)| v1::Neighbor {
            system_name: (*name).to_owned(),
            chassis_id: (*chassis).to_owned(),
            ..v1::Neighbor::default()
        });
        v1::Topology {
            rack: rack.to_owned(),
            neighbors: neighbors.collect(),
        }
    }

    #[test]
    fn switch_is_known_by_its_name_or_else_by_its_chassis() {
        let all = Topologies::default();
        assert!(all.is_due("r/h", at(0)));
        let reading = read("12", &[("tor-1", "00:01"), ("", "00:02")]);
        all.put("r/h", Some(&reading), at(0));
        assert!(!all.is_due("r/h", at(3599)) && all.is_due("r/h", at(3600)));
        let known = all.get("r", "h").unwrap();
        assert_eq!(known.rack.as_deref(), Some("12"));
        let switches: Vec<&str> = known.switches.iter().map(String::as_str).collect();
        assert_eq!(switches, ["00:02", "tor-1"]);
        assert_eq!((all.changes(), all.counts()), (1, (1, 0)));
        all.put("r/h", Some(&reading), at(10));
        assert_eq!(all.changes(), 1, "nothing has changed");
    }

    #[test]
    fn bmc_without_topology_is_not_asked_at_each_turn() {
        let all = Topologies::default();
        all.put("r/h", None, at(0));
        assert!(!all.is_due("r/h", at(10)));
        assert_eq!(all.get("r", "h"), None);
        assert_eq!((all.changes(), all.counts()), (0, (0, 0)));
        all.retain(|name| name != "r/h");
        assert!(all.is_due("r/h", at(10)));
    }

    #[test]
    fn conflict_is_counted_until_it_is_settled() {
        let all = Topologies::default();
        let conflict = TopologyConflict {
            explicit: ["a".to_owned()].into(),
            discovered: ["b".to_owned()].into(),
        };
        all.set_conflict("local/n", Some(conflict.clone()));
        all.set_conflict("local/n", Some(conflict));
        assert_eq!(all.counts(), (0, 1));
        all.set_conflict("local/n", None);
        assert_eq!(all.counts(), (0, 0));
    }
}
