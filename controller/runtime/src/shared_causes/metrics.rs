//! Metrics of shared causes.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::store::metrics::{ReasonCounter, ReasonLabels, own_metrics, register};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    domain: &'static str,
    name: String,
    likely: &'static str,
}

/// The open causes by kind and name of the domain: the likely cause, and the number of failed hosts.
pub(super) type OpenCauses = BTreeMap<(&'static str, String), (&'static str, i64)>;

pub(crate) struct SharedCauseMetrics {
    failed_hosts: Family<CauseLabels, Gauge>,
    /// The open causes that have a series.
    open: Mutex<OpenCauses>,
    events: ReasonCounter,
}

impl SharedCauseMetrics {
    /// `events` counts the Events of remediations.
    pub(crate) fn register(registry: &mut Registry, events: ReasonCounter) -> Self {
        Self {
            failed_hosts: register(
                own_metrics(registry),
                "shared_cause_failed_hosts",
                "Hosts that are failed for one cause, by what they share and what is likely",
                Family::default(),
            ),
            open: Mutex::default(),
            events,
        }
    }

    pub(super) fn count_event(&self, reason: &'static str) {
        self.events.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Sets the series of the open causes, and removes all other series.
    pub(super) fn set_open(&self, open: &OpenCauses) {
        let labels = |(domain, name): &(&'static str, String), likely| CauseLabels {
            domain,
            name: name.clone(),
            likely,
        };
        let mut before = self.open.lock();
        if *before == *open {
            return;
        }
        for (cause, (likely, _)) in before.iter() {
            self.failed_hosts.remove(&labels(cause, likely));
        }
        for (cause, (likely, failed)) in open {
            let series = self.failed_hosts.get_or_create(&labels(cause, likely));
            series.set(*failed);
        }
        before.clone_from(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::{assert_documented, render};

    #[test]
    fn open_causes_have_a_series_until_they_end() {
        let mut registry = Registry::default();
        let metrics = SharedCauseMetrics::register(&mut registry, ReasonCounter::default());
        let cause = (("Rack", "r1".to_owned()), ("Network", 7));
        metrics.set_open(&BTreeMap::from([cause]));
        assert_documented(&registry, 1);
        metrics.set_open(&BTreeMap::new());
        let series = "rackhand_shared_cause_failed_hosts{";
        assert!(!render(&registry).contains(series));
    }
}
