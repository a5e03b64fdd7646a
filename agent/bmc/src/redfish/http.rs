//! HTTP exchanges with one BMC.
//!
//! Owns: headers, redirects, size and time limits, and the single retry of a read. Must never: send
//! anything but a GET twice, follow a redirect to another origin, or buffer more than 4 MiB.

use std::net::SocketAddr;

use reqwest::{
    Client, Method,
    header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HeaderValue, IF_MATCH},
};
use secrecy::ExposeSecret;
use serde_json::Value;
use url::Url;

use super::{
    RedfishConfig,
    credentials::Credentials,
    errors::{self, Failure},
    reporter::Reporter,
    response::{Answer, Body},
    tls,
};
use crate::{BmcError, ErrorKind};

/// Maximum body size in bytes; an event log of a thousand entries takes a quarter of it.
const MAX_BODY: usize = 4 << 20;
const MAX_REDIRECTS: usize = 3;

/// Body and headers of a request.
struct Content {
    body: Vec<u8>,
    /// Value of `If-Match`.
    condition: Option<HeaderValue>,
}

/// A request that changes something.
pub(super) struct Change<'a> {
    method: Method,
    url: &'a Url,
    content: Content,
    /// Whether the caller must know that the request may have arrived without a response.
    counts: bool,
}

impl<'a> Change<'a> {
    fn new(method: Method, url: &'a Url, body: &Value) -> Self {
        Self {
            method,
            url,
            content: Content {
                body: body.to_string().into_bytes(),
                condition: None,
            },
            counts: true,
        }
    }

    /// An action. It never has a precondition; iDRAC10 rejects one with 412.
    pub(super) fn action(url: &'a Url, body: &Value) -> Self {
        Self::new(Method::POST, url, body)
    }

    /// A PATCH of properties.
    pub(super) fn patch(url: &'a Url, body: &Value, condition: Option<HeaderValue>) -> Self {
        let mut change = Self::new(Method::PATCH, url, body);
        change.content.condition = condition;
        change
    }

    /// A login that creates a session.
    pub(super) fn log_in(url: &'a Url, body: &Value) -> Self {
        Self {
            counts: false,
            ..Self::new(Method::POST, url, body)
        }
    }
}

/// HTTP client of one BMC.
pub(super) struct Http {
    reads: Client,
    commands: Client,
    base: Url,
    keep_alive: bool,
    pub(super) reporter: Reporter,
}

impl Http {
    pub(super) fn new(config: &RedfishConfig) -> Result<Self, BmcError> {
        let reporter = Reporter::new(config.address.to_string(), config.password.clone());
        let wrong = |message: String| reporter.error(ErrorKind::Configuration, message);
        let base = config
            .address
            .base_url()
            .ok_or_else(|| wrong("the address is not one of a Redfish service".to_owned()))?;
        // Passed for plain HTTP too, where reqwest would otherwise require its own provider.
        let tls = tls::client_config(&config.trust).map_err(|error| wrong(error.to_string()))?;
        // The port is taken from the URL; this one is ignored.
        let resolved: Vec<SocketAddr> = config
            .resolved
            .iter()
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect();
        let host = base.host_str().unwrap_or_default().to_owned();
        let client = |idle| {
            let mut builder = Client::builder();
            if !resolved.is_empty() {
                builder = builder.resolve_to_addrs(&host, &resolved);
            }
            builder
                .tls_backend_preconfigured(tls.clone())
                .http1_only()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .user_agent(concat!("rackhand/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(config.timeouts.connect)
                .timeout(config.timeouts.request)
                .pool_max_idle_per_host(idle)
                .build()
                .map_err(|_| wrong("the HTTP client cannot be set up".to_owned()))
        };
        // A kept connection may be dead, and the result of a command sent on it would be unknown.
        let commands = client(0)?;
        let reads = if config.keep_alive {
            client(1)?
        } else {
            commands.clone()
        };
        Ok(Self {
            reads,
            commands,
            base,
            keep_alive: config.keep_alive,
            reporter,
        })
    }

    /// The URL of a reference in a document; it must have the origin of this BMC.
    pub(super) fn resolve(&self, reference: &str) -> Result<Url, BmcError> {
        self.join(&self.base, reference).map_err(|kind| {
            self.reporter.error(
                kind,
                "a link in the BMC's response leads to another host, port or scheme; not followed",
            )
        })
    }

    fn join(&self, from: &Url, reference: &str) -> Result<Url, ErrorKind> {
        let mut url = from.join(reference).map_err(|_| ErrorKind::Protocol)?;
        if url.origin() != self.base.origin() {
            let only_scheme = url.host() == self.base.host() && url.scheme() != self.base.scheme();
            return Err(if only_scheme {
                ErrorKind::Configuration
            } else {
                ErrorKind::Protocol
            });
        }
        url.set_fragment(None);
        // Otherwise reqwest would send them as Basic credentials.
        let _ = (url.set_username(""), url.set_password(None));
        Ok(url)
    }

    /// Reads a document; follows redirects within the BMC, and retries once on a broken connection.
    pub(super) async fn get(
        &self,
        url: &Url,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let mut url = url.clone();
        let mut may_retry = true;
        for _ in 0..=MAX_REDIRECTS {
            let mut result = self.exchange(Method::GET, &url, credentials, None).await;
            if may_retry && result.as_ref().is_err_and(|failure| failure.reset) {
                may_retry = false;
                result = self.exchange(Method::GET, &url, credentials, None).await;
            }
            let answer = result.map_err(|failure| failure.into_error(&self.reporter, false))?;
            match answer.location() {
                Some(location) if answer.status.is_redirection() => {
                    let next = self.join(&url, location);
                    url = next.map_err(|kind| self.elsewhere(kind))?;
                }
                _ => return Ok(answer),
            }
        }
        Err(self
            .reporter
            .error(ErrorKind::Protocol, "too many redirects"))
    }

    /// Sends a change exactly once.
    pub(super) async fn change(
        &self,
        change: Change<'_>,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let Change { url, counts, .. } = change;
        let answer = self
            .exchange(change.method, url, credentials, Some(change.content))
            .await
            .map_err(|failure| failure.into_error(&self.reporter, counts))?;
        if answer.status.is_redirection() {
            let kind = match answer.location().map(|location| self.join(url, location)) {
                Some(Err(kind)) => kind,
                _ => ErrorKind::Protocol,
            };
            return Err(self.elsewhere(kind));
        }
        Ok(answer)
    }

    /// Sends a DELETE; never repeated.
    pub(super) async fn delete(
        &self,
        url: &Url,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let answer = self.exchange(Method::DELETE, url, credentials, None).await;
        answer.map_err(|failure| failure.into_error(&self.reporter, false))
    }

    fn elsewhere(&self, kind: ErrorKind) -> BmcError {
        let message = if kind == ErrorKind::Configuration {
            "the BMC redirects to another scheme; write redfish+https:// or redfish+http:// in \
             its address"
        } else {
            "the BMC redirects to another host or port, or a command elsewhere; not followed, and \
             no credentials sent; check the address"
        };
        self.reporter.error(kind, message)
    }

    async fn exchange(
        &self,
        method: Method,
        url: &Url,
        credentials: &Credentials,
        content: Option<Content>,
    ) -> Result<Answer, Failure> {
        let is_read = method == Method::GET;
        let client = if is_read { &self.reads } else { &self.commands };
        let mut request = client
            .request(method, url.clone())
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "identity")
            .header("OData-Version", "4.0");
        if !(is_read && self.keep_alive) {
            request = request.header(CONNECTION, "close");
        }
        request = match credentials {
            Credentials::None => request,
            Credentials::Basic(account) => {
                request.basic_auth(&account.username, Some(account.password.expose_secret()))
            }
            Credentials::Session(session) => {
                let mut token = HeaderValue::from_str(session.token.expose_secret())
                    .map_err(|_| Failure::unsendable())?;
                token.set_sensitive(true);
                request.header("X-Auth-Token", token)
            }
        };
        if let Some(content) = content {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(content.body);
            if let Some(condition) = content.condition {
                request = request.header(IF_MATCH, condition);
            }
        }
        let mut response = request.send().await.map_err(|error| Failure::of(&error))?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = match read(&mut response).await {
            Ok(body) => body,
            // For a command, only the status matters; a read needs its document.
            Err(_) if !is_read => Body::Other("an incomplete body"),
            Err(failure) => return Err(failure),
        };
        Ok(Answer {
            status,
            headers,
            body,
        })
    }
}

async fn read(response: &mut reqwest::Response) -> Result<Body, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| Failure::of(&error))?
    {
        if bytes.len() + chunk.len() > MAX_BODY {
            return Err(errors::too_big(MAX_BODY));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Body::of(&bytes))
}
