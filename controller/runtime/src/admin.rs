//! /livez, /readyz and /metrics.
//!
//! Must never tell anything that is secret: it is plain HTTP.

use std::{future::IntoFuture, net::SocketAddr, sync::Arc};

use axum::{Router, http::StatusCode, routing::get};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Binds the admin address at once, so that a wrong one ends the start.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until `cancel`. Ready once every watch has synced: a standby is ready too.
pub(crate) async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    ready: watch::Receiver<bool>,
    cancel: CancellationToken,
) {
    let app = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route(
            "/readyz",
            get(move || {
                let ready = *ready.borrow();
                async move {
                    if ready {
                        (StatusCode::OK, "ok\n")
                    } else {
                        (
                            StatusCode::SERVICE_UNAVAILABLE,
                            "watches are not synced yet\n",
                        )
                    }
                }
            }),
        )
        .route(
            "/metrics",
            get(move || {
                let text = metrics.render();
                async move {
                    (
                        [(
                            "content-type",
                            "application/openmetrics-text; version=1.0.0; charset=utf-8",
                        )],
                        text,
                    )
                }
            }),
        );
    let stop = cancel.clone();
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .into_future();
    // A client that keeps a connection open must not keep the process alive.
    tokio::select! {
        result = served => {
            if let Err(error) = result {
                tracing::error!(%error, "admin server ended");
            }
        }
        () = async {
            cancel.cancelled().await;
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        } => {}
    }
}
