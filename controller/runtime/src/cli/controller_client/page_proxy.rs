//! Proxy of the leader's status page for a browser on the same machine.
//!
//! A browser cannot send the credentials of a kubeconfig, so the proxy adds them. It forwards only requests with the
//! random key in the URL, and only below [`PAGE_PATH`].

use std::{net::SocketAddr, path::Path, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kube::Client;
use tokio::net::TcpListener;

use super::{ControllerAddress, ControllerClientError, controller_client};
use crate::{serve::page::PAGE_PATH, store::api::words};

/// Headers of the controller's response that are forwarded to the browser.
const FORWARDED: [header::HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_SECURITY_POLICY,
    header::CACHE_CONTROL,
    header::REFERRER_POLICY,
    header::X_CONTENT_TYPE_OPTIONS,
];

/// Why the page cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The kubeconfig or the address cannot be used.
    #[error("{url}: {source}")]
    Controller {
        /// Address of the controller.
        url: String,
        /// Cause of the failure.
        source: ControllerClientError,
    },
    /// The local address cannot be bound, or serving failed.
    #[error("{address}: {source}")]
    Local {
        /// The local address.
        address: SocketAddr,
        /// Cause of the failure.
        source: std::io::Error,
    },
}

/// A bound local address, and the controller behind it.
pub struct PageProxy {
    listener: TcpListener,
    address: SocketAddr,
    forward: Arc<Forward>,
}

struct Forward {
    client: Client,
    /// The path prefix `/KEY/`, without which nothing is forwarded, because other users of the machine can
    /// connect too.
    prefix: String,
    /// Accepted values of the Host header. Another value is an attempt to read the page from a foreign site
    /// (DNS rebinding).
    hosts: [String; 2],
}

impl PageProxy {
    /// Binds a local address. It does not serve yet.
    ///
    /// # Errors
    /// The address cannot be bound, or the kubeconfig cannot be used.
    pub async fn bind(
        kubeconfig: Option<&Path>,
        controller: &ControllerAddress,
        address: SocketAddr,
    ) -> Result<Self, ProxyError> {
        let client = controller_client(kubeconfig, controller).await;
        let client = client.map_err(|source| ProxyError::Controller {
            url: controller.url.to_string(),
            source,
        })?;
        let local = |source| ProxyError::Local { address, source };
        let listener = TcpListener::bind(address).await.map_err(local)?;
        let address = listener.local_addr().map_err(local)?;
        let port = address.port();
        let forward = Forward {
            client,
            prefix: format!("/{}/", uuid::Uuid::new_v4().simple()),
            hosts: [address.to_string(), format!("localhost:{port}")],
        };
        Ok(Self {
            listener,
            address,
            forward: Arc::new(forward),
        })
    }

    /// The URL of the page for a browser.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.forward.prefix)
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// Serving failed.
    pub async fn run(self) -> Result<(), ProxyError> {
        let app = Router::new().fallback(forward).with_state(self.forward);
        axum::serve(self.listener, app)
            .await
            .map_err(|source| ProxyError::Local {
                address: self.address,
                source,
            })
    }
}

async fn forward(State(forward): State<Arc<Forward>>, request: Request) -> Response {
    let refused = |status: StatusCode, why: &str| (status, format!("{why}\n")).into_response();
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|h| h.to_str().ok()).unwrap_or_default();
    if !forward.hosts.iter().any(|known| known == host) {
        return refused(
            StatusCode::FORBIDDEN,
            "open the page by the URL that was printed",
        );
    }
    let path = request.uri().path().strip_prefix(&forward.prefix);
    let Some(path) = path else {
        return refused(
            StatusCode::NOT_FOUND,
            "open the page by the URL that was printed",
        );
    };
    if request.method() != http::Method::GET {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "the page is read-only");
    }
    let query = request.uri().query().map(|q| format!("?{q}"));
    let uri = format!("{PAGE_PATH}/{path}{}", query.unwrap_or_default());
    let get = || http::Request::get(&uri).body(kube::client::Body::empty());
    let answer = match (get(), get()) {
        (Ok(first), Ok(second)) => match forward.client.send(first).await {
            Ok(answer) => Ok(answer),
            // The controller may have closed an idle connection at that moment.
            Err(_) => forward.client.send(second).await,
        },
        (Err(error), _) | (_, Err(error)) => {
            return refused(StatusCode::BAD_REQUEST, &error.to_string());
        }
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let why = format!("the controller does not answer: {}", words(&error));
            return refused(StatusCode::BAD_GATEWAY, &why);
        }
    };
    let mut response = Response::builder().status(answer.status());
    for name in FORWARDED {
        if let Some(value) = answer.headers().get(&name) {
            response = response.header(name, value);
        }
    }
    let built = response.body(Body::new(answer.into_body()));
    built.unwrap_or_else(|error| refused(StatusCode::BAD_GATEWAY, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake_api;

    async fn status(method: &str, host: &str, path: &str) -> u16 {
        let client = fake_api::client(|request| async move {
            assert_eq!(request.path, "/page/overview.json");
            (StatusCode::OK, serde_json::json!({}))
        });
        let forwarded = Forward {
            client,
            prefix: "/key/".to_owned(),
            hosts: ["127.0.0.1:1".to_owned(), "localhost:1".to_owned()],
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, host)
            .body(Body::empty())
            .unwrap();
        let answer = forward(State(Arc::new(forwarded)), request).await;
        answer.status().as_u16()
    }

    #[tokio::test]
    async fn proxy_forwards_only_get_requests_with_key_and_local_host_header() {
        for (method, host, path, expected) in [
            ("GET", "127.0.0.1:1", "/key/overview.json", 200),
            ("GET", "localhost:1", "/key/overview.json", 200),
            ("GET", "evil.example:1", "/key/overview.json", 403),
            ("GET", "127.0.0.1:1", "/overview.json", 404),
            ("GET", "127.0.0.1:1", "/other/overview.json", 404),
            ("POST", "127.0.0.1:1", "/key/overview.json", 405),
        ] {
            assert_eq!(
                status(method, host, path).await,
                expected,
                "{method} {host} {path}"
            );
        }
    }
}
