//! The metrics of OpenShift's own health check controller, under their own names.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::store::{metrics::register, object::Key};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
    namespace: String,
}

/// The metrics of OpenShift's own controller, as counted by this controller.
pub(crate) struct OpenShiftMetrics {
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
    pub(in crate::checks) fn register(registry: &mut Registry) -> Self {
        let r = registry.sub_registry_with_prefix("mapi_machinehealthcheck");
        Self {
            covered: register(
                r,
                "nodes_covered",
                "Machines that a MachineHealthCheck of OpenShift selects",
                Family::default(),
            ),
            deleted: register(
                r,
                "remediation_success",
                "Machines that were deleted for a MachineHealthCheck of OpenShift",
                Family::default(),
            ),
            closed: register(
                r,
                "short_circuit",
                "1 while the limit of a MachineHealthCheck of OpenShift forbids remediation",
                Family::default(),
            ),
        }
    }

    /// Sets the counts of a check.
    pub(in crate::checks) fn set_check(&self, check: &Key, expected: u32, open: bool) {
        let labels = Labels::of(check);
        self.covered.get_or_create(&labels).set(expected.into());
        self.closed.get_or_create(&labels).set(i64::from(!open));
    }

    /// Resets the metrics of a check that was deleted or is no longer evaluated, so that no alert remains
    /// (docs/reference/openshift.md, The check).
    pub(in crate::checks) fn remove_check(&self, check: &Key) {
        let labels = Labels::of(check);
        self.covered.remove(&labels);
        self.closed.get_or_create(&labels).set(0);
    }

    /// Counts a Machine that was deleted for a check.
    pub(in crate::checks) fn count_deletion(&self, check: &Key) {
        self.deleted.get_or_create(&Labels::of(check)).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::render;

    #[test]
    fn metrics_have_openshift_names_and_reset_with_deleted_check() {
        let mut registry = Registry::default();
        let metrics = OpenShiftMetrics::register(&mut registry);
        let check = Key::new("openshift-machine-api", "workers");
        metrics.set_check(&check, 3, false);
        metrics.count_deletion(&check);
        let has = |name: &str, value: u32| {
            let line = format!(
                "mapi_machinehealthcheck_{name}{{name=\"workers\",namespace=\"openshift-machine-api\"}} {value}"
            );
            render(&registry).lines().any(|l| l == line)
        };
        assert!(has("nodes_covered", 3));
        assert!(has("short_circuit", 1));
        assert!(has("remediation_success_total", 1));
        metrics.remove_check(&check);
        assert!(!has("nodes_covered", 3));
        assert!(has("short_circuit", 0));
    }
}
