//! An agent of another version: a gRPC server that passes on to a real agent what its contract knows.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::Path,
    sync::Arc,
    task::{Context, Poll},
};

use anyhow::Result;
use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use parking_lot::Mutex;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use rackhand_proto::{
    ClientTls, ServerTls, TlsFiles,
    tls::{AcceptLimits, incoming},
};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{Service, http},
    server::{Grpc, NamedService, ServerStreamingService},
    transport::{Channel, Server, server::TcpIncoming},
};

use super::{
    Contract, SERVICE,
    dynamic::{Known, send},
};

/// The agent of another version, which ends when this is dropped.
#[derive(Debug)]
pub struct ContractProxy {
    address: String,
    calls: Calls,
    task: tokio::task::AbortHandle,
}

/// How often each method was called.
type Calls = Arc<Mutex<BTreeMap<String, u64>>>;

impl Drop for ContractProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ContractProxy {
    /// Serves a rack at a free port, with the agent's certificate in `server`; it calls the real agent at
    /// `upstream` with the controller's certificate in `client`.
    ///
    /// # Errors
    /// A certificate does not read, or there is no port.
    pub async fn start(
        contract: Contract,
        rack: &str,
        upstream: &str,
        (server, client): (&Path, &Path),
    ) -> Result<Self> {
        let client = ClientTls::controller(TlsFiles::in_dir(client))?;
        let channel = rackhand_proto::connect_lazy(upstream, rack, &client)?;
        let tls = Arc::new(ServerTls::load(TlsFiles::in_dir(server), rack)?);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let connections = incoming(TcpIncoming::from(listener), tls, AcceptLimits::default());
        let calls = Calls::default();
        let service = Passing {
            contract,
            channel,
            calls: Arc::clone(&calls),
        };
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(connections);
        let task = tokio::spawn(serving).abort_handle();
        Ok(Self {
            address,
            calls,
            task,
        })
    }

    /// Address on which the proxy listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How often a method of the contract was called so far.
    #[must_use]
    pub fn calls(&self, method: &str) -> u64 {
        self.calls.lock().get(method).copied().unwrap_or_default()
    }
}

#[derive(Clone)]
struct Passing {
    contract: Contract,
    channel: Channel,
    calls: Calls,
}

impl NamedService for Passing {
    const NAME: &'static str = SERVICE;
}

impl Service<http::Request<Body>> for Passing {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        let found = self.contract.method(name);
        if found.is_ok() {
            *self.calls.lock().entry(name.to_owned()).or_default() += 1;
        }
        let channel = self.channel.clone();
        Box::pin(async move {
            let Ok(method) = found else {
                return Ok(Status::unimplemented("a method of a later version").into_http());
            };
            let codec = Known(method.input());
            let passing = PassingCall { method, channel };
            Ok(Grpc::new(codec).server_streaming(passing, request).await)
        })
    }
}

struct PassingCall {
    method: MethodDescriptor,
    channel: Channel,
}

impl ServerStreamingService<DynamicMessage> for PassingCall {
    type Response = DynamicMessage;
    type ResponseStream = BoxStream<'static, Result<DynamicMessage, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<DynamicMessage>) -> Self::Future {
        let (method, channel) = (self.method.clone(), self.channel.clone());
        Box::pin(async move {
            let path = format!("/{SERVICE}/{}", method.name());
            let path = path.parse().map_err(|_| Status::internal("no path"))?;
            let (metadata, extensions, message) = request.into_parts();
            let mut passed = Request::from_parts(metadata, tonic::Extensions::default(), message);
            drop(extensions);
            passed.metadata_mut().remove("content-type");
            let answered = send(&channel, path, method.output(), passed).await?;
            Ok(answered.map(|stream| stream.boxed()))
        })
    }
}
