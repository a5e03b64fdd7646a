//! Counters and log entries for rejected requests. A request that is logged elsewhere is only
//! counted.
//!
//! Must never: change a response, or log the content of a request.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use rackhand_transport::{Refusal, tls::PeerInfo};
use tonic::{Code, Status, transport::server::UdsConnectInfo};
use tower::{Layer, Service};
use tracing::warn;

use crate::metrics::Metrics;

/// Tower layer that adds [`Watched`].
#[derive(Debug, Clone)]
pub(crate) struct Refused(pub(crate) Arc<Metrics>);

impl<S> Layer<S> for Refused {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        let metrics = self.0.clone();
        Watched { inner, metrics }
    }
}

/// A service whose rejections are counted and logged.
#[derive(Debug, Clone)]
pub(crate) struct Watched<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, A, B> Service<Request<A>> for Watched<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let peer = peer(&request);
        let call = request.uri().path().rsplit('/').next();
        let call = call.unwrap_or_default().to_owned();
        let (metrics, answer) = (self.metrics.clone(), self.inner.call(request));
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(status) = Status::from_header_map(answer.headers())
                && let Some(reason) = reason(&status)
            {
                metrics.refused(reason);
                // A rejected operation is logged elsewhere, with its host and caller.
                if Refusal::of(&status).is_none() {
                    warn!(peer, call, reason, "refused: {}", status.message());
                }
            }
            Ok(answer)
        })
    }
}

/// Metric label of a rejection; `None`: the status is not a rejection.
fn reason(status: &Status) -> Option<&'static str> {
    if let Some(refusal) = Refusal::of(status) {
        return Some(refusal.label());
    }
    match status.code() {
        Code::PermissionDenied => Some("not-permitted"),
        Code::Unauthenticated => Some("unauthenticated"),
        Code::FailedPrecondition => Some("failed-precondition"),
        Code::InvalidArgument => Some("invalid"),
        Code::ResourceExhausted => Some("too-much"),
        _ => None,
    }
}

fn peer<A>(request: &Request<A>) -> String {
    let extensions = request.extensions();
    if let Some(peer) = extensions.get::<PeerInfo>() {
        let from = peer.addr.map_or_else(String::new, |addr| addr.to_string());
        return format!("{} at {from}", peer.identity);
    }
    let local = extensions.get::<UdsConnectInfo>();
    let user = local.and_then(|local| local.peer_cred.as_ref());
    user.map_or_else(String::new, |user| format!("local user {}", user.uid()))
}
