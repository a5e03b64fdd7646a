//! Metrics, in a registry that is passed in.
//!
//! Must never carry a label whose values grow with the fleet.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use prometheus_client::{
    encoding::{
        EncodeLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use rackhand_core::health::{Cause, Tally};

use crate::{
    checks::{OpenShiftMetrics, nodes::NodeMetrics},
    store::object::Key,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    operation: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

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

/// From 50 ms to about 14 minutes: a write at the one end, a drain at the other.
fn step_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.05, 2.0, 15))
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

/// All metrics of the controller.
pub(crate) struct Metrics {
    registry: Registry,
    writes: Family<WriteLabels, Counter>,
    steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    outcomes: Family<OutcomeLabels, Counter>,
    notes: Family<ReasonLabels, Counter>,
    violations: Family<ReasonLabels, Counter>,
    unconfirmed: Counter,
    panics: Counter,
    blocked: Family<ReasonLabels, Gauge>,
    /// Why each remediation is blocked now, by UID: never a label.
    blocked_now: Mutex<BTreeMap<String, &'static str>>,
    targets: Family<CheckLabels, Gauge>,
    healthy: Family<CheckLabels, Gauge>,
    counted: Family<CheckLabels, Gauge>,
    unhealthy: Family<CauseLabels, Gauge>,
    closed: Family<CheckLabels, Gauge>,
    evaluation: Histogram,
    latency: Histogram,
    lateness: Histogram,
    leader: Gauge,
    agents: Gauge,
    term_outliers: Gauge,
    openshift: OpenShiftMetrics,
    nodes: NodeMetrics,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut m = Self {
            registry: Registry::with_prefix("rackhand"),
            writes: Family::default(),
            steps: Family::new_with_constructor(step_histogram as fn() -> Histogram),
            outcomes: Family::default(),
            notes: Family::default(),
            violations: Family::default(),
            unconfirmed: Counter::default(),
            panics: Counter::default(),
            blocked: Family::default(),
            blocked_now: Mutex::default(),
            targets: Family::default(),
            healthy: Family::default(),
            counted: Family::default(),
            unhealthy: Family::default(),
            closed: Family::default(),
            // From 10 us to about 20 s.
            evaluation: Histogram::new(exponential_buckets(0.000_01, 4.0, 11)),
            latency: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            lateness: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            leader: Gauge::default(),
            agents: Gauge::default(),
            term_outliers: Gauge::default(),
            openshift: OpenShiftMetrics::new(),
            nodes: NodeMetrics::default(),
        };
        let r = &mut m.registry;
        r.register(
            "writes",
            "Writes to Kubernetes by operation and result",
            m.writes.clone(),
        );
        r.register(
            "remediation_step_seconds",
            "Time spent in a step of a remediation",
            m.steps.clone(),
        );
        r.register(
            "remediations",
            "Finished remediations by outcome and cause",
            m.outcomes.clone(),
        );
        r.register(
            "remediation_notes",
            "Events of remediations by reason",
            m.notes.clone(),
        );
        r.register(
            "fence_violations",
            "Hosts that had to stay off and were seen on or without our hold",
            m.violations.clone(),
        );
        r.register(
            "fences_unconfirmed",
            "Power-offs that nobody confirmed in time, so that a person is asked",
            m.unconfirmed.clone(),
        );
        r.register(
            "remediation_panics",
            "Tasks of remediations that panicked and were started again",
            m.panics.clone(),
        );
        r.register(
            "remediations_blocked",
            "Remediations that cannot go on by themselves now, by reason",
            m.blocked.clone(),
        );
        r.register(
            "check_targets",
            "Machines that a health check selects",
            m.targets.clone(),
        );
        r.register(
            "check_healthy",
            "Machines that a health check finds healthy",
            m.healthy.clone(),
        );
        r.register(
            "check_counted",
            "Machines that count against the limit of a health check",
            m.counted.clone(),
        );
        r.register(
            "check_unhealthy",
            "Machines that a health check finds unhealthy, by first cause",
            m.unhealthy.clone(),
        );
        r.register(
            "check_limit_reached",
            "1 while the limit of a health check forbids remediation",
            m.closed.clone(),
        );
        r.register(
            "health_evaluation_seconds",
            "Time to evaluate what one batch of events touches",
            m.evaluation.clone(),
        );
        r.register(
            "health_event_to_verdict_seconds",
            "Time from the first event of a batch until its verdicts",
            m.latency.clone(),
        );
        r.register(
            "deadline_lateness_seconds",
            "How late a deadline of a health check was acted on",
            m.lateness.clone(),
        );
        r.register("leader", "1 while this process leads", m.leader.clone());
        r.register(
            "agents_connected",
            "Rack agents that answer",
            m.agents.clone(),
        );
        r.register(
            "agents_term_outliers",
            "Rack agents that are not used because their term of this election is not followed",
            m.term_outliers.clone(),
        );
        Arc::new(m)
    }

    pub(crate) fn write_done(&self, operation: &'static str, result: &'static str) {
        self.writes
            .get_or_create(&WriteLabels { operation, result })
            .inc();
    }

    pub(crate) fn step_done(&self, step: &'static str, took: Duration) {
        self.steps
            .get_or_create(&StepLabels { step })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn remediation_done(&self, outcome: &'static str, cause: &'static str) {
        self.outcomes
            .get_or_create(&OutcomeLabels { outcome, cause })
            .inc();
    }

    pub(crate) fn fence_violated(&self, reason: &'static str) {
        self.violations
            .get_or_create(&ReasonLabels { reason })
            .inc();
    }

    pub(crate) fn fence_unconfirmed(&self) {
        self.unconfirmed.inc();
    }

    pub(crate) fn remediation_panicked(&self) {
        self.panics.inc();
    }

    /// Why a remediation is blocked now; `None`: it is not, or not any more.
    pub(crate) fn blocked(&self, uid: &str, reason: Option<&'static str>) {
        let mut now = self.blocked_now.lock();
        let before = match reason {
            Some(reason) => now.insert(uid.to_owned(), reason),
            None => now.remove(uid),
        };
        if before == reason {
            return;
        }
        for reason in [before, reason].into_iter().flatten() {
            let count = now.values().filter(|r| **r == reason).count();
            self.blocked
                .get_or_create(&ReasonLabels { reason })
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn note(&self, reason: &'static str) {
        self.notes.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// The numbers of a health check. A cause that was told once is told again as long as the check
    /// is there, so that it can fall to 0.
    pub(crate) fn check(
        &self,
        check: &Key,
        tally: &Tally,
        open: bool,
        causes: impl Iterator<Item = (&'static str, u32)>,
    ) {
        let labels = CheckLabels::of(check);
        let numbers = [
            (&self.targets, i64::from(tally.expected)),
            (&self.healthy, i64::from(tally.healthy)),
            (&self.counted, i64::from(tally.not_healthy)),
            (&self.closed, i64::from(!open)),
        ];
        for (family, number) in numbers {
            family.get_or_create(&labels).set(number);
        }
        for (cause, count) in causes {
            let labels = CauseLabels::of(check, cause);
            self.unhealthy.get_or_create(&labels).set(count.into());
        }
    }

    /// A health check is gone, or not ours any more.
    pub(crate) fn forget_check(&self, check: &Key) {
        let labels = CheckLabels::of(check);
        for family in [&self.targets, &self.healthy, &self.counted, &self.closed] {
            family.remove(&labels);
        }
        for cause in Cause::LABELS {
            self.unhealthy.remove(&CauseLabels::of(check, cause));
        }
    }

    /// A batch of events was evaluated: how long that took, and how long the first of them waited
    /// until it was over.
    pub(crate) fn evaluated(&self, took: Duration, since_event: Duration) {
        self.evaluation.observe(took.as_secs_f64());
        self.latency.observe(since_event.as_secs_f64());
    }

    pub(crate) fn deadline_lateness(&self, late: Duration) {
        self.lateness.observe(late.as_secs_f64());
    }

    pub(crate) fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    pub(crate) fn set_agents(&self, connected: i64, term_outliers: i64) {
        self.agents.set(connected);
        self.term_outliers.set(term_outliers);
    }

    /// Those under OpenShift's names.
    pub(crate) fn openshift(&self) -> &OpenShiftMetrics {
        &self.openshift
    }

    /// Those of the health checks of Nodes.
    pub(crate) fn nodes(&self) -> &NodeMetrics {
        &self.nodes
    }

    /// The text that Prometheus reads.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        self.openshift.render(&mut text);
        encode_registry(&mut text, &self.registry).ok();
        self.nodes.render(&mut text).ok();
        encode_eof(&mut text).ok();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_check_go_with_it() {
        let metrics = Metrics::new();
        let check = Key::new("ns", "workers");
        let tally = Tally {
            expected: 3,
            healthy: 1,
            unhealthy: 2,
            not_healthy: 2,
        };
        let causes = [("node_condition", 2), ("node_deleted", 0)];
        metrics.check(&check, &tally, false, causes.into_iter());
        let text = metrics.render();
        for line in [
            "rackhand_check_targets{namespace=\"ns\",check=\"workers\"} 3",
            "rackhand_check_healthy{namespace=\"ns\",check=\"workers\"} 1",
            "rackhand_check_counted{namespace=\"ns\",check=\"workers\"} 2",
            "rackhand_check_limit_reached{namespace=\"ns\",check=\"workers\"} 1",
            "rackhand_check_unhealthy{namespace=\"ns\",check=\"workers\",cause=\"node_condition\"} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        metrics.forget_check(&check);
        assert!(!metrics.render().contains("workers"));
    }

    #[test]
    fn what_is_counted_of_health_checks_stands_in_the_documentation() {
        let metrics = Metrics::new();
        let tally = Tally::default();
        let causes = Cause::LABELS.into_iter().map(|cause| (cause, 0));
        metrics.check(&Key::new("ns", "workers"), &tally, false, causes);
        metrics.evaluated(Duration::ZERO, Duration::ZERO);
        metrics.deadline_lateness(Duration::ZERO);
        let text = metrics.render();
        let page = include_str!("../../../../docs/health-checks.md");
        let about = ["rackhand_check_", "rackhand_health_", "rackhand_deadline_"];
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .filter(|name| about.iter().any(|start| name.starts_with(start)))
            .collect();
        assert_eq!(names.len(), 8, "{names:?}");
        for name in names.into_iter().chain(Cause::LABELS) {
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is not documented"
            );
        }
        for histogram in [
            "rackhand_health_evaluation_seconds",
            "rackhand_health_event_to_verdict_seconds",
            "rackhand_deadline_lateness_seconds",
        ] {
            let counted = format!("{histogram}_count 1");
            assert!(text.lines().any(|line| line == counted), "{counted}");
        }
    }

    #[test]
    fn what_is_blocked_now_is_counted_by_reason_and_forgotten_when_it_goes_on() {
        let metrics = Metrics::new();
        metrics.blocked("a", Some("Paused"));
        metrics.blocked("b", Some("Paused"));
        metrics.blocked("b", Some("Paused"));
        let has = |line: &str| metrics.render().lines().any(|l| l == line);
        assert!(has("rackhand_remediations_blocked{reason=\"Paused\"} 2"));
        metrics.blocked("b", Some("HostPaused"));
        metrics.blocked("a", None);
        metrics.blocked("never", None);
        assert!(has("rackhand_remediations_blocked{reason=\"Paused\"} 0"));
        assert!(has(
            "rackhand_remediations_blocked{reason=\"HostPaused\"} 1"
        ));
    }
}
