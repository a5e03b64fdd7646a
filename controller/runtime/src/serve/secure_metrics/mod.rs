//! /metrics over HTTPS, for whoever the Kubernetes API server lets read it.
//!
//! The caller shows a bearer token. A TokenReview tells whose it is, and a SubjectAccessReview whether
//! they may `get` the path /metrics, as for controllers that are built with controller-runtime.

mod review;

use std::sync::Arc;

use anyhow::Context as _;
use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use kube::Client;
use rackhand_proto::WebTls;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{METRICS_PATH, MetricsConfig},
    serve::{admin::OPEN_METRICS, https::Https},
    store::metrics::Metrics,
};
use review::{Access, Reviewer};

/// Longer tokens are refused unread.
const LONGEST_TOKEN: usize = 16 << 10;

/// Reads or makes the certificate and binds the address at once, so that a wrong one ends the start.
///
/// # Errors
/// The certificate cannot be used, or the address cannot be bound.
pub(crate) async fn bind(config: &MetricsConfig) -> anyhow::Result<Https> {
    let MetricsConfig { address, tls_dir } = config;
    let tls = match tls_dir {
        Some(dir) => WebTls::in_dir(dir)
            .with_context(|| format!("metrics TLS directory {}", dir.display()))?,
        None => WebTls::self_signed("rackhand-controller-metrics")?,
    };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("metrics address {address}"))?;
    Ok(Https {
        name: "metrics",
        listener,
        tls: Arc::new(tls),
    })
}

/// Serves until `cancel`.
pub(crate) async fn run(
    https: Https,
    client: Client,
    metrics: Arc<Metrics>,
    cancel: CancellationToken,
) {
    let reviewer = Arc::new(Reviewer::new(client));
    let answer = move |headers: HeaderMap| {
        let (reviewer, metrics) = (reviewer.clone(), metrics.clone());
        async move { answer(&reviewer, &metrics, &headers).await }
    };
    let app = Router::new().route(METRICS_PATH, get(answer));
    https.run(app, cancel).await;
}

async fn answer(reviewer: &Reviewer, metrics: &Metrics, headers: &HeaderMap) -> Response {
    let Some(token) = bearer(headers) else {
        return unauthenticated("send the token of an account as a bearer token\n");
    };
    match reviewer.access(token, Instant::now()).await {
        Ok(Access::Granted) => {
            ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.render()).into_response()
        }
        Ok(Access::Unauthenticated) => unauthenticated("the token is not valid\n"),
        Ok(Access::Forbidden(user)) => (
            StatusCode::FORBIDDEN,
            format!("{user} may not get {METRICS_PATH}: bind the ClusterRole rackhand-metrics-reader to it\n"),
        )
            .into_response(),
        Err(error) => {
            tracing::warn!(%error, "cannot check who reads metrics");
            (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response()
        }
    }
}

fn unauthenticated(why: &'static str) -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, why).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    (is_token && token.len() <= LONGEST_TOKEN).then_some(token)
}

#[cfg(test)]
mod tests;
