//! The metrics that medik8s' users know, under the names that they know (docs/reference/medik8s.md, Fields).
//!
//! Only Nodes that were ever remediated have a series.

use std::{fmt, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode_registry},
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use rackhand_core::nodes::RequestId;

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

/// The metrics.
pub(crate) struct NodeMetrics {
    registry: Registry,
    /// It only grows; a counter's name would end in `_total` here.
    old: Family<OldLabels, Gauge>,
    ongoing: Family<Labels, Gauge>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for NodeMetrics {
    fn default() -> Self {
        let mut m = Self {
            registry: Registry::default(),
            old: Family::default(),
            ongoing: Family::default(),
            durations: Family::new_with_constructor(durations as fn() -> Histogram),
        };
        m.registry.register(
            "nodehealthcheck_old_remediation_cr",
            "Remediations that were there for very long",
            m.old.clone(),
        );
        m.registry.register(
            "nodehealthcheck_ongoing_remediation",
            "1 while a remediation of the Node is there",
            m.ongoing.clone(),
        );
        m.registry.register(
            "nodehealthcheck_unhealthy_node_duration_seconds",
            "How long the remediation of a Node was there",
            m.durations.clone(),
        );
        m
    }
}

// === impl NodeMetrics ===

impl NodeMetrics {
    fn labels(node: &str, request: &RequestId) -> Labels {
        Labels {
            name: node.to_owned(),
            namespace: request.namespace.clone(),
            remediation: request.kind.clone(),
        }
    }

    pub(super) fn begun(&self, node: &str, request: &RequestId) {
        let labels = Self::labels(node, request);
        self.ongoing.get_or_create(&labels).set(1);
    }

    pub(super) fn finished(&self, node: &str, request: &RequestId, lasted: Duration) {
        let labels = Self::labels(node, request);
        self.ongoing.get_or_create(&labels).set(0);
        self.durations
            .get_or_create(&labels)
            .observe(lasted.as_secs_f64());
    }

    pub(super) fn is_old(&self, node: &str, request: &RequestId) {
        let labels = OldLabels {
            name: node.to_owned(),
            namespace: request.namespace.clone(),
        };
        self.old.get_or_create(&labels).inc();
    }

    /// Adds the text that Prometheus reads, without an end.
    pub(crate) fn render(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_those_that_users_know() {
        let metrics = NodeMetrics::default();
        let request = RequestId {
            kind: "XRemediation".into(),
            namespace: "ns".into(),
            ..RequestId::default()
        };
        metrics.begun("n", &request);
        metrics.is_old("n", &request);
        metrics.finished("n", &request, Duration::from_secs(45));
        let mut text = String::new();
        metrics.render(&mut text).unwrap();
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
