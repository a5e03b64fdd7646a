//! A connection to an agent that loses answers.

use std::{
    convert::Infallible,
    future::pending,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
    transport::{Channel, Server},
};

/// A socket that passes calls on to an agent.
pub(crate) struct Lossy {
    pub(crate) socket: PathBuf,
    passing: Passing,
    _runtime: tokio::runtime::Runtime,
}

impl Lossy {
    /// The first `losses` answers to this method do not arrive.
    pub(crate) fn start(agent: &Path, method: &'static str, losses: u32) -> Self {
        Self::start_as(agent, method, losses, false)
    }

    /// The same in front of an agent of a version without leases.
    pub(crate) fn start_old(agent: &Path, method: &'static str, losses: u32) -> Self {
        Self::start_as(agent, method, losses, true)
    }

    fn start_as(agent: &Path, method: &'static str, losses: u32, is_old: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let socket = agent.with_extension("lossy");
        let passing = runtime.block_on(async {
            Passing {
                channel: rackhand_transport::connect_local(agent).await.unwrap(),
                method,
                is_old,
                left: Arc::new(AtomicU32::new(losses)),
                calls: Arc::default(),
            }
        });
        let service = passing.clone();
        let at = socket.clone();
        runtime.spawn(async move {
            let listener = UnixListener::bind(at).unwrap();
            Server::builder()
                .add_service(service)
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
        });
        super::wait_for("the socket", || socket.exists());
        Self {
            socket,
            passing,
            _runtime: runtime,
        }
    }

    /// How often the method was called.
    pub(crate) fn calls(&self) -> u32 {
        self.passing.calls.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
struct Passing {
    channel: Channel,
    method: &'static str,
    is_old: bool,
    left: Arc<AtomicU32>,
    calls: Arc<AtomicU32>,
}

impl NamedService for Passing {
    const NAME: &'static str = "rackhand.power.v1.Power";
}

impl Service<http::Request<Body>> for Passing {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut channel = self.channel.clone();
        if self.is_old && request.uri().path().ends_with("/Attend") {
            let status = Status::unimplemented("a method of a later version");
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let is_counted = request.uri().path().ends_with(&format!("/{}", self.method));
        let (left, calls) = (self.left.clone(), self.calls.clone());
        Box::pin(async move {
            let is_lost = is_counted && {
                calls.fetch_add(1, Ordering::SeqCst);
                let less = |left: u32| left.checked_sub(1);
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                    .is_ok()
            };
            let ready = std::future::poll_fn(|context| channel.poll_ready(context)).await;
            let answered = match ready {
                Ok(()) => channel.call(request).await,
                Err(error) => Err(error),
            };
            if is_lost {
                pending::<()>().await;
            }
            let answered = answered.map_err(|error| Status::unavailable(error.to_string()));
            Ok(answered.unwrap_or_else(|status| status.into_http()))
        })
    }
}
