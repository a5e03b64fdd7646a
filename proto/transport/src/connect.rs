//! gRPC channels to the agent of a rack.
//!
//! Owns: parsing of the agent's address, time limits, and detection of dead peers. Must never:
//! connect to an agent of another rack, or without TLS (except for the local socket).

use std::{error::Error, future::Future, io, path::Path, sync::Arc, time::Duration};

use http::Uri;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::{CertificateError, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::tls::{ClientTls, WrongPeer, not_after};

/// Time limit for TCP connect and TLS handshake together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason why there is no connection to an agent.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The address is malformed.
    #[error("agent address {endpoint:?}: {reason}; expected host:port")]
    Endpoint {
        /// Endpoint as it was configured.
        endpoint: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// No TCP connection, or no socket.
    #[error("cannot reach the agent at {endpoint}: {source}")]
    Unreachable {
        /// The endpoint of the agent.
        endpoint: String,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// No response within the time limit.
    #[error("the agent at {endpoint} did not answer within {after:?}")]
    Timeout {
        /// The endpoint of the agent.
        endpoint: String,
        /// Time that the connection was given.
        after: Duration,
    },
    /// The peer's certificate is not that of a trusted agent of this rack.
    #[error("the agent at {endpoint} is not trusted as rack {rack}: {reason}")]
    Untrusted {
        /// The endpoint of the agent.
        endpoint: String,
        /// Rack that the certificate should name.
        rack: String,
        /// Why the certificate is not accepted.
        reason: String,
    },
    /// The handshake failed for another reason.
    #[error("TLS with the agent at {endpoint}: {reason}")]
    Tls {
        /// The endpoint of the agent.
        endpoint: String,
        /// The reason, as a clause for messages.
        reason: String,
    },
}

impl ConnectError {
    /// Whether a retry may succeed without a change of the configuration.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Tls { .. } => true,
            Self::Endpoint { .. } | Self::Untrusted { .. } => false,
        }
    }

    /// Finds an error of this type among the causes of another error.
    pub(crate) fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        chain(error).find_map(|error| error.downcast_ref())
    }
}

/// Iterates over an error and its causes. `io::Error` hides its inner error from `source`.
pub(crate) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let carried = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        carried.map_or_else(
            || error.source(),
            |inner| Some(inner as &(dyn Error + 'static)),
        )
    })
}

/// Creates a connected channel to the agent of `rack`. It reconnects automatically, with the
/// current certificate files, after the connection is lost.
pub async fn connect(endpoint: &str, rack: &str, tls: &ClientTls) -> Result<Channel, ConnectError> {
    let uri = authority(endpoint)?;
    let connector = connector(&uri, rack, tls, dial);
    eager(&uri, builder(&uri)?.connect_with_connector(connector).await)
}

/// Creates a channel that connects at the first call. An unreachable agent is an error of that
/// call.
pub fn connect_lazy(endpoint: &str, rack: &str, tls: &ClientTls) -> Result<Channel, ConnectError> {
    connect_lazy_over(endpoint, rack, tls, dial)
}

async fn dial(address: String) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Creates a lazy channel over another transport: `dial` gets `host:port`.
pub fn connect_lazy_over<D, F, IO>(
    endpoint: &str,
    rack: &str,
    tls: &ClientTls,
    dial: D,
) -> Result<Channel, ConnectError>
where
    D: Fn(String) -> F + Send + 'static,
    F: Future<Output = io::Result<IO>> + Send + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let uri = authority(endpoint)?;
    let connector = connector(&uri, rack, tls, dial);
    Ok(builder(&uri)?.connect_with_connector_lazy(connector))
}

/// Expiry of the certificate of the agent of `rack`, read over a connection that is closed at once.
pub async fn agent_not_after(
    endpoint: &str,
    rack: &str,
    tls: &ClientTls,
) -> Result<Timestamp, ConnectError> {
    let uri = authority(endpoint)?;
    let attempt = handshake(&uri, rack, tls, dial(uri.clone()));
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, attempt)
        .await
        .map_err(|_| ConnectError::Timeout {
            endpoint: uri.clone(),
            after: CONNECT_TIMEOUT,
        })??;
    let (_, connection) = stream.get_ref();
    let leaf = connection
        .peer_certificates()
        .and_then(|chain| chain.first());
    leaf.and_then(|leaf| not_after(leaf))
        .ok_or_else(|| ConnectError::Tls {
            endpoint: uri,
            reason: "its certificate has no readable end".to_owned(),
        })
}

/// Creates a channel to the local agent by its unix socket, without TLS; the socket's mode decides
/// who may connect.
pub async fn connect_local(socket: &Path) -> Result<Channel, ConnectError> {
    let name = socket.display().to_string();
    let path = socket.to_owned();
    let dialled = name.clone();
    let connector = service_fn(move |_: Uri| {
        let (path, endpoint) = (path.clone(), dialled.clone());
        async move {
            match UnixStream::connect(path).await {
                Ok(stream) => Ok(TokioIo::new(stream)),
                Err(source) => Err(ConnectError::Unreachable {
                    endpoint,
                    source: Arc::new(source),
                }),
            }
        }
    });
    let endpoint = builder("agent.local:0")?.connect_timeout(CONNECT_TIMEOUT);
    eager(&name, endpoint.connect_with_connector(connector).await)
}

fn eager(
    endpoint: &str,
    result: Result<Channel, tonic::transport::Error>,
) -> Result<Channel, ConnectError> {
    result.map_err(|error| {
        ConnectError::behind(&error).cloned().unwrap_or_else(|| {
            let reason: Vec<String> = chain(&error).map(ToString::to_string).collect();
            ConnectError::Tls {
                endpoint: endpoint.to_owned(),
                reason: reason.join(": "),
            }
        })
    })
}

fn builder(authority: &str) -> Result<Endpoint, ConnectError> {
    let wrong = |error: &dyn Error| ConnectError::Endpoint {
        endpoint: authority.to_owned(),
        reason: error.to_string(),
    };
    // tonic would use its own TLS for `https`; here the connector does TLS.
    let endpoint =
        Endpoint::from_shared(format!("http://{authority}")).map_err(|error| wrong(&error))?;
    let origin: Uri = format!("https://{authority}")
        .parse()
        .map_err(|error: http::uri::InvalidUri| wrong(&error))?;
    Ok(endpoint
        .origin(origin)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Parses `host:port`, which may be written as a URL.
fn authority(endpoint: &str) -> Result<String, ConnectError> {
    let wrong = |reason: &str| ConnectError::Endpoint {
        endpoint: endpoint.to_owned(),
        reason: reason.to_owned(),
    };
    let rest = match endpoint.split_once("://") {
        None => endpoint,
        Some(("https", rest)) => rest,
        Some((scheme, _)) => {
            return Err(wrong(&format!("{scheme}:// is not spoken, only TLS is")));
        }
    };
    let authority: http::uri::Authority = rest
        .strip_suffix('/')
        .unwrap_or(rest)
        .parse()
        .map_err(|_| wrong("not a host and port"))?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err(wrong("not a host and port"));
    }
    match authority.port_u16() {
        None | Some(0) => Err(wrong("no port")),
        Some(_) => Ok(authority.to_string()),
    }
}

type Io<IO> = TokioIo<TlsStream<IO>>;
type DialFuture<IO> =
    std::pin::Pin<Box<dyn Future<Output = Result<Io<IO>, ConnectError>> + Send + 'static>>;

fn connector<D, F, IO>(
    authority: &str,
    rack: &str,
    tls: &ClientTls,
    dial: D,
) -> impl tower::Service<Uri, Response = Io<IO>, Error = ConnectError, Future = DialFuture<IO>>
+ Send
+ 'static
where
    D: Fn(String) -> F + Send + 'static,
    F: Future<Output = io::Result<IO>> + Send + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (endpoint, rack, tls) = (authority.to_owned(), rack.to_owned(), tls.clone());
    service_fn(move |_: Uri| -> DialFuture<IO> {
        let (endpoint, rack, tls) = (endpoint.clone(), rack.clone(), tls.clone());
        let dialling = dial(endpoint.clone());
        Box::pin(async move {
            let attempt = handshake(&endpoint, &rack, &tls, dialling);
            match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
                Ok(result) => result.map(TokioIo::new),
                Err(_) => Err(ConnectError::Timeout {
                    endpoint,
                    after: CONNECT_TIMEOUT,
                }),
            }
        })
    })
}

async fn handshake<IO>(
    endpoint: &str,
    rack: &str,
    tls: &ClientTls,
    dialling: impl Future<Output = io::Result<IO>>,
) -> Result<TlsStream<IO>, ConnectError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let failed = |reason: String| ConnectError::Tls {
        endpoint: endpoint.to_owned(),
        reason,
    };
    let config = tls
        .config(rack)
        .map_err(|error| failed(error.to_string()))?;
    let stream = dialling.await.map_err(|source| ConnectError::Unreachable {
        endpoint: endpoint.to_owned(),
        source: Arc::new(source),
    })?;
    // No certificate is compared with it: the rack's name is the identity.
    let name = ServerName::try_from("rackhand-agent").map_err(|error| failed(error.to_string()))?;
    let connected = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    connected.map_err(|error| match distrust(&error) {
        Some(reason) => ConnectError::Untrusted {
            endpoint: endpoint.to_owned(),
            rack: rack.to_owned(),
            reason,
        },
        None => failed(error.to_string()),
    })
}

/// The problem of the peer's certificate, if that caused the error.
fn distrust(error: &io::Error) -> Option<String> {
    let error = chain(error).find_map(|error| error.downcast_ref::<rustls::Error>())?;
    let rustls::Error::InvalidCertificate(reason) = error else {
        return None;
    };
    Some(match reason {
        CertificateError::Other(other) => match other.0.downcast_ref::<WrongPeer>() {
            Some(wrong) => wrong.to_string(),
            None => other.0.to_string(),
        },
        // A CA of the same name with another key shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not signed by our CA (ca.crt)".to_owned()
        }
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_with_and_without_scheme() {
        for (given, read) in [
            ("agent-1.example:7443", "agent-1.example:7443"),
            ("https://agent-1.example:7443", "agent-1.example:7443"),
            ("https://[2001:db8::1]:7443/", "[2001:db8::1]:7443"),
            ("192.0.2.7:1", "192.0.2.7:1"),
        ] {
            assert_eq!(authority(given).unwrap(), read);
        }
    }

    #[test]
    fn invalid_address_error_includes_the_reason() {
        for (given, message) in [
            (
                "agent-1",
                "agent address \"agent-1\": no port; expected host:port",
            ),
            (
                "http://a:1",
                "agent address \"http://a:1\": http:// is not spoken, only TLS is; expected host:port",
            ),
            ("a:0", "agent address \"a:0\": no port; expected host:port"),
            (
                "",
                "agent address \"\": not a host and port; expected host:port",
            ),
            (
                "u@a:1",
                "agent address \"u@a:1\": not a host and port; expected host:port",
            ),
            (
                "a:1/x",
                "agent address \"a:1/x\": not a host and port; expected host:port",
            ),
        ] {
            assert_eq!(authority(given).unwrap_err().to_string(), message);
        }
    }
}
