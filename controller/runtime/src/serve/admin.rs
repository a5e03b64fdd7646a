//! The admin server: `/livez`, `/readyz` and, on a loopback address, `/metrics`.
//!
//! Plain HTTP, so it serves no secrets. Other callers read metrics over HTTPS, see
//! [`crate::serve::authenticated`].

use std::{future::IntoFuture, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use prometheus_client::registry::Registry;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{config::METRICS_PATH, store::metrics::render};

pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NOT_HERE: &str =
    "metrics are given in plain HTTP on a loopback address only: see --metrics-address\n";

/// Binds the admin address at the start, so that an invalid address ends the process.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until `cancel`. The process is ready once every watch has synced, on standby too.
pub(crate) async fn serve(
    listener: TcpListener,
    metrics: Arc<Registry>,
    ready: watch::Receiver<bool>,
    cancel: CancellationToken,
) {
    let is_local = listener
        .local_addr()
        .is_ok_and(|address| address.ip().is_loopback());
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
            METRICS_PATH,
            get(move || {
                let text = is_local.then(|| render(&metrics));
                async move {
                    match text {
                        Some(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
                        None => (StatusCode::FORBIDDEN, NOT_HERE).into_response(),
                    }
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    async fn get(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn plain_http_metrics_are_served_on_loopback_only() {
        for (address, status) in [("127.0.0.1:0", "200 OK"), ("0.0.0.0:0", "403 Forbidden")] {
            let listener = bind(address.parse().unwrap()).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let (_ready, is_ready) = watch::channel(true);
            let cancel = CancellationToken::new();
            let serving = tokio::spawn(serve(listener, Arc::default(), is_ready, cancel.clone()));
            let answer = get(port, "/metrics").await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            let probe = get(port, "/readyz").await;
            assert!(probe.starts_with("HTTP/1.1 200"), "{probe}");
            cancel.cancel();
            serving.await.unwrap();
        }
    }
}
