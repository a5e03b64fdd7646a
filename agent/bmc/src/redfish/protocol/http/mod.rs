//! HTTP exchanges with one BMC.
//!
//! Owns: headers, redirects, size and time limits, and the single retry of a read. Must never: repeat a command
//! that was, or may have been, carried out; follow a redirect to another origin; or buffer more than 4 MiB.

mod body;
mod redirect;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use reqwest::{
    Client, Method, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HeaderValue, IF_MATCH},
};
use secrecy::ExposeSecret;
use serde_json::Value;
use url::Url;

use super::{
    credentials::Credentials,
    errors::{self, Failure},
    reporter::Reporter,
    response::{Answer, Body},
    tls,
};
use crate::{BmcError, ErrorKind, redfish::RedfishConfig};
use body::MAX_BODY;
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::redfish) use body::of as body_of;
use redirect::{Redirects, join, target};

const MAX_REDIRECTS: usize = 3;

/// Body and headers of a request.
#[derive(Clone)]
struct Content {
    body: Vec<u8>,
    /// Value of `If-Match`.
    condition: Option<HeaderValue>,
}

/// A request that changes something.
pub(crate) struct Change<'a> {
    method: Method,
    url: &'a Url,
    content: Content,
    /// Whether the caller must know that the request may have arrived without a response.
    counts: bool,
    redirects: Redirects,
}

/// Whether the body of an action may be sent again to a BMC that has not carried it out.
fn is_idempotent(body: &Value) -> bool {
    let word = body.get("ResetType").or_else(|| body.get("PowerState"));
    let word = word.and_then(Value::as_str);
    matches!(word, Some("On" | "ForceOn" | "ForceOff" | "Off"))
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
            redirects: Redirects::SameResource,
        }
    }

    /// An action. It never has a precondition; iDRAC10 rejects one with 412.
    pub(crate) fn action(url: &'a Url, body: &Value) -> Self {
        let redirects = if is_idempotent(body) {
            Redirects::SameResource
        } else {
            Redirects::None
        };
        Self {
            redirects,
            ..Self::new(Method::POST, url, body)
        }
    }

    /// Whether it may be sent again to a BMC that refused it without carrying it out.
    pub(in crate::redfish) fn may_repeat(&self) -> bool {
        self.redirects != Redirects::None
    }

    /// A PATCH of properties.
    pub(in crate::redfish) fn patch(
        url: &'a Url,
        body: &Value,
        condition: Option<HeaderValue>,
    ) -> Self {
        let mut change = Self::new(Method::PATCH, url, body);
        change.content.condition = condition;
        change
    }

    /// A login that creates a session.
    pub(super) fn log_in(url: &'a Url, body: &Value) -> Self {
        Self {
            counts: false,
            redirects: Redirects::Any,
            ..Self::new(Method::POST, url, body)
        }
    }
}

/// HTTP client of one BMC.
pub(crate) struct Http {
    reads: Client,
    commands: Client,
    base: Url,
    keep_alive: bool,
    /// Whether the BMC refuses uncompressed documents.
    wants_gzip: AtomicBool,
    pub(crate) reporter: Reporter,
}

impl Http {
    pub(crate) fn new(config: &RedfishConfig) -> Result<Self, BmcError> {
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
                // Web servers of BMCs write header lines that begin with a space, have one before the
                // colon, or have no colon.
                .http1_allow_obsolete_multiline_headers_in_responses(true)
                .http1_allow_spaces_after_header_name_in_responses(true)
                .http1_ignore_invalid_headers_in_responses(true)
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
            wants_gzip: AtomicBool::new(false),
            reporter,
        })
    }

    /// The URL of a reference in a document; it must have the origin of this BMC.
    pub(crate) fn resolve(&self, reference: &str) -> Result<Url, BmcError> {
        join(&self.base, &self.base, reference).map_err(|refusal| {
            self.reporter.error(
                refusal.kind(),
                "a link in the BMC's response leads to another host, port or scheme; not followed",
            )
        })
    }

    /// The URL at this BMC of a reference with another origin: a BMC may refer to itself by a name that is not
    /// used elsewhere.
    pub(super) fn resolve_path(&self, reference: &str) -> Option<Url> {
        let url = self.base.join(reference).ok()?;
        let is_http = matches!(url.scheme(), "http" | "https");
        is_http.then(|| self.resolve(url.path()).ok()).flatten()
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
            if self.is_refused_uncompressed(result.as_ref().ok()) {
                result = self.exchange(Method::GET, &url, credentials, None).await;
            }
            let answer = result.map_err(|failure| failure.into_error(&self.reporter, false))?;
            if !is_redirect(&answer) {
                return Ok(answer);
            }
            url = self.follow(&url, (&Method::GET, Redirects::Any), &answer)?;
        }
        Err(self.redirect_loop())
    }

    /// Sends a change, and once more only where the BMC has not carried it out: after a redirect
    /// within the BMC, and after the refusal of an uncompressed response.
    pub(super) async fn change(
        &self,
        change: Change<'_>,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let Change {
            method,
            url,
            content,
            counts,
            redirects,
        } = change;
        self.send(method, url, credentials, Some(content), (counts, redirects))
            .await
    }

    /// Sends a DELETE.
    pub(super) async fn delete(
        &self,
        url: &Url,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let redirects = Redirects::SameResource;
        self.send(Method::DELETE, url, credentials, None, (false, redirects))
            .await
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        credentials: &Credentials,
        content: Option<Content>,
        (counts, redirects): (bool, Redirects),
    ) -> Result<Answer, BmcError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut result = self
                .exchange(method.clone(), &url, credentials, content.clone())
                .await;
            if self.is_refused_uncompressed(result.as_ref().ok()) && redirects != Redirects::None {
                result = self
                    .exchange(method.clone(), &url, credentials, content.clone())
                    .await;
            }
            let answer = result.map_err(|failure| failure.into_error(&self.reporter, counts))?;
            if !is_redirect(&answer) {
                return Ok(answer);
            }
            url = self.follow(&url, (&method, redirects), &answer)?;
        }
        Err(self.redirect_loop())
    }

    /// Whether the BMC refused an uncompressed response; all further requests then accept compressed ones.
    /// Otherwise they do not, because the ETag of a compressed response may differ.
    fn is_refused_uncompressed(&self, answer: Option<&Answer>) -> bool {
        let is_refused = answer.is_some_and(|answer| answer.status == StatusCode::NOT_ACCEPTABLE);
        is_refused && !self.wants_gzip.swap(true, Ordering::Relaxed)
    }

    fn follow(
        &self,
        from: &Url,
        request: (&Method, Redirects),
        answer: &Answer,
    ) -> Result<Url, BmcError> {
        let location = answer.location();
        target(&self.base, from, request, answer.status, location)
            .map_err(|refusal| self.reporter.error(refusal.kind(), refusal.message()))
    }

    fn redirect_loop(&self) -> BmcError {
        let message = "too many redirects";
        self.reporter.error(ErrorKind::Protocol, message)
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
        let encoding = if self.wants_gzip.load(Ordering::Relaxed) {
            "gzip"
        } else {
            "identity"
        };
        let mut request = client
            .request(method, url.clone())
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, encoding)
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
        let (bytes, broken) = read(&mut response).await;
        let body = body::parse(bytes).await;
        let body = match (broken, body) {
            (None, body) => body,
            // An object that has ended is whole, however the connection ended: some BMCs neither send a
            // length nor shut TLS down.
            (Some(_), body @ Body::Json(Value::Object(_))) => body,
            // For a command, only the status matters; a read needs its document.
            (Some(_), _) if !is_read => Body::Other("an incomplete body"),
            (Some(failure), _) => return Err(failure),
        };
        Ok(Answer {
            status,
            headers,
            body,
        })
    }
}

/// Whether the response only names another place. 304 has no target, and answers no request of
/// this client.
fn is_redirect(answer: &Answer) -> bool {
    answer.status.is_redirection() && answer.status != StatusCode::NOT_MODIFIED
}

/// The bytes of a body, and why there were no more, unless it ended properly.
async fn read(response: &mut reqwest::Response) -> (Vec<u8>, Option<Failure>) {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > MAX_BODY => {
                return (Vec::new(), Some(errors::too_big(MAX_BODY)));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return (bytes, None),
            Err(error) => return (bytes, Some(Failure::of(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_off_and_on_may_be_sent_again() {
        let url = Url::parse("http://b/").unwrap();
        for (body, may_repeat) in [
            (json!({"ResetType": "ForceOff"}), true),
            (json!({"ResetType": "On"}), true),
            (json!({"PowerState": "Off"}), true),
            (json!({"ResetType": "ForceRestart"}), false),
            (json!({"ResetType": "GracefulShutdown"}), false),
            (json!({"ResetType": "PushPowerButton"}), false),
            (json!({"ResetType": "Nmi"}), false),
            (json!({"ResetType": 7}), false),
            (json!({}), false),
        ] {
            assert_eq!(
                Change::action(&url, &body).may_repeat(),
                may_repeat,
                "{body}"
            );
        }
    }
}
