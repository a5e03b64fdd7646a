//! The HTTPS server that a Kubernetes API server calls.
//!
//! Owns its connections: at most so many, each with its deadlines. Must never let a slow or broken
//! caller hold up another one.

use std::{io, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Json, Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rackhand_proto::{WebTls, tls::RELOAD_INTERVAL};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::review::{Hook, answer};
use crate::config::WebhookConfig;

/// Cluster API's and medik8s' own paths, so that a configuration that points at them fits here too.
const VALIDATE: &str = "/validate-cluster-x-k8s-io-v1beta2-machinehealthcheck";
const MUTATE: &str = "/mutate-cluster-x-k8s-io-v1beta2-machinehealthcheck";
const VALIDATE_NODES: &str = "/validate-remediation-medik8s-io-v1alpha1-nodehealthcheck";
/// Two objects, each as large as etcd takes it, and something around them.
const BODY_LIMIT: usize = 8 << 20;
/// Connections at one time: the API servers of one cluster keep a few each.
const CONNECTIONS: usize = 128;
/// How long a handshake, or the head of a request, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last; the next request comes over another.
const LIFETIME: Duration = Duration::from_secs(120);

/// The webhook server.
pub(crate) struct Webhook {
    listener: TcpListener,
    tls: Arc<WebTls>,
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
    let tls = Arc::new(tls);
    Ok(Webhook { listener, tls })
}

impl Webhook {
    /// Where it listens.
    ///
    /// # Errors
    /// The socket does not say.
    #[cfg(test)]
    pub(crate) fn address(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `cancel`, with the newest certificate.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let watching = self.tls.clone().watch(RELOAD_INTERVAL);
        tokio::select! {
            () = self.serve(cancel) => {}
            () = watching => {}
        }
    }

    async fn serve(self, cancel: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        let app = app();
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = cancel.cancelled() => break,
                accepted = accept(&self.listener, &slots) => accepted,
            };
            let (stream, slot) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, say: it must not end the service.
                    tracing::warn!(%error, "cannot accept a connection to the webhook");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let acceptor = TlsAcceptor::from(self.tls.config());
            let (app, cancel) = (app.clone(), cancel.clone());
            connections.spawn(async move {
                connection(stream, &acceptor, app, &cancel).await;
                drop(slot);
            });
        }
        // An API server that keeps a connection open must not keep the process alive.
        let end = async { while connections.join_next().await.is_some() {} };
        timeout(Duration::from_secs(1), end).await.ok();
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = slots
        .clone()
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

async fn connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    app: Router,
    cancel: &CancellationToken,
) {
    let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake with the webhook refused");
            return;
        }
        Err(_) => return,
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(served);
    tokio::select! {
        result = &mut served => {
            if let Err(error) = result {
                tracing::debug!(%error, "a connection to the webhook ended");
            }
            return;
        }
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(LIFETIME) => {}
    }
    served.as_mut().graceful_shutdown();
    timeout(PATIENCE, served).await.ok();
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
