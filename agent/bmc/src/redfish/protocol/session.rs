//! Redfish sessions (DSP0266, clause 13.3.4).
//!
//! Owns: the requests that open and close a session. Must never: send credentials in a header while
//! opening one (Supermicro rejects that), or try twice.

use std::sync::Arc;

use reqwest::StatusCode;
use secrecy::ExposeSecret;
use serde_json::json;
use tokio::sync::oneshot;
use url::Url;

use super::{
    credentials::{Account, Credentials, Session},
    errors,
    http::{Change, Http},
    response::{Answer, Body},
};
use crate::{BmcError, ErrorKind, redfish::vendor::Meaning};

/// Result of opening a session, other than an error that applies to every authentication method.
pub(super) enum SessionAttempt {
    Session(Session),
    /// The BMC supports no sessions, or none for this user.
    Never(BmcError),
    /// The session table is full.
    Full(BmcError),
}

/// The result of a login that nobody has taken yet. A session in it is deleted when it is dropped.
pub(super) struct Login {
    http: Arc<Http>,
    attempt: Option<Result<SessionAttempt, BmcError>>,
}

impl Login {
    /// Begins a login. It goes on until its own time limit although nobody waits for it: a session that the BMC opens late
    /// would otherwise stay open, unknown to this client.
    pub(super) fn begin(
        http: &Arc<Http>,
        url: Url,
        account: &Arc<Account>,
        refuses_all: bool,
    ) -> oneshot::Receiver<Self> {
        let (sender, receiver) = oneshot::channel();
        let (http, account) = (Arc::clone(http), Arc::clone(account));
        tokio::spawn(async move {
            let attempt = open(&http, &url, &account, refuses_all).await;
            // Without a receiver it is dropped here.
            let _ = sender.send(Self {
                http,
                attempt: Some(attempt),
            });
        });
        receiver
    }

    /// The result; the session is the caller's.
    pub(super) fn take(mut self) -> Option<Result<SessionAttempt, BmcError>> {
        self.attempt.take()
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        let Some(Ok(SessionAttempt::Session(session))) = self.attempt.take() else {
            return;
        };
        let http = Arc::clone(&self.http);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Bounded by the time limit of a request.
            runtime.spawn(async move {
                let _ = close(&http, &Credentials::Session(Arc::new(session))).await;
            });
        }
    }
}

const DOING: &str = "logging in";
/// Maximum length of a token, which is kept; the head of a response may be a hundred times as long.
const MAX_TOKEN: usize = 4096;

/// Opens a session.
///
/// `refuses_all`: a 401 of this BMC may mean that it supports no sessions. Otherwise a 401 means a
/// wrong password, which is not tried with another method: each attempt counts towards locking the
/// account.
async fn open(
    http: &Http,
    url: &Url,
    account: &Account,
    refuses_all: bool,
) -> Result<SessionAttempt, BmcError> {
    let body = json!({
        "UserName": account.username,
        "Password": account.password.expose_secret(),
    });
    let answer = http
        .change(Change::log_in(url, &body), &Credentials::None)
        .await?;
    let refusal = || errors::of_status(&http.reporter, DOING, &answer);
    if answer.status.is_success() {
        return Ok(match session(http, &answer) {
            Some(session) => SessionAttempt::Session(session),
            None => SessionAttempt::Never(
                http.reporter
                    .error(ErrorKind::Protocol, "logging in: the BMC returned no token"),
            ),
        });
    }
    let messages = answer.messages();
    if messages.has(Meaning::SessionLimit) {
        return Ok(SessionAttempt::Full(refusal()));
    }
    if messages.has(Meaning::PasswordChange) || messages.has(Meaning::NotReady) {
        return Err(refusal());
    }
    match answer.status {
        StatusCode::UNAUTHORIZED if refuses_all => Ok(SessionAttempt::Never(refusal())),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            Ok(SessionAttempt::Never(refusal()))
        }
        _ => Err(refusal()),
    }
}

fn session(http: &Http, answer: &Answer) -> Option<Session> {
    let token = answer
        .headers
        .get("X-Auth-Token")?
        .to_str()
        .ok()
        .filter(|token| token.len() <= MAX_TOKEN)?
        .to_owned();
    let in_body = match &answer.body {
        Body::Json(body) => body.get("@odata.id").and_then(serde_json::Value::as_str),
        _ => None,
    };
    // `Location` may have another host, port or scheme, where the BMC is known by another name.
    let location = answer.location();
    let here = |link: &str| http.resolve(link).ok();
    let location = location
        .and_then(here)
        .or_else(|| in_body.and_then(here))
        .or_else(|| http.resolve_path(location?));
    let token = token.into();
    http.reporter.leave_out(&token);
    Some(Session { token, location })
}

/// Closes a session; a session that has already ended counts as success.
pub(super) async fn close(http: &Http, credentials: &Credentials) -> Result<(), BmcError> {
    let Credentials::Session(session) = credentials else {
        return Ok(());
    };
    let Some(url) = &session.location else {
        return Ok(());
    };
    let answer = http.delete(url, credentials).await?;
    let over = [
        StatusCode::UNAUTHORIZED,
        StatusCode::NOT_FOUND,
        StatusCode::GONE,
    ];
    if answer.status.is_success() || over.contains(&answer.status) {
        return Ok(());
    }
    Err(errors::of_status(&http.reporter, "logging out", &answer))
}
