//! Metrics, in a registry that is passed in.
//!
//! Must never carry a label whose values grow with the fleet.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
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

/// From 50 ms to about 14 minutes: a write at the one end, a drain at the other.
fn step_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.05, 2.0, 15))
}

/// All metrics of the controller.
pub(crate) struct Metrics {
    registry: Registry,
    writes: Family<WriteLabels, Counter>,
    steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    outcomes: Family<OutcomeLabels, Counter>,
    notes: Family<ReasonLabels, Counter>,
    targets: Family<CheckLabels, Gauge>,
    unhealthy: Family<CheckLabels, Gauge>,
    closed: Family<CheckLabels, Gauge>,
    lateness: Histogram,
    leader: Gauge,
    agents: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut m = Self {
            registry: Registry::with_prefix("rackhand"),
            writes: Family::default(),
            steps: Family::new_with_constructor(step_histogram as fn() -> Histogram),
            outcomes: Family::default(),
            notes: Family::default(),
            targets: Family::default(),
            unhealthy: Family::default(),
            closed: Family::default(),
            lateness: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            leader: Gauge::default(),
            agents: Gauge::default(),
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
            "Finished remediations by outcome",
            m.outcomes.clone(),
        );
        r.register(
            "remediation_notes",
            "Events of remediations by reason",
            m.notes.clone(),
        );
        r.register(
            "check_targets",
            "Machines that a health check selects",
            m.targets.clone(),
        );
        r.register(
            "check_unhealthy",
            "Machines that a health check finds unhealthy",
            m.unhealthy.clone(),
        );
        r.register(
            "check_limit_reached",
            "1 while the limit of a health check forbids remediation",
            m.closed.clone(),
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

    pub(crate) fn remediation_done(&self, outcome: &'static str) {
        self.outcomes
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    pub(crate) fn note(&self, reason: &'static str) {
        self.notes.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn check(&self, namespace: &str, check: &str, counts: Option<(u32, u32, bool)>) {
        let labels = CheckLabels {
            namespace: namespace.into(),
            check: check.into(),
        };
        match counts {
            Some((targets, unhealthy, open)) => {
                self.targets.get_or_create(&labels).set(targets.into());
                self.unhealthy.get_or_create(&labels).set(unhealthy.into());
                self.closed.get_or_create(&labels).set((!open).into());
            }
            None => {
                self.targets.remove(&labels);
                self.unhealthy.remove(&labels);
                self.closed.remove(&labels);
            }
        }
    }

    pub(crate) fn deadline_lateness(&self, late: Duration) {
        self.lateness.observe(late.as_secs_f64());
    }

    pub(crate) fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    pub(crate) fn set_agents(&self, connected: usize) {
        self.agents
            .set(i64::try_from(connected).unwrap_or(i64::MAX));
    }

    /// The text that Prometheus reads.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).ok();
        text
    }
}
