//! Registration and rendering of metrics. Each part of the controller registers its own.
//!
//! Invariant: the number of values of a label never grows with the fleet.

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family},
    registry::{Metric, Registry},
};

/// The label of a counter by reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabels {
    pub(crate) reason: &'static str,
}

pub(crate) type ReasonCounter = Family<ReasonLabels, Counter>;

/// The registry of this controller's own metrics, whose names begin with `rackhand_`.
pub(crate) fn own_metrics(registry: &mut Registry) -> &mut Registry {
    registry.sub_registry_with_prefix("rackhand")
}

/// Registers a metric and returns its handle.
pub(crate) fn register<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Renders the metrics in the text format of Prometheus.
pub(crate) fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    encode(&mut text, registry).ok();
    text
}

/// Checks that docs/metrics.md lists all `count` metrics that have a value.
#[cfg(test)]
pub(crate) fn assert_documented(registry: &Registry, count: usize) {
    let text = render(registry);
    let page = include_str!("../../../../docs/metrics.md");
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<String> = types
        .filter_map(|line| match line.split_once(' ')? {
            (name, "counter") => Some(format!("{name}_total")),
            (name, _) => Some(name.to_owned()),
        })
        .collect();
    assert_eq!(names.len(), count, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name} is not listed");
    }
}
