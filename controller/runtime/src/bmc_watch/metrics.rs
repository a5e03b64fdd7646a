//! Metrics of BMC readings between remediations.

use std::collections::BTreeMap;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::store::metrics::{own_metrics, register};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RackLabels {
    rack: String,
}

/// Counts of a rack's hosts, from the BMC readings between remediations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BmcCounts {
    /// Hosts whose BMC could not fence them, for whatever cause.
    pub(super) unavailable: i64,
    /// The part of `unavailable` with a BMC that manages another system.
    pub(super) other_system: i64,
    /// Hosts that are on although their owner records them as off.
    pub(super) off_by_owner: i64,
}

pub(crate) struct BmcWatchMetrics {
    fencing_unavailable: Family<RackLabels, Gauge>,
    off_by_owner: Family<RackLabels, Gauge>,
    identity_mismatches: Family<RackLabels, Gauge>,
    topology_discovered: Gauge,
    topology_conflicts: Gauge,
}

impl BmcWatchMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let r = own_metrics(registry);
        Self {
            fencing_unavailable: register(
                r,
                "fencing_unavailable_hosts",
                "Hosts whose BMC could not fence them, by rack",
                Family::default(),
            ),
            off_by_owner: register(
                r,
                "owner_has_host_off_hosts",
                "Hosts that are on and that baremetal-operator has as off, by rack",
                Family::default(),
            ),
            identity_mismatches: register(
                r,
                "bmc_identity_mismatch_hosts",
                "Hosts whose BMC manages another system than their Node runs on, by rack",
                Family::default(),
            ),
            topology_discovered: register(
                r,
                "topology_discovered_hosts",
                "Hosts whose BMC reports their rack or switches",
                Gauge::default(),
            ),
            topology_conflicts: register(
                r,
                "topology_conflicts",
                "Hosts whose annotations name other switches than their BMC reports",
                Gauge::default(),
            ),
        }
    }

    /// Sets the counts of each rack. Removes the racks in `before` that no longer have a host.
    pub(super) fn set_counts(
        &self,
        before: &BTreeMap<String, BmcCounts>,
        racks: &BTreeMap<String, BmcCounts>,
    ) {
        let labels = |rack: &String| RackLabels { rack: rack.clone() };
        for (rack, counts) in racks {
            let series = [
                (&self.fencing_unavailable, counts.unavailable),
                (&self.identity_mismatches, counts.other_system),
                (&self.off_by_owner, counts.off_by_owner),
            ];
            for (series, count) in series {
                series.get_or_create(&labels(rack)).set(count);
            }
        }
        for rack in before.keys().filter(|rack| !racks.contains_key(*rack)) {
            self.fencing_unavailable.remove(&labels(rack));
            self.identity_mismatches.remove(&labels(rack));
            self.off_by_owner.remove(&labels(rack));
        }
    }

    /// Sets the number of hosts with a topology from their BMC, and the number of hosts with a conflict.
    pub(super) fn set_topology(&self, (discovered, conflicts): (i64, i64)) {
        self.topology_discovered.set(discovered);
        self.topology_conflicts.set(conflicts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::{assert_documented, render};

    #[test]
    fn racks_without_hosts_have_no_series_and_metrics_are_documented() {
        let mut registry = Registry::default();
        let metrics = BmcWatchMetrics::register(&mut registry);
        let counts = BmcCounts {
            unavailable: 2,
            other_system: 1,
            off_by_owner: 3,
        };
        let racks = BTreeMap::from([("r1".to_owned(), counts)]);
        metrics.set_counts(&BTreeMap::new(), &racks);
        assert_documented(&registry, 5);
        let shows = |line: &str| render(&registry).lines().any(|l| l == line);
        assert!(shows("rackhand_fencing_unavailable_hosts{rack=\"r1\"} 2"));
        assert!(shows("rackhand_bmc_identity_mismatch_hosts{rack=\"r1\"} 1"));
        metrics.set_counts(&racks, &BTreeMap::new());
        assert!(!render(&registry).contains("rack=\"r1\""));
    }
}
