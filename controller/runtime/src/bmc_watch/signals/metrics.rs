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

pub(crate) struct SignalMetrics {
    nodes: Family<SignalLabels, Gauge>,
    watched: Gauge,
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
            watched: register(
                r,
                "hardware_signal_watched_hosts",
                "Hosts whose BMC is read all the time for hardware signals",
                Gauge::default(),
            ),
        }
    }

    /// Sets the number of hosts with a reading, and of the Nodes with each signal.
    pub(super) fn set(&self, watched: i64, nodes: &BTreeMap<Signal, i64>) {
        self.watched.set(watched);
        for signal in Signal::ALL {
            let labels = SignalLabels {
                signal: signal.label(),
            };
            let count = nodes.get(&signal).copied().unwrap_or_default();
            self.nodes.get_or_create(&labels).set(count);
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
        metrics.set(3, &BTreeMap::from([(Signal::PowerLost, 2)]));
        assert_documented(&registry, 2);
        let shows = |line: &str| render(&registry).lines().any(|l| l == line);
        assert!(shows(
            "rackhand_hardware_signal_nodes{signal=\"PowerLost\"} 2"
        ));
        assert!(shows(
            "rackhand_hardware_signal_nodes{signal=\"OSStopped\"} 0"
        ));
        assert!(shows("rackhand_hardware_signal_watched_hosts 3"));
    }
}
