//! The metrics of OpenShift's own health check controller, under their own names.

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::store::object::Key;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
    namespace: String,
}

/// The metrics.
pub(crate) struct OpenShiftMetrics {
    registry: Registry,
    covered: Family<Labels, Gauge>,
    deleted: Family<Labels, Counter>,
    closed: Family<Labels, Gauge>,
}

// === impl Labels ===

impl Labels {
    fn of(check: &Key) -> Self {
        Self {
            name: check.name.clone(),
            namespace: check.namespace.clone(),
        }
    }
}

// === impl OpenShiftMetrics ===

impl OpenShiftMetrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("mapi_machinehealthcheck"),
            covered: Family::default(),
            deleted: Family::default(),
            closed: Family::default(),
        };
        let r = &mut metrics.registry;
        r.register(
            "nodes_covered",
            "Machines that a MachineHealthCheck of OpenShift selects",
            metrics.covered.clone(),
        );
        r.register(
            "remediation_success",
            "Machines that were deleted for a MachineHealthCheck of OpenShift",
            metrics.deleted.clone(),
        );
        r.register(
            "short_circuit",
            "1 while the limit of a MachineHealthCheck of OpenShift forbids remediation",
            metrics.closed.clone(),
        );
        metrics
    }

    /// The numbers of a check.
    pub(in crate::checks) fn check(&self, check: &Key, expected: u32, open: bool) {
        let labels = Labels::of(check);
        self.covered.get_or_create(&labels).set(expected.into());
        self.closed.get_or_create(&labels).set(i64::from(!open));
    }

    /// A check is gone, or not ours any more: no alert is left standing (docs/reference/openshift.md, The check).
    pub(in crate::checks) fn forget(&self, check: &Key) {
        let labels = Labels::of(check);
        self.covered.remove(&labels);
        self.closed.get_or_create(&labels).set(0);
    }

    /// A Machine was deleted for a check.
    pub(in crate::checks) fn deleted(&self, check: &Key) {
        self.deleted.get_or_create(&Labels::of(check)).inc();
    }

    /// Appends the text that Prometheus reads, without its end.
    pub(crate) fn render(&self, text: &mut String) {
        encode_registry(text, &self.registry).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_called_as_openshift_calls_them_and_no_alert_outlives_its_check() {
        let metrics = OpenShiftMetrics::new();
        let check = Key::new("openshift-machine-api", "workers");
        metrics.check(&check, 3, false);
        metrics.deleted(&check);
        let has = |name: &str, value: u32| {
            let mut text = String::new();
            metrics.render(&mut text);
            let line = format!(
                "mapi_machinehealthcheck_{name}{{name=\"workers\",namespace=\"openshift-machine-api\"}} {value}"
            );
            text.lines().any(|l| l == line)
        };
        assert!(has("nodes_covered", 3));
        assert!(has("short_circuit", 1));
        assert!(has("remediation_success_total", 1));
        metrics.forget(&check);
        assert!(!has("nodes_covered", 3));
        assert!(has("short_circuit", 0));
    }
}
