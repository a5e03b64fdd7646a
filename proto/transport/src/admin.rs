//! The admin server of controller and agent: `/livez`, `/readyz`, and the metrics that they add, over plain HTTP.
//!
//! Must never: expose a secret, because anyone who reaches the address reads it.

use std::{future::IntoFuture, time::Duration};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The content type of metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Time that open connections have once the server ends.
const CLOSE: Duration = Duration::from_secs(1);

/// `/livez`, and `/readyz` with the reason why the process is not ready; `None`: it is ready.
pub fn probes<F>(not_ready: F) -> Router
where
    F: Fn() -> Option<String> + Clone + Send + Sync + 'static,
{
    let ready = get(move || {
        let not_ready = not_ready();
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

/// Metrics in the text format, as a response.
pub fn metrics_response(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPEN_METRICS)], text)
}

/// Serves until `stop` is cancelled.
pub async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
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
            tokio::time::sleep(CLOSE).await;
        } => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        sync::watch,
    };

    use super::*;

    async fn answer(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_says_why_not_and_an_idle_connection_does_not_delay_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ready, is_ready) = watch::channel(false);
        let not_ready = move || (!*is_ready.borrow()).then(|| "not yet".to_owned());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, probes(not_ready), stop.clone()));
        assert!(answer(port, "/livez").await.starts_with("HTTP/1.1 200"));
        let unready = answer(port, "/readyz").await;
        assert!(unready.starts_with("HTTP/1.1 503"), "{unready}");
        assert!(unready.ends_with("\r\n\r\nnot yet\n"), "{unready}");
        ready.send(true).unwrap();
        assert!(answer(port, "/readyz").await.starts_with("HTTP/1.1 200"));
        let idle = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stop.cancel();
        let ended = tokio::time::timeout(CLOSE * 10, serving).await;
        ended.unwrap().unwrap();
        drop(idle);
    }
}
