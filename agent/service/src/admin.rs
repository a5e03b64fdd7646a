//! HTTP endpoints /livez, /readyz and /metrics.

use std::sync::Arc;

use axum::{Router, routing::get};
use futures::future::BoxFuture;
use rackhand_transport::admin;

/// State that the endpoints report.
pub(crate) trait AdminState: Send + Sync + 'static {
    /// Reason why the agent accepts no commands; `None`: it accepts them.
    fn not_ready(&self) -> Option<String>;

    /// All metrics in the text format.
    fn metrics(&self) -> BoxFuture<'_, String>;
}

/// `/livez` and `/readyz`.
pub(crate) fn probes(told: Arc<dyn AdminState>) -> Router {
    admin::probes(move || told.not_ready())
}

/// [`probes`], and `/metrics`.
pub(crate) fn all(told: Arc<dyn AdminState>) -> Router {
    let metrics = told.clone();
    probes(told).route(
        "/metrics",
        get(move || {
            let metrics = metrics.clone();
            async move { admin::metrics_response(metrics.metrics().await) }
        }),
    )
}
