//! Metrics of RemediationTriggers.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use rackhand_api::kinds::remediation_trigger::TriggerOutcome;
use rackhand_core::triggers::NodeLabel;

use super::observe::TriggerView;
use crate::store::metrics::{own_metrics, register};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Counts of remediations that labels have made.
pub(crate) struct TriggerMetrics {
    made: Counter,
    ended: Family<OutcomeLabels, Counter>,
    labelled: Gauge,
    failed: Gauge,
}

impl TriggerMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let r = own_metrics(registry);
        let ended = Family::<OutcomeLabels, Counter>::default();
        for outcome in ["succeeded", "failed", "withdrawn"] {
            drop(ended.get_or_create(&OutcomeLabels { outcome }));
        }
        Self {
            made: register(
                r,
                "trigger_remediations_created",
                "Remediations that a label on a Node has made",
                Counter::default(),
            ),
            ended: register(
                r,
                "trigger_labels_answered",
                "Labels of RemediationTriggers that were answered, by outcome",
                ended,
            ),
            labelled: register(
                r,
                "trigger_labelled_nodes",
                "Nodes with the label of a RemediationTrigger, at the value that makes a remediation",
                Gauge::default(),
            ),
            failed: register(
                r,
                "trigger_failed_nodes",
                "Nodes whose label of a RemediationTrigger says failed",
                Gauge::default(),
            ),
        }
    }

    pub(super) fn count_made(&self) {
        self.made.inc();
    }

    pub(super) fn count_ended(&self, outcome: TriggerOutcome) {
        let outcome = match outcome {
            TriggerOutcome::Succeeded => "succeeded",
            TriggerOutcome::Failed => "failed",
            TriggerOutcome::Withdrawn => "withdrawn",
        };
        self.ended.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Shows how many Nodes have the labels.
    pub(super) fn show(&self, views: &[TriggerView]) {
        let count = |label: NodeLabel| {
            let nodes = views.iter().flat_map(|view| &view.nodes);
            let count = nodes.filter(|of| of.node.label == label).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        self.labelled.set(count(NodeLabel::Set));
        self.failed.set(count(NodeLabel::Failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::assert_documented;

    #[test]
    fn every_metric_is_documented() {
        let mut registry = Registry::default();
        TriggerMetrics::register(&mut registry).count_made();
        assert_documented(&registry, 4);
    }
}
