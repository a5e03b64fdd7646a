//! HTTP endpoints /livez, /readyz and /metrics.
//!
//! Must never: expose a secret, because the endpoints are plain HTTP.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use axum::{Router, http::StatusCode, routing::get};
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// State that the endpoints report.
pub(crate) trait AdminState: Send + Sync + 'static {
    /// Reason why the agent accepts no commands; `None`: it accepts them.
    fn not_ready(&self) -> Option<String>;

    /// All metrics in the text format.
    fn metrics(&self) -> BoxFuture<'_, String>;
}

/// `/livez` and `/readyz`.
pub(crate) fn probes(told: Arc<dyn AdminState>) -> Router {
    let ready = get(move || {
        let not_ready = told.not_ready();
        async move {
            match not_ready {
                None => (StatusCode::OK, "ok\n".to_owned()),
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            }
        }
    });
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", ready)
}

/// [`probes`], and `/metrics`.
pub(crate) fn all(told: Arc<dyn AdminState>) -> Router {
    let metrics = told.clone();
    probes(told).route(
        "/metrics",
        get(move || {
            let metrics = metrics.clone();
            async move { ([("content-type", OPEN_METRICS)], metrics.metrics().await) }
        }),
    )
}

/// Serves until `stop` is cancelled.
pub(crate) async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    let stopped = stop.clone();
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(async move { stopped.cancelled().await })
        .into_future();
    // A client that keeps a connection open must not keep the process alive.
    tokio::select! {
        result = served => {
            if let Err(error) = result {
                tracing::error!(%error, "admin server ended");
            }
        }
        () = async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        } => {}
    }
}
