//! How metrics are registered and rendered. Each part of the controller registers its own.
//!
//! No label may have values whose number grows with the fleet.

use prometheus_client::{
    encoding::text::encode,
    registry::{Metric, Registry},
};

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

/// The text that Prometheus reads.
pub(crate) fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    encode(&mut text, registry).ok();
    text
}
