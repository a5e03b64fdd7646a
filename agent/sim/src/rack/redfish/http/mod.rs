//! One request, from its head to the last byte of its response, with its faults.
//!
//! Owns: all waiting; the service behind it is synchronous.

pub(super) mod etag;
mod faulty_stream;
pub(super) mod query;
pub(super) mod response;
pub(super) mod server;

use std::future::pending;

use axum::body::{Body, to_bytes};
use axum::http::header::LOCATION;
use axum::http::{HeaderName, Method, Response, StatusCode};
use hyper::Request;
use hyper::body::Incoming;
use serde_json::Value;

use super::{
    actions,
    path::SESSIONS,
    service::{self, Call},
};
use crate::rack::{
    faults::{Action, RequestFacts},
    host::SimHost,
};
use faulty_stream::{Cut, ResetHandle};
use response::Answer;

/// Maximum size in bytes of a request body.
const BODY_LIMIT: usize = 1 << 20;

/// Handles one request.
async fn answer(
    host: SimHost,
    tear: ResetHandle,
    is_again: bool,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    host.count_request();
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), BODY_LIMIT).await;
    let body: Value = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok())
        .unwrap_or_default();
    // Redfish treats a path with a trailing slash like one without.
    let path = head.uri.path().trim_end_matches('/');
    let effects = host.bmc().decide(&RequestFacts {
        method: head.method.as_str(),
        path,
        body: &body,
        is_again,
    });
    let only_head = head.method == Method::HEAD;
    let profile = &host.config().bmc.profile;
    if let Some(status) = profile.redirects_logins
        && head.method == Method::POST
        && head.uri.path() == SESSIONS
    {
        let to = format!("{SESSIONS}/");
        let answer = actions::injected(profile, status, None).with(LOCATION, to);
        return Ok(answer.into_response(only_head, &effects.merge));
    }
    if let Some(instead) = &effects.before {
        return replace(&host, &tear, instead, only_head, &effects.merge).await;
    }
    let answer = service::answer(&Call {
        host: &host,
        effects: &effects,
        method: &head.method,
        path,
        query: head.uri.query(),
        headers: &head.headers,
        body: &body,
    });
    match &effects.after {
        Some(instead) => replace(&host, &tear, instead, only_head, &effects.merge).await,
        None => Ok(answer.into_response(only_head, &effects.merge)),
    }
}

async fn replace(
    host: &SimHost,
    tear: &ResetHandle,
    instead: &Action,
    only_head: bool,
    merges: &[Value],
) -> Result<Response<Body>, Cut> {
    let profile = &host.config().bmc.profile;
    let answer = match instead {
        Action::Reset => {
            tear.tear();
            return Err(Cut);
        }
        Action::Hang => pending().await,
        Action::Html { status } => {
            let page = "<html><body><h1>Service temporarily unavailable</h1></body></html>";
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            Answer {
                status,
                ..Answer::text("text/html; charset=utf-8", page)
            }
        }
        Action::Redirect { status, to } => {
            actions::injected(profile, *status, None).with(LOCATION, to.clone())
        }
        Action::Status {
            status,
            body,
            headers,
        } => {
            let mut answer = actions::injected(profile, *status, body.clone());
            for (name, value) in headers {
                if let Ok(name) = HeaderName::try_from(name.as_str()) {
                    answer.headers.push((name, value.clone()));
                }
            }
            answer
        }
        _ => return Err(Cut),
    };
    Ok(answer.into_response(only_head, merges))
}
