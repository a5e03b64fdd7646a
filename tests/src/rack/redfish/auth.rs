//! Who may talk to the BMC: basic authentication, session tokens, and the few open paths.
//!
//! Owns the check. Must never log a credential.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use secrecy::ExposeSecret as _;

use super::errors;
use crate::rack::faults::Effects;
use crate::rack::host::SimHost;

/// The name of the user that a request came from.
#[derive(Clone, Debug)]
pub(super) struct User(pub(super) String);

const OPEN: [&str; 4] = [
    "/redfish",
    "/redfish/v1",
    "/redfish/v1/odata",
    "/redfish/v1/$metadata",
];

/// Where sessions are opened: the one place to POST to without a credential.
pub(super) const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

pub(super) async fn check(
    State(host): State<SimHost>,
    Extension(effects): Extension<Effects>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let login = request.method() == Method::POST && path == SESSIONS;
    if login || OPEN.contains(&path) {
        return next.run(request).await;
    }
    let user = if effects.refuse_auth {
        None
    } else {
        user_of(&host, request.headers())
    };
    match user {
        Some(user) => {
            request.extensions_mut().insert(User(user));
            next.run(request).await
        }
        None => errors::unauthorized(),
    }
}

pub(super) fn is_right(host: &SimHost, user: &str, password: &str) -> bool {
    let config = &host.config().bmc;
    user == config.username && password == config.password.expose_secret()
}

fn user_of(host: &SimHost, headers: &HeaderMap) -> Option<String> {
    let profile = &host.config().bmc.profile;
    if let Some(token) = headers.get("x-auth-token") {
        let now = tokio::time::Instant::now().into_std();
        return host.bmc().sessions.lock().check(now, token.to_str().ok()?);
    }
    let encoded = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = encoded.split_once(' ')?;
    if !profile.basic_auth || !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(encoded.trim())
        .ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (user, password) = decoded.split_once(':')?;
    is_right(host, user, password).then(|| user.to_owned())
}
