//! Metrics of health checks.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use rackhand_core::checks::machines::Cause;

use super::dialects::{node_health_check::NodeMetrics, openshift::OpenShiftMetrics};
use crate::store::{
    metrics::{own_metrics, register},
    object::Key,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    namespace: String,
    check: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    namespace: String,
    check: String,
    cause: &'static str,
}

// === impl CheckLabels ===

impl CheckLabels {
    fn of(check: &Key) -> Self {
        Self {
            namespace: check.namespace.clone(),
            check: check.name.clone(),
        }
    }
}

// === impl CauseLabels ===

impl CauseLabels {
    fn of(check: &Key, cause: &'static str) -> Self {
        Self {
            namespace: check.namespace.clone(),
            check: check.name.clone(),
            cause,
        }
    }
}

/// The counts of a check and the result of its limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CheckCounts {
    pub(super) targets: u32,
    pub(super) healthy: u32,
    /// Targets that count against the limit.
    pub(super) counted: u32,
    /// Number of further targets that may count before the limit forbids remediation.
    pub(super) allowed: u32,
    /// Whether the limit allows remediation.
    pub(super) open: bool,
}

/// Counts the targets of each check and times its evaluations.
pub(crate) struct CheckMetrics {
    targets: Family<CheckLabels, Gauge>,
    healthy: Family<CheckLabels, Gauge>,
    counted: Family<CheckLabels, Gauge>,
    unhealthy: Family<CauseLabels, Gauge>,
    closed: Family<CheckLabels, Gauge>,
    allowed: Family<CheckLabels, Gauge>,
    evaluation: Histogram,
    latency: Histogram,
    lateness: Histogram,
    pub(super) openshift: OpenShiftMetrics,
    pub(super) nodes: NodeMetrics,
}

impl CheckMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let openshift = OpenShiftMetrics::register(registry);
        let nodes = NodeMetrics::register(registry);
        let r = own_metrics(registry);
        Self {
            targets: register(
                r,
                "check_targets",
                "Machines or Nodes that a health check selects",
                Family::default(),
            ),
            healthy: register(
                r,
                "check_healthy",
                "Targets that a health check finds healthy",
                Family::default(),
            ),
            counted: register(
                r,
                "check_counted",
                "Targets that count against the limit of a health check",
                Family::default(),
            ),
            unhealthy: register(
                r,
                "check_unhealthy",
                "Targets that a health check finds unhealthy, by first cause",
                Family::default(),
            ),
            closed: register(
                r,
                "check_limit_reached",
                "1 while the limit of a health check forbids remediation",
                Family::default(),
            ),
            allowed: register(
                r,
                "check_remediations_allowed",
                "How many more targets may fail before the limit forbids remediation",
                Family::default(),
            ),
            evaluation: register(
                r,
                "health_evaluation_seconds",
                "Time to evaluate what one batch of events touches",
                // From 10 us to about 20 s.
                Histogram::new(exponential_buckets(0.000_01, 4.0, 11)),
            ),
            latency: register(
                r,
                "health_event_to_verdict_seconds",
                "Time from the first event of a batch until its verdicts",
                Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            ),
            lateness: register(
                r,
                "deadline_lateness_seconds",
                "How late a deadline of a health check was acted on",
                Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            ),
            openshift,
            nodes,
        }
    }

    /// Sets the counts of a health check. A cause that was reported once is reported as long as the
    /// check exists, so that it can fall to 0.
    pub(super) fn set_check(
        &self,
        check: &Key,
        counts: CheckCounts,
        causes: impl Iterator<Item = (&'static str, u32)>,
    ) {
        let labels = CheckLabels::of(check);
        let numbers = [
            (&self.targets, counts.targets.into()),
            (&self.healthy, counts.healthy.into()),
            (&self.counted, counts.counted.into()),
            (&self.allowed, counts.allowed.into()),
            (&self.closed, i64::from(!counts.open)),
        ];
        for (family, number) in numbers {
            family.get_or_create(&labels).set(number);
        }
        for (cause, count) in causes {
            let labels = CauseLabels::of(check, cause);
            self.unhealthy.get_or_create(&labels).set(count.into());
        }
    }

    /// Removes the series of a health check that is deleted or no longer evaluated.
    pub(super) fn remove_check(&self, check: &Key) {
        let labels = CheckLabels::of(check);
        for family in [
            &self.targets,
            &self.healthy,
            &self.counted,
            &self.allowed,
            &self.closed,
        ] {
            family.remove(&labels);
        }
        for cause in Cause::LABELS {
            self.unhealthy.remove(&CauseLabels::of(check, cause));
        }
    }

    /// Records the evaluation of a batch of events: how long it took, and the time from the first of
    /// them to its end.
    pub(super) fn observe_evaluation(&self, took: Duration, since_event: Duration) {
        self.evaluation.observe(took.as_secs_f64());
        self.latency.observe(since_event.as_secs_f64());
    }

    pub(super) fn observe_lateness(&self, late: Duration) {
        self.lateness.observe(late.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::{assert_documented, render};

    #[test]
    fn metrics_of_deleted_check_are_removed() {
        let mut registry = Registry::default();
        let metrics = CheckMetrics::register(&mut registry);
        let check = Key::new("ns", "workers");
        let counts = CheckCounts {
            targets: 3,
            healthy: 1,
            counted: 2,
            allowed: 0,
            open: false,
        };
        let causes = [("node_condition", 2), ("node_deleted", 0)];
        metrics.set_check(&check, counts, causes.into_iter());
        let text = render(&registry);
        for line in [
            "rackhand_check_targets{namespace=\"ns\",check=\"workers\"} 3",
            "rackhand_check_healthy{namespace=\"ns\",check=\"workers\"} 1",
            "rackhand_check_counted{namespace=\"ns\",check=\"workers\"} 2",
            "rackhand_check_remediations_allowed{namespace=\"ns\",check=\"workers\"} 0",
            "rackhand_check_limit_reached{namespace=\"ns\",check=\"workers\"} 1",
            "rackhand_check_unhealthy{namespace=\"ns\",check=\"workers\",cause=\"node_condition\"} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        metrics.remove_check(&check);
        assert!(!render(&registry).contains("workers"));
    }

    #[test]
    fn check_metrics_are_documented() {
        let mut registry = Registry::default();
        let metrics = CheckMetrics::register(&mut registry);
        let counts = CheckCounts::default();
        let causes = Cause::LABELS.into_iter().map(|cause| (cause, 0));
        metrics.set_check(&Key::new("ns", "workers"), counts, causes);
        metrics.observe_evaluation(Duration::ZERO, Duration::ZERO);
        metrics.observe_lateness(Duration::ZERO);
        assert_documented(&registry, 9);
        let page = include_str!("../../../../docs/metrics.md");
        for cause in Cause::LABELS {
            assert!(
                page.contains(&format!("`{cause}`")),
                "{cause} is not listed"
            );
        }
        let text = render(&registry);
        for histogram in [
            "rackhand_health_evaluation_seconds",
            "rackhand_health_event_to_verdict_seconds",
            "rackhand_deadline_lateness_seconds",
        ] {
            let counted = format!("{histogram}_count 1");
            assert!(text.lines().any(|line| line == counted), "{counted}");
        }
    }
}
