//! Metrics of the connections to rack agents.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

use crate::store::metrics::{own_metrics, register};

/// Counts the agents by connection.
#[derive(Clone)]
pub(crate) struct AgentMetrics {
    known: Gauge,
    connected: Gauge,
    term_outliers: Gauge,
}

impl AgentMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let r = own_metrics(registry);
        let help =
            "Rack agents that are not used because their term of this election is not followed";
        Self {
            known: register(
                r,
                "agents",
                "Rack agents that a RackAgent names",
                Gauge::default(),
            ),
            connected: register(
                r,
                "agents_connected",
                "Rack agents that answer",
                Gauge::default(),
            ),
            term_outliers: register(r, "agents_term_outliers", help, Gauge::default()),
        }
    }

    pub(super) fn set(&self, known: usize, connected: i64, term_outliers: i64) {
        self.known.set(i64::try_from(known).unwrap_or(i64::MAX));
        self.connected.set(connected);
        self.term_outliers.set(term_outliers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::assert_documented;

    #[test]
    fn agent_metrics_are_documented() {
        let mut registry = Registry::default();
        AgentMetrics::register(&mut registry);
        assert_documented(&registry, 3);
    }
}
