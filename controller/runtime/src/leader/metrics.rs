//! Metrics of leadership and of the writes that depend on it.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::store::metrics::{own_metrics, register};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    operation: &'static str,
    result: &'static str,
}

/// Counts writes and shows whether this process leads.
#[derive(Clone)]
pub(crate) struct LeaderMetrics {
    writes: Family<WriteLabels, Counter>,
    leader: Gauge,
}

impl LeaderMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let r = own_metrics(registry);
        let help = "Writes to Kubernetes by operation and result";
        Self {
            writes: register(r, "writes", help, Family::default()),
            leader: register(r, "leader", "1 while this process leads", Gauge::default()),
        }
    }

    pub(super) fn count_write(&self, operation: &'static str, result: &'static str) {
        let labels = WriteLabels { operation, result };
        self.writes.get_or_create(&labels).inc();
    }

    pub(crate) fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::assert_documented;

    #[test]
    fn leader_metrics_are_documented() {
        let mut registry = Registry::default();
        let metrics = LeaderMetrics::register(&mut registry);
        metrics.count_write("patch", "ok");
        assert_documented(&registry, 2);
    }
}
