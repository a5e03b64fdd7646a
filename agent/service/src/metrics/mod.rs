//! Metrics of the agent, in their own registry.
//!
//! Must never: have a label whose number of values grows with the fleet.

mod names;
mod process;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
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
use rackhand_bmc::ErrorKind;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    action: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabels {
    command: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    call: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabels {
    origin: &'static str,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// State of the journal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JournalState {
    pub(crate) writable: bool,
    /// Number of times the file was reopened after an error.
    pub(crate) reopened: u64,
    /// Creation time of the file, in seconds of the Unix epoch.
    pub(crate) created: i64,
    /// Reason of the creation: `first`, `missing` or `damaged`.
    pub(crate) origin: &'static str,
}

/// Values that are sampled at each scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sampled {
    pub(crate) hosts: usize,
    pub(crate) watched_hosts: usize,
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    /// `None`: the journal could not be read.
    pub(crate) holds: Option<usize>,
    pub(crate) journal: JournalState,
    /// Expiry of the certificate, in seconds of the Unix epoch; 0: no certificate.
    pub(crate) certificate_until: i64,
    pub(crate) connections_accepted: u64,
    pub(crate) connections_refused: Vec<(&'static str, u64)>,
}

/// All metrics of the agent.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    operations: Family<OperationLabels, Counter>,
    operation_seconds: Seconds<ActionLabels>,
    commands: Family<CommandLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    call_seconds: Seconds<KindLabels>,
    pdu_calls: Family<CallLabels, Counter>,
    pdu_call_seconds: Seconds<KindLabels>,
    refused: Family<ReasonLabels, Counter>,
    reloads: Family<ResultLabels, Counter>,
    reloaded: Gauge,
    current: Gauge,
    overridden: Counter,
    journal_errors: Counter,
    journal_writable: Gauge,
    journal_reopened: Counter,
    journal_created: Family<OriginLabels, Gauge>,
    hosts: Gauge,
    watched_hosts: Gauge,
    running: Gauge,
    waiting: Gauge,
    holds: Gauge,
    certificate: Gauge,
    accepted: Counter,
    handshakes: Family<ReasonLabels, Counter>,
    /// Last sampled values of the two counters above.
    told: Mutex<BTreeMap<&'static str, u64>>,
    accepted_told: AtomicU64,
    reopened_told: AtomicU64,
    memory: Gauge,
    descriptors: Gauge,
    most_descriptors: Gauge,
}

/// Buckets from 50 ms to about 14 minutes.
fn operation_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.05, 2.0, 15))
}

/// Buckets from 1 ms to about 16 s.
fn call_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("rackhand_agent"),
            operations: Family::default(),
            operation_seconds: Family::new_with_constructor(operation_histogram),
            commands: Family::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(call_histogram),
            pdu_calls: Family::default(),
            pdu_call_seconds: Family::new_with_constructor(call_histogram),
            refused: Family::default(),
            reloads: Family::default(),
            reloaded: Gauge::default(),
            current: Gauge::default(),
            overridden: Counter::default(),
            journal_errors: Counter::default(),
            journal_writable: Gauge::default(),
            journal_reopened: Counter::default(),
            journal_created: Family::default(),
            hosts: Gauge::default(),
            watched_hosts: Gauge::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            holds: Gauge::default(),
            certificate: Gauge::default(),
            accepted: Counter::default(),
            handshakes: Family::default(),
            told: Mutex::default(),
            accepted_told: AtomicU64::new(0),
            reopened_told: AtomicU64::new(0),
            memory: Gauge::default(),
            descriptors: Gauge::default(),
            most_descriptors: Gauge::default(),
        };
        metrics.register();
        // A counter needs an initial value, so that rates are correct.
        for result in ["taken", "refused"] {
            metrics
                .reloads
                .get_or_create(&ResultLabels { result })
                .inc_by(0);
        }
        metrics.current.set(1);
        metrics.reloaded.set(unix_seconds());
        metrics
    }

    pub(crate) fn operation(&self, action: &'static str, outcome: &'static str, took: Duration) {
        let labels = OperationLabels { action, outcome };
        self.operations.get_or_create(&labels).inc();
        let labels = ActionLabels { action };
        let seconds = self.operation_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn command(&self, command: &'static str) {
        self.commands
            .get_or_create(&CommandLabels { command })
            .inc();
    }

    pub(crate) fn call(&self, call: &'static str, error: Option<ErrorKind>, took: Duration) {
        let result = error.map_or("ok", error_word);
        self.calls.get_or_create(&CallLabels { call, result }).inc();
        let seconds = self.call_seconds.get_or_create(&KindLabels { call });
        seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn pdu_call(&self, call: &'static str, error: Option<ErrorKind>, took: Duration) {
        let result = error.map_or("ok", error_word);
        let labels = CallLabels { call, result };
        self.pdu_calls.get_or_create(&labels).inc();
        let seconds = self.pdu_call_seconds.get_or_create(&KindLabels { call });
        seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn overridden(&self) {
        self.overridden.inc();
    }

    pub(crate) fn journal_error(&self) {
        self.journal_errors.inc();
    }

    pub(crate) fn reload(&self, taken: bool) {
        let result = if taken { "taken" } else { "refused" };
        self.reloads.get_or_create(&ResultLabels { result }).inc();
        self.current.set(i64::from(taken));
        if taken {
            self.reloaded.set(unix_seconds());
        }
    }

    /// Renders the metrics in the OpenMetrics text format.
    pub(crate) fn render(&self, now: &Sampled) -> String {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.hosts.set(count(now.hosts));
        self.watched_hosts.set(count(now.watched_hosts));
        self.running.set(count(now.running));
        self.waiting.set(count(now.waiting));
        if let Some(holds) = now.holds {
            self.holds.set(count(holds));
        }
        self.certificate.set(now.certificate_until);
        self.journal_writable.set(i64::from(now.journal.writable));
        let reopened = now.journal.reopened;
        let before = self.reopened_told.swap(reopened, Ordering::Relaxed);
        self.journal_reopened
            .inc_by(reopened.saturating_sub(before));
        let origin = OriginLabels {
            origin: now.journal.origin,
        };
        let created = self.journal_created.get_or_create(&origin);
        created.set(now.journal.created);
        let before = self
            .accepted_told
            .swap(now.connections_accepted, Ordering::Relaxed);
        self.accepted
            .inc_by(now.connections_accepted.saturating_sub(before));
        let mut told = self.told.lock();
        for &(reason, total) in &now.connections_refused {
            let before = told.insert(reason, total).unwrap_or(0);
            let counter = self.handshakes.get_or_create(&ReasonLabels { reason });
            counter.inc_by(total.saturating_sub(before));
        }
        drop(told);
        let usage = process::usage();
        self.memory.set(usage.memory);
        self.descriptors.set(usage.descriptors);
        self.most_descriptors.set(usage.most_descriptors);
        let mut text = String::new();
        // Writing to a String does not fail.
        encode(&mut text, &self.registry).ok();
        text
    }
}

fn unix_seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Label of an error kind, as documented.
fn error_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unreachable => "unreachable",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Tls => "tls",
        ErrorKind::Authentication => "authentication",
        ErrorKind::Privilege => "privilege",
        ErrorKind::Protocol => "protocol",
        ErrorKind::System => "system",
        ErrorKind::Busy => "busy",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::ButtonOnly => "button-only",
        ErrorKind::Precondition => "precondition",
        ErrorKind::Refused => "refused",
        ErrorKind::Configuration => "configuration",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_rendered_once() {
        let metrics = Metrics::new();
        metrics.operation("off", "confirmed", Duration::from_secs(3));
        metrics.call("read", Some(ErrorKind::Timeout), Duration::from_millis(5));
        metrics.pdu_call("command", None, Duration::from_millis(5));
        metrics.refused("stale-term");
        metrics.reload(false);
        let sampled = Sampled {
            hosts: 7,
            watched_hosts: 5,
            holds: Some(2),
            connections_accepted: 3,
            connections_refused: vec![("no-certificate", 2), ("expired", 0)],
            ..Sampled::default()
        };
        metrics.render(&sampled);
        // The last value is kept while the journal cannot be read.
        let text = metrics.render(&Sampled {
            holds: None,
            ..sampled
        });
        for line in [
            "rackhand_agent_operations_total{action=\"off\",outcome=\"confirmed\"} 1",
            "rackhand_agent_bmc_calls_total{call=\"read\",result=\"timeout\"} 1",
            "rackhand_agent_pdu_calls_total{call=\"command\",result=\"ok\"} 1",
            "rackhand_agent_refused_requests_total{reason=\"stale-term\"} 1",
            "rackhand_agent_reloads_total{result=\"refused\"} 1",
            "rackhand_agent_configuration_current 0",
            "rackhand_agent_hosts 7",
            "rackhand_agent_watched_hosts 5",
            "rackhand_agent_holds 2",
            "rackhand_agent_connections_total 3",
            "rackhand_agent_refused_connections_total{reason=\"no-certificate\"} 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
