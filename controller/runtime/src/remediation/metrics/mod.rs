//! Metrics of remediations.

mod blocked;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use self::blocked::BlockedMetrics;
pub(super) use self::blocked::BlockedRemediation;
use crate::store::metrics::{ReasonCounter, ReasonLabels, own_metrics, register};

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
struct ResultLabels {
    result: &'static str,
}

/// Buckets from 50 ms to about 14 minutes, because a step may be a single write or a drain.
fn step_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.05, 2.0, 15))
}

/// Buckets from 1 s to about 2 hours.
fn remediation_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 14))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    outcome: &'static str,
}

/// The outcomes of a remediation, as labels.
const OUTCOMES: [&str; 4] = ["succeeded", "escalated", "failed", "withdrawn"];

/// The reasons of a violation, as labels.
const VIOLATIONS: [&str; 2] = ["FenceViolated", "HoldLost"];

/// The results of the deletion of a pod, as labels.
const POD_DELETIONS: [&str; 5] = ["deleted", "gone", "changed", "refused", "failed"];

/// The results of the eviction of a pod, as labels.
const EVICTIONS: [&str; 5] = ["evicted", "gone", "blocked", "refused", "failed"];

/// The step of an unfinished remediation, and when the remediation was created.
type Unfinished = (&'static str, Timestamp);

/// Counts what remediations do and what blocks them.
pub(crate) struct RemediationMetrics {
    steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    outcomes: Family<OutcomeLabels, Counter>,
    durations: Family<EndLabels, Histogram, fn() -> Histogram>,
    unfinished: Family<StepLabels, Gauge>,
    oldest: Family<StepLabels, Gauge>,
    events: ReasonCounter,
    violations: Family<ReasonLabels, Counter>,
    unconfirmed: Counter,
    pod_deletions: Family<ResultLabels, Counter>,
    evictions: Family<ResultLabels, Counter>,
    panics: Counter,
    blocked: BlockedMetrics,
    /// The unfinished remediations, by UID.
    unfinished_now: Mutex<BTreeMap<String, Unfinished>>,
}

impl RemediationMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::registered(registry);
        // Prometheus detects an increase only if there is a first value.
        for reason in VIOLATIONS {
            let labels = ReasonLabels { reason };
            metrics.violations.get_or_create(&labels).inc_by(0);
        }
        for result in POD_DELETIONS {
            let labels = ResultLabels { result };
            metrics.pod_deletions.get_or_create(&labels).inc_by(0);
        }
        for result in EVICTIONS {
            let labels = ResultLabels { result };
            metrics.evictions.get_or_create(&labels).inc_by(0);
        }
        for outcome in OUTCOMES {
            drop(metrics.durations.get_or_create(&EndLabels { outcome }));
        }
        metrics
    }

    fn registered(registry: &mut Registry) -> Self {
        let r = own_metrics(registry);
        Self {
            steps: register(
                r,
                "remediation_step_seconds",
                "Time spent in a step of a remediation",
                Family::new_with_constructor(step_histogram as fn() -> Histogram),
            ),
            outcomes: register(
                r,
                "remediations",
                "Finished remediations by outcome and cause",
                Family::default(),
            ),
            durations: register(
                r,
                "remediation_seconds",
                "Time from the creation of a remediation to its end, by outcome",
                Family::new_with_constructor(remediation_histogram as fn() -> Histogram),
            ),
            unfinished: register(
                r,
                "remediations_unfinished",
                "Unfinished remediations by step",
                Family::default(),
            ),
            oldest: register(
                r,
                "remediations_oldest_created_timestamp_seconds",
                "When the oldest of the unfinished remediations in a step was created",
                Family::default(),
            ),
            events: register(
                r,
                "remediation_notes",
                "Events of remediations by reason",
                Family::default(),
            ),
            violations: register(
                r,
                "fence_violations",
                "Hosts that had to stay off and were seen on or without our hold",
                Family::default(),
            ),
            unconfirmed: register(
                r,
                "fences_unconfirmed",
                "Power-offs that were not confirmed in time and wait for a person",
                Counter::default(),
            ),
            pod_deletions: register(
                r,
                "pod_deletions",
                "Deletions of pods of hosts that are confirmed off, by result",
                Family::default(),
            ),
            evictions: register(
                r,
                "pod_evictions",
                "Evictions of pods of hosts that are still on, by result",
                Family::default(),
            ),
            panics: register(
                r,
                "remediation_panics",
                "Tasks of remediations that panicked and were started again",
                Counter::default(),
            ),
            blocked: BlockedMetrics::register(r),
            unfinished_now: Mutex::default(),
        }
    }

    pub(super) fn observe_step(&self, step: &'static str, took: Duration) {
        let labels = StepLabels { step };
        self.steps
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(super) fn count_outcome(&self, outcome: &'static str, cause: &'static str) {
        let labels = OutcomeLabels { outcome, cause };
        self.outcomes.get_or_create(&labels).inc();
    }

    pub(super) fn observe_end(&self, outcome: &'static str, took: Duration) {
        self.durations
            .get_or_create(&EndLabels { outcome })
            .observe(took.as_secs_f64());
    }

    pub(super) fn count_event(&self, reason: &'static str) {
        self.events.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts Events, also those of other parts that concern remediations.
    pub(crate) fn events(&self) -> ReasonCounter {
        self.events.clone()
    }

    pub(super) fn count_violation(&self, reason: &'static str) {
        self.violations
            .get_or_create(&ReasonLabels { reason })
            .inc();
    }

    pub(super) fn count_unconfirmed(&self) {
        self.unconfirmed.inc();
    }

    pub(super) fn count_pod_deletion(&self, result: &'static str) {
        self.pod_deletions
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    pub(super) fn count_eviction(&self, result: &'static str) {
        let labels = ResultLabels { result };
        self.evictions.get_or_create(&labels).inc();
    }

    pub(super) fn count_panic(&self) {
        self.panics.inc();
    }

    /// Records the step of a remediation; `None` if it has ended.
    pub(super) fn set_step(&self, uid: &str, now: Option<Unfinished>) {
        let mut all = self.unfinished_now.lock();
        let before = match now {
            Some(now) => all.insert(uid.to_owned(), now),
            None => all.remove(uid),
        };
        if before == now {
            return;
        }
        for (step, _) in [before, now].into_iter().flatten() {
            let labels = StepLabels { step };
            let created = all.values().filter(|u| u.0 == step).map(|u| u.1);
            let count = i64::try_from(created.clone().count()).unwrap_or(i64::MAX);
            self.unfinished.get_or_create(&labels).set(count);
            match created.min() {
                Some(oldest) => {
                    self.oldest.get_or_create(&labels).set(oldest.as_second());
                }
                None => {
                    self.oldest.remove(&labels);
                }
            }
        }
    }

    /// Forgets a remediation that has ended or is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.set_blocked(uid, None);
        self.set_step(uid, None);
    }

    /// Records why a remediation is blocked; `None` if it is not blocked or has ended.
    pub(super) fn set_blocked(&self, uid: &str, blocked: Option<BlockedRemediation>) {
        self.blocked.set(uid, blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::{assert_documented, render};

    fn paused() -> BlockedRemediation {
        BlockedRemediation {
            kind: "PowerRemediation",
            namespace: "default".into(),
            name: "worker-3".into(),
            node: "worker-3".into(),
            reason: "Paused",
        }
    }

    #[test]
    fn unfinished_remediations_are_counted_by_step_with_oldest_creation() {
        let mut registry = Registry::default();
        let metrics = RemediationMetrics::register(&mut registry);
        let at = |second| Timestamp::from_second(second).unwrap();
        metrics.set_step("a", Some(("Draining", at(20))));
        metrics.set_step("b", Some(("Draining", at(10))));
        let has = |line: &str| render(&registry).lines().any(|l| l == line);
        let oldest = "rackhand_remediations_oldest_created_timestamp_seconds";
        assert!(has("rackhand_remediations_unfinished{step=\"Draining\"} 2"));
        assert!(has(&format!("{oldest}{{step=\"Draining\"}} 10")));
        metrics.set_step("b", Some(("Booting", at(10))));
        assert!(has(&format!("{oldest}{{step=\"Draining\"}} 20")));
        assert!(has(&format!("{oldest}{{step=\"Booting\"}} 10")));
        metrics.set_blocked("b", Some(paused()));
        metrics.forget("b");
        assert!(has("rackhand_remediations_unfinished{step=\"Booting\"} 0"));
        assert!(has("rackhand_remediations_blocked{reason=\"Paused\"} 0"));
        // The series is removed, because otherwise the age would grow for ever.
        assert!(!render(&registry).contains(&format!("{oldest}{{step=\"Booting\"}}")));
    }

    #[test]
    fn remediation_metrics_are_documented() {
        let mut registry = Registry::default();
        let metrics = RemediationMetrics::register(&mut registry);
        metrics.observe_step("PoweringOff", Duration::from_secs(2));
        metrics.count_outcome("succeeded", "node_condition");
        metrics.count_event("Recovered");
        metrics.count_violation("FenceViolated");
        metrics.count_unconfirmed();
        metrics.count_pod_deletion("deleted");
        metrics.count_panic();
        metrics.set_blocked("a", Some(paused()));
        metrics.observe_end("succeeded", Duration::from_secs(60));
        metrics.set_step("a", Some(("Draining", Timestamp::UNIX_EPOCH)));
        assert_documented(&registry, 13);
    }
}
