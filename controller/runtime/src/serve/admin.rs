//! The admin server: `/livez`, `/readyz` and, on a loopback address, `/metrics`.
//!
//! Plain HTTP, so it serves no secrets. Other callers read metrics over HTTPS, see
//! [`crate::serve::authenticated`].

use std::{net::SocketAddr, sync::Arc};

use axum::{http::StatusCode, response::IntoResponse, routing::get};
use prometheus_client::registry::Registry;
use rackhand_transport::admin;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{config::METRICS_PATH, store::metrics::render};

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
    let not_ready = move || (!*ready.borrow()).then(|| "watches are not synced yet".to_owned());
    let app = admin::probes(not_ready).route(
        METRICS_PATH,
        get(move || {
            let text = is_local.then(|| render(&metrics));
            async move {
                match text {
                    Some(text) => admin::metrics_response(text).into_response(),
                    None => (StatusCode::FORBIDDEN, NOT_HERE).into_response(),
                }
            }
        }),
    );
    admin::serve(listener, app, cancel).await;
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
