//! Redfish sessions (DSP0266, clause 13.3.4).
//!
//! Owns: the two requests that make and end one. Must never: send credentials in a header while
//! making one (Supermicro refuses that), or try twice.

use reqwest::StatusCode;
use secrecy::ExposeSecret;
use serde_json::json;
use url::Url;

use super::{
    credentials::{Account, Credentials, Session},
    errors,
    http::{Change, Http},
    response::{Answer, Body},
    vendor::Cause,
};
use crate::{BmcError, ErrorKind};

/// Outcome of asking for a session, other than a failure that stands for all ways in.
pub(super) enum SessionAttempt {
    Session(Session),
    /// Not on this BMC: it has no sessions, or none for this user.
    Never(BmcError),
    /// All are taken.
    Full(BmcError),
}

const DOING: &str = "logging in";

/// Asks for a session.
///
/// `refuses_all`: a 401 of this BMC may mean that it gives sessions to nobody. Else it is a verdict
/// on the password, which is not tried in another way: each try counts towards locking the account.
pub(super) async fn open(
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
                    .error(ErrorKind::Protocol, "logging in: the BMC gave no token"),
            ),
        });
    }
    let messages = answer.messages();
    if messages.has(Cause::SessionLimit) {
        return Ok(SessionAttempt::Full(refusal()));
    }
    if messages.has(Cause::PasswordChange) || messages.has(Cause::NotReady) {
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
        .ok()?
        .to_owned();
    let in_body = match &answer.body {
        Body::Json(body) => body.get("@odata.id").and_then(serde_json::Value::as_str),
        _ => None,
    };
    let location = answer
        .location()
        .or(in_body)
        .and_then(|link| http.resolve(link).ok());
    Some(Session {
        token: token.into(),
        location,
    })
}

/// Ends a session; one that is over already is as good.
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
