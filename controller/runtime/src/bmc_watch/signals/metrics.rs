//! Metrics of hardware signals.

use std::collections::BTreeMap;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use rackhand_core::signals::Signal;

use crate::store::metrics::{own_metrics, register};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignalLabels {
    signal: &'static str,
}

/// What is counted of all hosts.
#[derive(Debug, Default)]
pub(super) struct SignalCounts {
    /// Hosts with a reading.
    pub(super) watched: i64,
    /// Hosts that no agent reports.
    pub(super) unwatched: i64,
    /// Nodes with each signal.
    pub(super) nodes: BTreeMap<Signal, i64>,
    /// Those of them whose host has no remediation.
    pub(super) without_remediation: BTreeMap<Signal, i64>,
}

pub(crate) struct SignalMetrics {
    nodes: Family<SignalLabels, Gauge>,
    without_remediation: Family<SignalLabels, Gauge>,
    watched: Gauge,
    unwatched: Gauge,
}

impl SignalMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let r = own_metrics(registry);
        Self {
            nodes: register(
                r,
                "hardware_signal_nodes",
                "Nodes with the condition of a hardware signal, by signal",
                Family::default(),
            ),
            without_remediation: register(
                r,
                "hardware_signal_nodes_without_remediation",
                "Nodes with the condition of a hardware signal, and no remediation of their host, by signal",
                Family::default(),
            ),
            unwatched: register(
                r,
                "hardware_signal_unwatched_hosts",
                "Hosts that no agent watches for hardware signals",
                Gauge::default(),
            ),
            watched: register(
                r,
                "hardware_signal_watched_hosts",
                "Hosts whose BMC is read all the time for hardware signals",
                Gauge::default(),
            ),
        }
    }

    pub(super) fn set(&self, counts: &SignalCounts) {
        self.watched.set(counts.watched);
        self.unwatched.set(counts.unwatched);
        for signal in Signal::ALL {
            let labels = SignalLabels {
                signal: signal.label(),
            };
            for (family, counts) in [
                (&self.nodes, &counts.nodes),
                (&self.without_remediation, &counts.without_remediation),
            ] {
                let count = counts.get(&signal).copied().unwrap_or_default();
                family.get_or_create(&labels).set(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::{assert_documented, render};

    #[test]
    fn signals_are_counted_and_metrics_are_documented() {
        let mut registry = Registry::default();
        let metrics = SignalMetrics::register(&mut registry);
        metrics.set(&SignalCounts {
            watched: 3,
            unwatched: 4,
            nodes: BTreeMap::from([(Signal::PowerLost, 2)]),
            without_remediation: BTreeMap::from([(Signal::PowerLost, 1)]),
        });
        assert_documented(&registry, 4);
        let shows = |line: &str| render(&registry).lines().any(|l| l == line);
        assert!(shows(
            "rackhand_hardware_signal_nodes{signal=\"PowerLost\"} 2"
        ));
        assert!(shows(
            "rackhand_hardware_signal_nodes{signal=\"OSStopped\"} 0"
        ));
        assert!(shows("rackhand_hardware_signal_watched_hosts 3"));
        assert!(shows("rackhand_hardware_signal_unwatched_hosts 4"));
        assert!(shows(
            "rackhand_hardware_signal_nodes_without_remediation{signal=\"PowerLost\"} 1"
        ));
    }
}
