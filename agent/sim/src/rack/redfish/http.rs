//! One request, from its head to the last byte of its answer, with what faults make of it.
//!
//! Owns waiting: everything behind it is synchronous.

use std::future::pending;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderName, Method, Response, StatusCode};
use hyper::Request;
use hyper::body::Incoming;
use serde_json::Value;

use super::actions;
use super::faulty_stream::{CloseHandle, Cut};
use super::response::Answer;
use super::service::{self, Call};
use crate::rack::faults::{Effects, Instead, Mangle, RequestFacts};
use crate::rack::host::SimHost;

/// What a BMC reads of a request before it stops.
const BODY_LIMIT: usize = 1 << 20;

/// Answers one request. `reused` says that its connection has carried one before.
pub(super) async fn answer(
    host: SimHost,
    tear: CloseHandle,
    reused: bool,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    host.count_request();
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), BODY_LIMIT).await;
    let body: Value = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok())
        .unwrap_or_default();
    // Redfish takes a path with a slash at its end for the one without.
    let path = head.uri.path().trim_end_matches('/');
    let effects = host.bmc().decide(&RequestFacts {
        method: head.method.as_str(),
        path,
        body: &body,
        reused,
    });
    if !effects.delay.is_zero() {
        tokio::time::sleep(effects.delay).await;
    }
    let only_head = head.method == Method::HEAD;
    if let Some(instead) = &effects.before {
        return replace(&host, &tear, instead, only_head, &effects).await;
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
        Some(instead) => replace(&host, &tear, instead, only_head, &effects).await,
        None => {
            if effects.mangle == Some(Mangle::Cut) {
                tear.tear();
            }
            Ok(answer.into_response(only_head, &effects))
        }
    }
}

async fn replace(
    host: &SimHost,
    tear: &CloseHandle,
    instead: &Instead,
    only_head: bool,
    effects: &Effects,
) -> Result<Response<Body>, Cut> {
    let profile = &host.config().bmc.profile;
    let answer = match instead {
        Instead::Drop => return Err(Cut),
        Instead::Reset => {
            tear.tear();
            return Err(Cut);
        }
        Instead::Hang => pending().await,
        Instead::Html { status } => {
            let page = "<html><body><h1>Service temporarily unavailable</h1></body></html>";
            let code = StatusCode::from_u16(*status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            Answer {
                status: code,
                ..Answer::text("text/html; charset=utf-8", page)
            }
        }
        Instead::Answer {
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
    };
    Ok(answer.into_response(only_head, effects))
}
