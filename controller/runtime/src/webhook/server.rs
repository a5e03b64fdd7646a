//! The server that a Kubernetes API server calls.

use std::sync::Arc;

use anyhow::Context as _;
use axum::{
    Json, Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use rackhand_proto::WebTls;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::review::{Hook, answer};
use crate::{config::WebhookConfig, https::Https};

/// Cluster API's and medik8s' own paths, so that a configuration that points at them fits here too.
const VALIDATE: &str = "/validate-cluster-x-k8s-io-v1beta2-machinehealthcheck";
const MUTATE: &str = "/mutate-cluster-x-k8s-io-v1beta2-machinehealthcheck";
const VALIDATE_NODES: &str = "/validate-remediation-medik8s-io-v1alpha1-nodehealthcheck";
/// Two objects, each as large as etcd takes it, and something around them.
const BODY_LIMIT: usize = 8 << 20;

/// The webhook server.
pub(crate) struct Webhook {
    https: Https,
}

/// Reads the certificate and binds the address at once, so that a wrong one ends the start.
///
/// # Errors
/// The certificate cannot be used, or the address cannot be bound.
pub(crate) async fn bind(config: &WebhookConfig) -> anyhow::Result<Webhook> {
    let WebhookConfig { address, tls_dir } = config;
    let tls = WebTls::in_dir(tls_dir)
        .with_context(|| format!("webhook TLS directory {}", tls_dir.display()))?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("webhook address {address}"))?;
    let https = Https {
        name: "webhook",
        listener,
        tls: Arc::new(tls),
    };
    Ok(Webhook { https })
}

impl Webhook {
    /// Where it listens.
    ///
    /// # Errors
    /// The socket does not say.
    #[cfg(test)]
    pub(crate) fn address(&self) -> std::io::Result<std::net::SocketAddr> {
        self.https.listener.local_addr()
    }

    /// Serves until `cancel`.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        self.https.run(app(), cancel).await;
    }
}

fn app() -> Router {
    let hook = |hook: Hook| post(move |body: Bytes| async move { respond(hook, &body) });
    Router::new()
        .route(VALIDATE, hook(Hook::Validate))
        .route(MUTATE, hook(Hook::Mutate))
        .route(VALIDATE_NODES, hook(Hook::ValidateNodes))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
}

fn respond(hook: Hook, body: &[u8]) -> Response {
    match answer(hook, body) {
        Ok(review) => Json(review).into_response(),
        Err(error) => {
            tracing::warn!(%error, "a request to the webhook is not understood");
            (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
        }
    }
}
