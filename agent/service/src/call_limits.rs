//! Limits of concurrent calls per caller, and rejection of callers with an expired certificate.
//!
//! A request counts until its response has been sent, a stream until it has ended. Must never: let
//! one caller exhaust the capacity of others.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_transport::tls::PeerInfo;
use tonic::{Status, body::Body, transport::server::UdsConnectInfo};
use tower::{Layer, Service};

/// Maximum number of concurrent requests and streams of one identity. A controller may follow an
/// operation of each of several thousand hosts.
pub(crate) const CALLS_PER_IDENTITY: usize = 4096;

/// Number of calls in flight, by caller.
#[derive(Debug, Clone)]
pub(crate) struct CallLimits {
    most: usize,
    calls: Arc<Mutex<HashMap<String, usize>>>,
}

impl CallLimits {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            calls: Arc::default(),
        }
    }

    /// Counts one more call of this caller.
    fn take(&self, caller: &str) -> Result<Call, Status> {
        let mut calls = self.calls.lock();
        let count = calls.get(caller).copied().unwrap_or(0);
        if count >= self.most {
            return Err(Status::resource_exhausted(format!(
                "{caller} has {count} calls under way, which is the most for one caller: wait until some have ended"
            )));
        }
        calls.insert(caller.to_owned(), count + 1);
        Ok(Call {
            limits: self.clone(),
            caller: caller.to_owned(),
        })
    }
}

/// A counted call; dropping it ends it.
#[derive(Debug)]
struct Call {
    limits: CallLimits,
    caller: String,
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = self.limits.calls.lock();
        if let Some(count) = calls.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                calls.remove(&self.caller);
            }
        }
    }
}

/// Rejects a caller whose certificate has expired since the handshake.
fn check_validity(peer: &PeerInfo, now: Timestamp) -> Result<(), Status> {
    if now <= peer.not_after {
        return Ok(());
    }
    Err(Status::unauthenticated(format!(
        "the certificate of {} expired on {}: renew it and connect again",
        peer.identity, peer.not_after
    )))
}

/// Name of the caller, for counting.
fn caller<A>(request: &Request<A>) -> String {
    let extensions = request.extensions();
    if let Some(peer) = extensions.get::<PeerInfo>() {
        return peer.identity.to_string();
    }
    let local = extensions.get::<UdsConnectInfo>();
    let user = local.and_then(|local| local.peer_cred.as_ref());
    user.map_or_else(
        || "an unknown local user".to_owned(),
        |user| format!("local user {}", user.uid()),
    )
}

impl<S> Layer<S> for CallLimits {
    type Service = LimitedCalls<S>;

    fn layer(&self, inner: S) -> LimitedCalls<S> {
        let limits = self.clone();
        LimitedCalls { inner, limits }
    }
}

/// The service whose callers have a limit of concurrent calls.
#[derive(Debug, Clone)]
pub(crate) struct LimitedCalls<S> {
    inner: S,
    limits: CallLimits,
}

impl<S, A> Service<Request<A>> for LimitedCalls<S>
where
    S: Service<Request<A>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let peer = request.extensions().get::<PeerInfo>();
        let valid = peer.map_or(Ok(()), |peer| check_validity(peer, Timestamp::now()));
        let taken = valid.and_then(|()| self.limits.take(&caller(&request)));
        let call = match taken {
            Ok(call) => call,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| Body::new(CountedBody { body, _call: call })))
        })
    }
}

/// The body of a response, counted until it has been sent.
#[derive(Debug)]
struct CountedBody {
    body: Body,
    _call: Call,
}

impl HttpBody for CountedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use rackhand_transport::Identity;
    use tonic::Code;

    use super::*;

    #[test]
    fn call_limit_applies_to_each_caller_separately() {
        let limits = CallLimits::new(2);
        let first = limits.take("operator ann").unwrap();
        let _second = limits.take("operator ann").unwrap();
        let refused = limits.take("operator ann").unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains("operator ann has 2 calls"));
        let controller = limits.take("controller").unwrap();
        drop(first);
        let third = limits.take("operator ann").unwrap();
        drop((controller, third, _second));
        assert!(limits.calls.lock().is_empty(), "no entry is left");
    }

    #[test]
    fn request_with_an_expired_certificate_is_rejected() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let peer = PeerInfo {
            addr: None,
            identity: Identity::Controller,
            not_after: at(100),
        };
        assert!(check_validity(&peer, at(100)).is_ok());
        let refused = check_validity(&peer, at(101)).unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert_eq!(
            refused.message(),
            "the certificate of controller expired on 1970-01-01T00:01:40Z: renew it and connect again"
        );
    }
}
