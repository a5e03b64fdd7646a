//! The connections of a client of a Kubernetes API: how many, with which buffers, and for how long.
//!
//! The client that the library makes keeps each connection that a burst has opened until the API server closes it, with a
//! buffer as large as its largest response.

use std::time::Duration;

use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
};
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder, ServiceExt as _, limit::ConcurrencyLimitLayer, service_fn};

/// Most calls of one client that wait for the beginning of their response: the writes that the leader has in flight
/// at most, and a few reads; of reads of Nodes a cluster has a limit of its own. Each is a connection, with memory here and
/// at the API server, which has not more to do at a time; while the rest of a response is read, the next call has another.
const MAX_CALLS: usize = 64;
/// Most connections that are kept without a call on them: with fewer than calls, a burst would open and close one for
/// each call.
const MAX_IDLE: usize = MAX_CALLS;
/// How long a connection without a call is kept.
const IDLE: Duration = Duration::from_secs(10);
/// Most bytes of a response that a connection buffers before they are read. A header must fit.
const BUFFER: usize = 32 * 1024;
/// Timeout of a connection with its TLS handshake, if the configuration has none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A client with these limits.
///
/// # Errors
/// The configuration has a certificate, a token or a proxy that cannot be used.
pub(super) fn client(config: Config) -> Result<Client, kube::Error> {
    client_with(config, IDLE)
}

fn client_with(config: Config, idle: Duration) -> Result<Client, kube::Error> {
    let calls = ConcurrencyLimitLayer::new(MAX_CALLS);
    if config.proxy_url.is_some() {
        // The library says why it cannot be used.
        return Ok(ClientBuilder::try_from(config)?.with_layer(&calls).build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let limit = config.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    let connector = service_fn(move |server: http::Uri| {
        let connected = timeout(limit, tls.clone().oneshot(server));
        Box::pin(async move { connected.await.map_err(BoxError::from)? })
    });
    let http = Builder::new(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(idle)
        .pool_max_idle_per_host(MAX_IDLE)
        .http1_max_buf_size(BUFFER)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(calls)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::future::join_all;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        time::{Instant, sleep},
    };

    use super::*;

    /// The connections of an API server: those that are open, and the most that were.
    #[derive(Default)]
    struct Connections {
        open: AtomicUsize,
        most: AtomicUsize,
    }

    /// Answers each request with `body`, after `pause`.
    async fn serve(mut stream: TcpStream, body: Arc<str>, pause: Duration) {
        let mut read = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
            read.extend(buffer.get(..bytes).unwrap());
            if !read.ends_with(b"\r\n\r\n") {
                continue;
            }
            read.clear();
            sleep(pause).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(body.as_bytes()).await.unwrap();
        }
    }

    async fn start(body: &str, pause: Duration) -> (Client, Arc<Connections>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (body, seen) = (Arc::<str>::from(body), Arc::<Connections>::default());
        let counted = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let open = counted.open.fetch_add(1, Ordering::Relaxed) + 1;
                counted.most.fetch_max(open, Ordering::Relaxed);
                let (served, counted) = (serve(stream, body.clone(), pause), counted.clone());
                tokio::spawn(async move {
                    served.await;
                    counted.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        let config = Config::new(url.parse().unwrap());
        let client = client_with(config, Duration::from_millis(200)).unwrap();
        (client, seen)
    }

    async fn read(client: &Client) -> usize {
        let request = http::Request::get("/api/v1/nodes").body(Vec::new());
        let text = client.request_text(request.unwrap()).await.unwrap();
        text.len()
    }

    #[tokio::test]
    async fn connections_of_a_burst_are_limited_and_closed_after_it() {
        let (client, seen) = start("{}", Duration::from_millis(20)).await;
        let calls = (0..MAX_CALLS * 8).map(|_| read(&client));
        assert_eq!(join_all(calls).await, vec![2; MAX_CALLS * 8]);
        let most = seen.most.load(Ordering::Relaxed);
        assert!((MAX_CALLS / 2..=MAX_CALLS * 3).contains(&most), "{most}");
        let until = Instant::now() + Duration::from_secs(30);
        while seen.open.load(Ordering::Relaxed) > 0 {
            assert!(
                Instant::now() < until,
                "{} are open",
                seen.open.load(Ordering::Relaxed)
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn response_larger_than_the_buffer_is_read() {
        let body = "x".repeat(50 * BUFFER);
        let (client, _) = start(&body, Duration::ZERO).await;
        assert_eq!(read(&client).await, body.len());
    }

    #[tokio::test]
    async fn connection_that_is_never_accepted_ends_with_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut config = Config::new(url.parse().unwrap());
        config.connect_timeout = Some(Duration::from_millis(50));
        let client = client(config).unwrap();
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        let begun = Instant::now();
        assert!(client.request_text(request).await.is_err());
        assert!(begun.elapsed() < Duration::from_secs(20));
        drop(listener);
    }
}
