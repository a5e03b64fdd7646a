//! HTTP exchanges with one BMC.
//!
//! Owns: headers, redirects, size and time limits, kept connections, and the single retry of a read. Must never: repeat
//! a command that was, or may have been, carried out; follow a redirect to another origin; or buffer more than 4 MiB.

mod body;
mod kept;
mod names;
mod redirect;

use std::{
    net::SocketAddr,
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, Method, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HeaderValue, IF_MATCH},
};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use url::Url;

use super::{
    credentials::Credentials,
    errors::{self, Failure},
    refused_resources::RefusedResources,
    reporter::Reporter,
    response::{Answer, Body},
    tls,
};
use crate::{
    BmcError, ErrorKind,
    redfish::{RedfishConfig, Timeouts},
};
use body::MAX_BODY;
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::redfish) use body::of as body_of;
use kept::Kept;
use names::Names;
pub(super) use names::normal_path;
use redirect::{MovedActions, Redirects, join, target};

const MAX_REDIRECTS: usize = 3;
/// How long a login is waited for after its caller has gone on: a session that is opened later stays open.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);

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
    /// How long it may take, if not as long as other requests.
    limit: Option<Duration>,
    redirects: Redirects,
    /// Whether it is an action: this client sends one once in a call, whatever the BMC answers.
    is_action: bool,
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
            limit: None,
            redirects: Redirects::SameResource,
            is_action: false,
        }
    }

    /// An action. It has no precondition unless the BMC requires one; iDRAC10 rejects one with 412.
    pub(crate) fn action(url: &'a Url, body: &Value) -> Self {
        let redirects = if is_idempotent(body) {
            Redirects::SameResource
        } else {
            Redirects::None
        };
        Self {
            redirects,
            is_action: true,
            ..Self::new(Method::POST, url, body)
        }
    }

    /// The same with a precondition.
    pub(in crate::redfish) fn on_condition(mut self, condition: Option<HeaderValue>) -> Self {
        self.content.condition = condition;
        self
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

    /// The method and the path, which tell it from other requests.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.url.path())
    }

    /// A login that creates a session.
    pub(super) fn log_in(url: &'a Url, body: &Value) -> Self {
        Self {
            counts: false,
            limit: Some(LOGIN_LIMIT),
            redirects: Redirects::Any,
            ..Self::new(Method::POST, url, body)
        }
    }
}

/// What a read does while a connection that was used before is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redfish) enum Silence {
    /// It gives that connection up, and asks over a new one.
    GivesUp,
    /// It asks over a new one too, and takes the first answer: the resource may be slow.
    AsksBeside,
}

/// How long a connection that was used before is silent until a read asks beside it.
const SILENT: Duration = Duration::from_secs(1);
/// The same where the request has a password: many BMCs refuse one only after 2 s, and a second request would be a second
/// failed login.
const SILENT_WITH_PASSWORD: Duration = Duration::from_secs(3);

/// What the failure of a read over a connection that was used before says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// The connection is broken or silent, or the BMC refuses it.
    Connection,
    /// The BMC does not bear a second request over it, or the resource fails by itself.
    Either,
}

/// HTTP client of one BMC.
pub(crate) struct Http {
    setup: Setup,
    slot: Mutex<Slot>,
    names: Mutex<Names>,
    moved: Mutex<MovedActions>,
    /// Resources that failed over a new connection like over the one before.
    failing: RefusedResources,
    base: Url,
    begun: Instant,
    /// Whether the BMC refuses uncompressed documents.
    wants_gzip: AtomicBool,
    pub(crate) reporter: Reporter,
}

/// The client of a BMC, and what is known of its connections. There is one at a time: a client takes as much memory as
/// all else that is known of a BMC.
struct Slot {
    kept: Kept,
    client: Option<OneClient>,
}

struct OneClient {
    client: Client,
    /// Whether it keeps a connection; otherwise it has one for each request.
    keeps: bool,
}

/// What clients are made of.
struct Setup {
    tls: rustls::ClientConfig,
    host: String,
    /// The port is taken from the URL; the ones of these addresses are ignored.
    resolved: Vec<SocketAddr>,
    timeouts: Timeouts,
}

impl Setup {
    fn client(&self, keeps: bool) -> Result<Client, reqwest::Error> {
        let mut builder = Client::builder();
        if !self.resolved.is_empty() {
            builder = builder.resolve_to_addrs(&self.host, &self.resolved);
        }
        builder
            .tls_backend_preconfigured(self.tls.clone())
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
            .connect_timeout(self.timeouts.connect)
            .timeout(self.timeouts.request)
            .pool_max_idle_per_host(usize::from(keeps))
            .pool_idle_timeout(kept::IDLE)
            .build()
    }
}

/// The client of one request.
struct Chosen {
    client: Client,
    keeps: bool,
    /// The limit of the request, if its connection may be one that is silent.
    limit: Option<Duration>,
}

impl Slot {
    /// Closes the connection that is kept.
    fn close(&mut self) {
        self.kept.closed();
        if self.client.as_ref().is_some_and(|one| one.keeps) {
            self.client = None;
        }
    }
}

impl Http {
    pub(crate) fn new(config: &RedfishConfig) -> Result<Self, BmcError> {
        let reporter = Reporter::new(
            config.address.to_string(),
            &config.username,
            &config.password,
        );
        let wrong = |message: String| reporter.error(ErrorKind::Configuration, message);
        let base = config
            .address
            .base_url()
            .ok_or_else(|| wrong("the address is not one of a Redfish service".to_owned()))?;
        // Passed for plain HTTP too, where reqwest would otherwise require its own provider.
        let tls = tls::client_config(&config.trust).map_err(|error| wrong(error.to_string()))?;
        let resolved = config.resolved.iter().map(|ip| SocketAddr::new(*ip, 0));
        let setup = Setup {
            tls,
            host: base.host_str().unwrap_or_default().to_owned(),
            resolved: resolved.collect(),
            timeouts: config.timeouts,
        };
        let kept = Kept::new(config.keep_alive);
        let keeps = kept.keeps(Duration::ZERO);
        let client = setup
            .client(keeps)
            .map_err(|_| wrong("the HTTP client cannot be set up".to_owned()))?;
        let client = Some(OneClient { client, keeps });
        Ok(Self {
            setup,
            slot: Mutex::new(Slot { kept, client }),
            names: Mutex::default(),
            moved: Mutex::default(),
            failing: RefusedResources::default(),
            base,
            begun: Instant::now(),
            wants_gzip: AtomicBool::new(false),
            reporter,
        })
    }

    /// The client of a request, and for a command closes the connection that reads have kept.
    fn choose(&self, is_read: bool) -> Result<Chosen, Failure> {
        let mut slot = self.slot();
        let now = self.begun.elapsed();
        if !is_read && slot.kept.closes_for_commands() {
            slot.close();
        }
        if !is_read || !slot.kept.keeps(now) {
            // A kept connection may be dead, and the result of a command sent on it would be unknown.
            return self.alone_of(&mut slot);
        }
        let timeouts = &self.setup.timeouts;
        let limit = timeouts.connect.min(timeouts.request / 2);
        Ok(Chosen {
            client: self.client_of(&mut slot, true)?,
            keeps: true,
            limit: slot.kept.may_be_used_again(now).then_some(limit),
        })
    }

    /// The client of the slot, which is replaced if it is of the other kind.
    fn client_of(&self, slot: &mut Slot, keeps: bool) -> Result<Client, Failure> {
        if let Some(one) = slot.client.as_ref().filter(|one| one.keeps == keeps) {
            return Ok(one.client.clone());
        }
        slot.client = None;
        let client = self.setup.client(keeps);
        let client = client.map_err(|error| Failure::of(&error))?;
        slot.client = Some(OneClient {
            client: client.clone(),
            keeps,
        });
        Ok(client)
    }

    /// A connection for one request, beside one that is kept.
    fn alone_of(&self, slot: &mut Slot) -> Result<Chosen, Failure> {
        let is_kept = slot.client.as_ref().is_some_and(|one| one.keeps)
            && slot.kept.keeps(self.begun.elapsed());
        let client = match is_kept {
            true => {
                let client = self.setup.client(false);
                client.map_err(|error| Failure::of(&error))?
            }
            false => self.client_of(slot, false)?,
        };
        Ok(Chosen {
            client,
            keeps: false,
            limit: None,
        })
    }

    /// Records the result of a read over a connection that is left open. Returns why the read is repeated over one of its
    /// own, if it is.
    fn settle(
        &self,
        chosen: &Chosen,
        (url, credentials): (&Url, &Credentials),
        result: &Result<Answer, Failure>,
    ) -> Option<Doubt> {
        if !chosen.keeps {
            return None;
        }
        let is_failing = self.failing.is_recent(url.path());
        let mut slot = self.slot();
        let now = self.begun.elapsed();
        let was_used = chosen.limit.is_some();
        let doubt = match result {
            Ok(answer) if refuses_password(credentials, answer) => {
                slot.close();
                if was_used {
                    slot.kept.refused();
                }
                return None;
            }
            Ok(answer) if was_used && refuses_connection(credentials, answer) => Doubt::Connection,
            Ok(answer) if was_used && answer.fails_a_read() && !is_failing => Doubt::Either,
            Ok(answer) if answer.closes() || answer.is_cut => {
                slot.kept.closed();
                return None;
            }
            Ok(answer) => {
                slot.kept.answered(now);
                if answer.status.is_success() {
                    slot.kept.accepted(now);
                }
                return None;
            }
            Err(failure) if was_used && (failure.reset || failure.is_timeout()) => {
                Doubt::Connection
            }
            Err(failure) if was_used && failure.has_reached() => Doubt::Either,
            Err(_) => return None,
        };
        slot.close();
        Some(doubt)
    }

    /// No code panics while it holds this lock, so its data are consistent.
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection that reads have kept.
    pub(super) fn close_kept(&self) {
        self.slot().close();
    }

    /// The URL of a reference in a document; it must have the origin of this BMC.
    pub(crate) fn resolve(&self, reference: &str) -> Result<Url, BmcError> {
        self.resolve_from(&self.base, reference)
    }

    /// The same of a reference that may be relative to its document (RFC 3986, 5.1).
    pub(in crate::redfish) fn resolve_from(
        &self,
        from: &Url,
        reference: &str,
    ) -> Result<Url, BmcError> {
        join(&self.base, from, reference).map_err(|refusal| {
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

    /// Reads a document; follows redirects within the BMC, and retries once on a broken connection. A document that
    /// names another resource is read again over a connection of its own, and is an error if it still does.
    pub(super) async fn get(
        &self,
        url: &Url,
        credentials: &Credentials,
        silence: Silence,
    ) -> Result<Answer, BmcError> {
        let mut url = url.clone();
        let mut asked = Vec::new();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self
                .get_once(&url, credentials, asked.is_empty(), silence)
                .await?;
            asked.push(normal_path(url.path()));
            if is_redirect(&answer) {
                url = self.follow(&url, (&Method::GET, Redirects::Any), &answer)?;
                continue;
            }
            if self.names().other(&asked, &answer).is_none() {
                return Ok(answer);
            }
            let again = self.get_over_another(&url, credentials).await?;
            if is_redirect(&again) {
                url = self.follow(&url, (&Method::GET, Redirects::Any), &again)?;
                continue;
            }
            let Some(named) = self.names().other(&asked, &again) else {
                return Ok(again);
            };
            if self.names().is_alias(&asked, &named) {
                return Ok(again);
            }
            let message = format!(
                "asked for {}, the BMC answered with {}",
                url.path(),
                self.reporter.quote(&named)
            );
            return Err(self.reporter.error(ErrorKind::Protocol, message));
        }
        Err(self.redirect_loop())
    }

    /// Reads what a task monitor answers: the task, or the answer of its request, each with a name of its own.
    pub(super) async fn get_monitor(
        &self,
        url: &Url,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let mut url = url.clone();
        for number in 0..=MAX_REDIRECTS {
            let answer = self
                .get_once(&url, credentials, number == 0, Silence::GivesUp)
                .await?;
            if !is_redirect(&answer) {
                return Ok(answer);
            }
            url = self.follow(&url, (&Method::GET, Redirects::Any), &answer)?;
        }
        Err(self.redirect_loop())
    }

    async fn get_once(
        &self,
        url: &Url,
        credentials: &Credentials,
        may_retry: bool,
        silence: Silence,
    ) -> Result<Answer, BmcError> {
        let mut result = self.read_once(url, credentials, silence).await;
        if may_retry && result.as_ref().is_err_and(|failure| failure.reset) {
            result = self.read_once(url, credentials, silence).await;
        }
        if self.is_refused_uncompressed(result.as_ref().ok()) {
            result = self.read_once(url, credentials, silence).await;
        }
        result.map_err(|failure| failure.into_error(&self.reporter, false))
    }

    /// Reads over a connection of its own, after an answer that was that of another request.
    async fn get_over_another(
        &self,
        url: &Url,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let now = self.begun.elapsed();
        let was_kept = self.slot().kept.keeps(now);
        self.close_kept();
        let request = (Method::GET, url, credentials);
        let result = self.exchange_alone(request, None).await;
        let answer = result.map_err(|failure| failure.into_error(&self.reporter, false))?;
        let asked = [normal_path(url.path())];
        if was_kept && self.names().other(&asked, &answer).is_none() {
            self.slot().kept.failed(now);
        }
        Ok(answer)
    }

    /// One read.
    async fn read_once(
        &self,
        url: &Url,
        credentials: &Credentials,
        silence: Silence,
    ) -> Result<Answer, Failure> {
        match silence {
            Silence::GivesUp => {
                self.exchange(Method::GET, url, credentials, None, None)
                    .await
            }
            Silence::AsksBeside => self.read_beside(url, credentials).await,
        }
    }

    /// One read that no silent connection makes shorter.
    async fn read_beside(&self, url: &Url, credentials: &Credentials) -> Result<Answer, Failure> {
        let chosen = self.choose(true)?;
        let Some(limit) = chosen.limit else {
            let request = (Method::GET, url, credentials);
            let result = self.exchange_by(&chosen, request, None).await;
            self.settle(&chosen, (url, credentials), &result);
            return result;
        };
        let unlimited = Chosen {
            client: chosen.client.clone(),
            keeps: true,
            limit: None,
        };
        let request = || (Method::GET, url, credentials);
        let mut first = pin!(self.exchange_by(&unlimited, request(), None));
        let silent = match credentials {
            Credentials::Basic(_) => SILENT_WITH_PASSWORD,
            _ => SILENT,
        };
        let begun = timeout(limit.min(silent), &mut first).await;
        if let Ok(result) = begun {
            let Some(doubt) = self.settle(&chosen, (url, credentials), &result) else {
                return result;
            };
            let again = self.exchange_alone(request(), None).await;
            self.prove((url, credentials), (doubt, &result), &again);
            return again;
        }
        let mut second = pin!(self.exchange_alone(request(), None));
        let (result, is_first) = tokio::select! {
            result = &mut first => match result {
                Ok(answer)
                    if refuses_password(credentials, &answer) || !answer.fails_a_read() =>
                {
                    (Ok(answer), true)
                }
                _ => (second.await, false),
            },
            result = &mut second => match result {
                Ok(answer) => (Ok(answer), false),
                Err(_) => (first.await, true),
            },
        };
        if is_first {
            self.settle(&chosen, (url, credentials), &result);
        } else {
            self.close_kept();
            let answer = result.as_ref().ok();
            if answer.is_some_and(|answer| !refuses_connection(credentials, answer)) {
                self.kept_failed();
            }
        }
        result
    }

    /// No code panics while it holds this lock, so its data are consistent.
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result of a read over a new connection after one over a kept one had failed. A BMC that does not answer
    /// at all, or fails alike, has not shown that it does not bear kept connections.
    fn prove(
        &self,
        (url, credentials): (&Url, &Credentials),
        (doubt, before): (Doubt, &Result<Answer, Failure>),
        result: &Result<Answer, Failure>,
    ) {
        let Ok(answer) = result else {
            return;
        };
        match doubt {
            Doubt::Connection if !refuses_connection(credentials, answer) => self.kept_failed(),
            Doubt::Connection => {}
            Doubt::Either if !answer.fails_a_read() => {
                self.slot().kept.doubted(self.begun.elapsed());
            }
            Doubt::Either => {
                let is_alike = before
                    .as_ref()
                    .is_ok_and(|before| before.status == answer.status);
                if is_alike && !answer.status.is_server_error() {
                    self.failing.add(url.path());
                }
            }
        }
    }

    /// Records that the BMC did not bear another request over the connection that was kept.
    pub(super) fn kept_failed(&self) {
        self.slot().kept.failed(self.begun.elapsed());
    }

    /// Sends a change, and once more only where the BMC has not carried it out: after a redirect
    /// within the BMC, and after the refusal of an uncompressed response. An action is sent once.
    pub(super) async fn change(
        &self,
        change: Change<'_>,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        if change.is_action {
            return self.act(change, credentials).await;
        }
        let Change {
            method,
            url,
            content,
            counts,
            limit,
            redirects,
            ..
        } = change;
        let how = (counts, limit, redirects);
        self.send(method, url, credentials, Some(content), how)
            .await
    }

    /// Sends an action once. What it needs to be taken is remembered for the next one, which the caller sends if it is
    /// still wanted: a BMC may take long for its refusal, and an update of firmware may have begun meanwhile.
    async fn act(&self, change: Change<'_>, credentials: &Credentials) -> Result<Answer, BmcError> {
        let may_repeat = change.may_repeat();
        let url = self.moved().target(change.url);
        let content = Some(change.content);
        let result = self
            .exchange(Method::POST, &url, credentials, content, None)
            .await;
        let answer = result.map_err(|failure| failure.into_error(&self.reporter, change.counts))?;
        if self.is_refused_uncompressed(Some(&answer)) && may_repeat {
            let why = "the BMC answers commands compressed only (406); not taken yet, ask again";
            return Err(self.reporter.error(ErrorKind::Busy, why));
        }
        if answer.status == StatusCode::NOT_FOUND && url != *change.url {
            self.moved().forget(change.url);
            let why = "the BMC knows this command no more where its redirect led (404); not taken yet, ask again";
            return Err(self.reporter.error(ErrorKind::Busy, why));
        }
        if !is_redirect(&answer) {
            return Ok(answer);
        }
        let to = self.follow(&url, (&Method::POST, change.redirects), &answer)?;
        self.moved().add(change.url, to);
        let why = "the BMC takes this command at another spelling of its address; not taken yet, ask again";
        Err(self.reporter.error(ErrorKind::Busy, why))
    }

    /// No code panics while it holds this lock, so its data are consistent.
    fn moved(&self) -> MutexGuard<'_, MovedActions> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a DELETE.
    pub(super) async fn delete(
        &self,
        url: &Url,
        credentials: &Credentials,
    ) -> Result<Answer, BmcError> {
        let redirects = Redirects::SameResource;
        self.send(
            Method::DELETE,
            url,
            credentials,
            None,
            (false, None, redirects),
        )
        .await
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        credentials: &Credentials,
        content: Option<Content>,
        (counts, limit, redirects): (bool, Option<Duration>, Redirects),
    ) -> Result<Answer, BmcError> {
        let mut url = url.clone();
        let mut has_arrived = false;
        for _ in 0..=MAX_REDIRECTS {
            let mut result = self
                .exchange(method.clone(), &url, credentials, content.clone(), limit)
                .await;
            has_arrived |= result.is_ok();
            if self.is_refused_uncompressed(result.as_ref().ok()) && redirects != Redirects::None {
                result = self
                    .exchange(method.clone(), &url, credentials, content.clone(), limit)
                    .await;
            }
            let answer = result.map_err(|failure| {
                let error = failure.into_error(&self.reporter, counts);
                BmcError {
                    not_sent: error.not_sent && !has_arrived,
                    ..error
                }
            })?;
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
        limit: Option<Duration>,
    ) -> Result<Answer, Failure> {
        let mut chosen = self.choose(method == Method::GET)?;
        let limit = limit.map(|limit| limit.max(self.setup.timeouts.request));
        chosen.limit = chosen.limit.or(limit);
        let request = (method.clone(), url, credentials);
        let result = self.exchange_by(&chosen, request, content.clone()).await;
        let Some(doubt) = self.settle(&chosen, (url, credentials), &result) else {
            return result;
        };
        // It was a read, over a connection that the BMC perhaps does not use again.
        let request = (method, url, credentials);
        let again = self.exchange_alone(request, content).await;
        self.prove((url, credentials), (doubt, &result), &again);
        again
    }

    /// Sends a request over a connection of its own.
    async fn exchange_alone(
        &self,
        request: (Method, &Url, &Credentials),
        content: Option<Content>,
    ) -> Result<Answer, Failure> {
        let chosen = self.alone_of(&mut self.slot())?;
        self.exchange_by(&chosen, request, content).await
    }

    async fn exchange_by(
        &self,
        chosen: &Chosen,
        (method, url, credentials): (Method, &Url, &Credentials),
        content: Option<Content>,
    ) -> Result<Answer, Failure> {
        let is_read = method == Method::GET;
        let encoding = if self.wants_gzip.load(Ordering::Relaxed) {
            "gzip"
        } else {
            "identity"
        };
        let mut request = chosen
            .client
            .request(method, url.clone())
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, encoding)
            .header("OData-Version", "4.0");
        if !chosen.keeps {
            request = request.header(CONNECTION, "close");
        }
        if let Some(limit) = chosen.limit {
            request = request.timeout(limit);
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
        let is_cut = broken.is_some();
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
            is_cut,
        })
    }
}

/// Whether a BMC may answer like this because of the connection that it was asked over, so that a read is tried again
/// over a new one.
fn refuses_connection(credentials: &Credentials, answer: &Answer) -> bool {
    match answer.status {
        StatusCode::SERVICE_UNAVAILABLE => true,
        StatusCode::UNAUTHORIZED => matches!(credentials, Credentials::Session(_)),
        _ => false,
    }
}

/// Whether it refuses the password of the request, which is not sent again: each time counts towards locking the account.
fn refuses_password(credentials: &Credentials, answer: &Answer) -> bool {
    answer.status == StatusCode::UNAUTHORIZED && matches!(credentials, Credentials::Basic(_))
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
