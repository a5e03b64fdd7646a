//! The metrics of medik8s' controller, under their original names (docs/reference/medik8s.md, Fields).
//!
//! Only Nodes that were remediated have a series.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use rackhand_core::checks::nodes::RemediationId;

use crate::store::metrics::register;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OldLabels {
    name: String,
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
    namespace: String,
    remediation: String,
}

fn durations() -> Histogram {
    Histogram::new([
        30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 600.0, 1200.0, 2400.0, 3600.0,
    ])
}

/// The metrics of medik8s' controller, as counted by this controller.
pub(crate) struct NodeMetrics {
    /// Only increases. It is a gauge because the library adds `_total` to the name of a counter.
    old: Family<OldLabels, Gauge>,
    ongoing: Family<Labels, Gauge>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl NodeMetrics {
    pub(in crate::checks) fn register(r: &mut Registry) -> Self {
        Self {
            old: register(
                r,
                "nodehealthcheck_old_remediation_cr",
                "Remediations that were there for very long",
                Family::default(),
            ),
            ongoing: register(
                r,
                "nodehealthcheck_ongoing_remediation",
                "1 while a remediation of the Node is there",
                Family::default(),
            ),
            durations: register(
                r,
                "nodehealthcheck_unhealthy_node_duration_seconds",
                "How long the remediation of a Node was there",
                Family::new_with_constructor(durations as fn() -> Histogram),
            ),
        }
    }

    fn labels(node: &str, remediation: &RemediationId) -> Labels {
        Labels {
            name: node.to_owned(),
            namespace: remediation.namespace.clone(),
            remediation: remediation.kind.clone(),
        }
    }

    pub(super) fn set_ongoing(&self, node: &str, remediation: &RemediationId) {
        let labels = Self::labels(node, remediation);
        self.ongoing.get_or_create(&labels).set(1);
    }

    pub(super) fn observe_end(&self, node: &str, remediation: &RemediationId, lasted: Duration) {
        let labels = Self::labels(node, remediation);
        self.ongoing.get_or_create(&labels).set(0);
        self.durations
            .get_or_create(&labels)
            .observe(lasted.as_secs_f64());
    }

    pub(super) fn count_old(&self, node: &str, remediation: &RemediationId) {
        let labels = OldLabels {
            name: node.to_owned(),
            namespace: remediation.namespace.clone(),
        };
        self.old.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::render;

    #[test]
    fn metrics_have_medik8s_names_and_labels() {
        let mut registry = Registry::default();
        let metrics = NodeMetrics::register(&mut registry);
        let remediation = RemediationId {
            kind: "XRemediation".into(),
            namespace: "ns".into(),
            ..RemediationId::default()
        };
        metrics.set_ongoing("n", &remediation);
        metrics.count_old("n", &remediation);
        metrics.observe_end("n", &remediation, Duration::from_secs(45));
        let text = render(&registry);
        for line in [
            "nodehealthcheck_old_remediation_cr{name=\"n\",namespace=\"ns\"} 1",
            "nodehealthcheck_ongoing_remediation{name=\"n\",namespace=\"ns\",remediation=\"XRemediation\"} 0",
            "nodehealthcheck_unhealthy_node_duration_seconds_bucket{le=\"60.0\",name=\"n\",namespace=\"ns\",remediation=\"XRemediation\"} 1",
            "nodehealthcheck_unhealthy_node_duration_seconds_bucket{le=\"30.0\",name=\"n\",namespace=\"ns\",remediation=\"XRemediation\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
