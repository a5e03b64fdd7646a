//! An HTTPS server for callers inside the cluster.
//!
//! Limits the number of connections and their duration, so that a slow or broken caller does not delay
//! others.

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router, middleware::map_response, response::Response};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use parking_lot::Mutex;
use rackhand_transport::{WebTls, tls::RELOAD_INTERVAL};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::connections::ConnectionTable;

/// Limits on the time of one connection.
#[derive(Clone, Copy)]
struct Limits {
    /// Timeout of a handshake and of the header of a request.
    patience: Duration,
    /// Maximum duration of a connection; the next request needs a new one.
    lifetime: Duration,
}

const LIMITS: Limits = Limits {
    patience: Duration::from_secs(10),
    lifetime: Duration::from_secs(120),
};

/// The verified certificate (DER) that the client of a connection has shown, if any.
#[derive(Debug, Clone)]
pub(crate) struct ShownCertificate(pub(crate) Option<Arc<[u8]>>);

/// A bound listener with its certificate.
pub(crate) struct Https {
    /// Name of the server in log messages.
    pub(crate) name: &'static str,
    pub(crate) listener: TcpListener,
    pub(crate) tls: Arc<WebTls>,
}

impl Https {
    /// Serves until `cancel`, with the newest certificate.
    pub(crate) async fn run(self, app: Router, cancel: CancellationToken) {
        self.run_with(LIMITS, app, cancel).await;
    }

    async fn run_with(self, limits: Limits, app: Router, cancel: CancellationToken) {
        let watching = self.tls.clone().watch(RELOAD_INTERVAL);
        tokio::select! {
            () = self.serve(limits, app, cancel) => {}
            () = watching => {}
        }
    }

    async fn serve(self, limits: Limits, app: Router, cancel: CancellationToken) {
        let table = Arc::<Mutex<ConnectionTable>>::default();
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = cancel.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For example, no file descriptors are left; the server continues.
                    tracing::warn!(%error, server = self.name, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let acceptor = match self.tls.config() {
                Ok(config) => TlsAcceptor::from(config),
                Err(error) => {
                    tracing::warn!(%error, server = self.name, "a connection is refused");
                    continue;
                }
            };
            let place = table.lock().open(address.ip());
            let Some((id, end)) = place else {
                tracing::debug!(server = self.name, "every place is taken");
                continue;
            };
            let (app, cancel, name) = (app.clone(), cancel.clone(), self.name);
            let table = table.clone();
            connections.spawn(async move {
                let accepts = table.clone();
                let accepted = move || accepts.lock().accepted(id);
                let served = connection(name, limits, stream, &acceptor, app, accepted, &cancel);
                tokio::select! {
                    () = served => {}
                    () = end.cancelled() => tracing::debug!(server = name, "a slow connection ended"),
                }
                table.lock().closed(id);
            });
        }
        // An open connection must not delay the end of the process.
        let end = async { while connections.join_next().await.is_some() {} };
        timeout(Duration::from_secs(1), end).await.ok();
    }
}

/// Serves one connection. Calls `accepted` for each response that does not refuse the caller.
async fn connection(
    server: &str,
    limits: Limits,
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    app: Router,
    accepted: impl Fn() + Clone + Send + Sync + 'static,
    cancel: &CancellationToken,
) {
    let stream = match timeout(limits.patience, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, server, "TLS handshake refused");
            return;
        }
        Err(_) => return,
    };
    let shown = stream.get_ref().1.peer_certificates();
    let shown = shown.and_then(|chain| chain.first());
    let app = app.layer(Extension(ShownCertificate(
        shown.map(|leaf| Arc::from(leaf.as_ref())),
    )));
    let app = app.layer(map_response(move |response: Response| {
        if !matches!(response.status().as_u16(), 401 | 403) {
            accepted();
        }
        std::future::ready(response)
    }));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(served);
    tokio::select! {
        result = &mut served => {
            if let Err(error) = result {
                tracing::debug!(%error, server, "a connection ended");
            }
            return;
        }
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(limits.lifetime) => {}
    }
    served.as_mut().graceful_shutdown();
    timeout(limits.patience, served).await.ok();
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use tokio::{
        io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
        net::TcpSocket,
        task::JoinHandle,
    };
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(200);

    /// A server with these limits, and a client of it.
    struct Served {
        address: SocketAddr,
        connector: TlsConnector,
        cancel: CancellationToken,
        serving: JoinHandle<()>,
        _dir: tempfile::TempDir,
    }

    impl Served {
        async fn start(limits: Limits) -> Self {
            rustls::crypto::ring::default_provider()
                .install_default()
                .ok();
            let dir = tempfile::tempdir().unwrap();
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec!["server".to_owned()]).unwrap();
            let cert = params.self_signed(&key).unwrap();
            std::fs::write(dir.path().join("tls.crt"), cert.pem()).unwrap();
            std::fs::write(dir.path().join("tls.key"), key.serialize_pem()).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let https = Https {
                name: "test",
                listener,
                tls: Arc::new(WebTls::in_dir(dir.path()).unwrap()),
            };
            let app = Router::new().route("/here", get(async || "found"));
            let cancel = CancellationToken::new();
            let serving = tokio::spawn(https.run_with(limits, app, cancel.clone()));
            let mut roots = rustls::RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap())
                .unwrap();
            let config = rustls::ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth();
            Self {
                address,
                connector: TlsConnector::from(Arc::new(config)),
                cancel,
                serving,
                _dir: dir,
            }
        }

        /// A connection without a handshake, from this address of the loopback interface.
        async fn open(&self, last: u8) -> TcpStream {
            let socket = TcpSocket::new_v4().unwrap();
            let from = SocketAddr::from(([127, 0, 0, last], 0));
            socket.bind(from).unwrap();
            socket.connect(self.address).await.unwrap()
        }

        async fn connect(&self, last: u8) -> TlsStream<TcpStream> {
            let stream = self.open(last).await;
            let name = ServerName::try_from("server").unwrap();
            self.connector.connect(name, stream).await.unwrap()
        }

        async fn get(&self, last: u8, path: &str) -> String {
            let request =
                format!("GET {path} HTTP/1.1\r\nhost: server\r\nconnection: close\r\n\r\n");
            let mut stream = self.connect(last).await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }
    }

    /// Waits until the server has ended a connection.
    async fn ended(stream: &mut (impl AsyncRead + Unpin)) {
        let mut rest = Vec::new();
        // An abrupt end is an end as well.
        timeout(LONG, stream.read_to_end(&mut rest))
            .await
            .expect("the connection stays open")
            .ok();
    }

    #[tokio::test]
    async fn https_server_answers_until_cancelled() {
        let served = Served::start(LIMITS).await;
        let idle = served.connect(1).await;
        for (path, status) in [("/here", "HTTP/1.1 200"), ("/elsewhere", "HTTP/1.1 404")] {
            let answer = served.get(1, path).await;
            assert!(answer.starts_with(status), "{answer}");
        }
        served.cancel.cancel();
        served.serving.await.unwrap();
        drop(idle);
    }

    #[tokio::test]
    async fn slow_connections_of_one_address_keep_no_other_address_out() {
        // No connection ends by its time.
        let served = Served::start(Limits {
            patience: LONG * 10,
            lifetime: LONG * 10,
        })
        .await;
        let mut slow = Vec::new();
        for _ in 0..128 {
            slow.push(served.open(1).await);
        }
        let answer = timeout(LONG, served.get(2, "/here")).await;
        let answer = answer.expect("another address is kept out");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The first address keeps only its own newest connections.
        let newest = slow.split_off(128 - 16);
        for stream in &mut slow {
            ended(stream).await;
        }
        for stream in newest {
            let read = stream.try_read(&mut [0]);
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        }
        served.cancel.cancel();
    }

    #[tokio::test]
    async fn slow_connections_are_ended() {
        let served = Served::start(Limits {
            patience: SHORT,
            lifetime: LONG * 10,
        })
        .await;
        // Nothing is sent, or half a header.
        ended(&mut served.open(1).await).await;
        let mut stream = served.connect(1).await;
        stream
            .write_all(b"GET /here HTTP/1.1\r\nhost:")
            .await
            .unwrap();
        ended(&mut stream).await;
        served.cancel.cancel();
        // A caller that was served keeps its connection for a limited time.
        let served = Served::start(Limits {
            patience: LONG * 10,
            lifetime: SHORT,
        })
        .await;
        let mut stream = served.connect(1).await;
        stream
            .write_all(b"GET /here HTTP/1.1\r\nhost: server\r\n\r\n")
            .await
            .unwrap();
        ended(&mut stream).await;
        served.cancel.cancel();
    }
}
