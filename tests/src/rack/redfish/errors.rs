//! Answers that say no, in the shape that Redfish gives them.
//!
//! Owns message ids. Must never decide anything.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

/// The registry whose messages are used.
const BASE: &str = "Base.1.18";

pub(super) fn message(id: &str, text: &str, severity: &str) -> Value {
    json!({
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": format!("{BASE}.{id}"),
        "Message": text,
        "MessageArgs": [],
        "MessageSeverity": severity,
        "Severity": severity,
        "Resolution": "None.",
    })
}

pub(super) fn body(id: &str, text: &str, severity: &str) -> Value {
    json!({"error": {
        "code": format!("{BASE}.{id}"),
        "message": text,
        "@Message.ExtendedInfo": [message(id, text, severity)],
    }})
}

pub(super) fn error(status: StatusCode, id: &str, text: &str) -> Response {
    (status, Json(body(id, text, "Critical"))).into_response()
}

pub(super) fn unauthorized() -> Response {
    let text = "There is no valid session established with the implementation.";
    let mut response = error(StatusCode::UNAUTHORIZED, "NoValidSession", text);
    let challenge = HeaderValue::from_static("Basic realm=\"Redfish\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

pub(super) fn not_found(what: &str) -> Response {
    let text = format!("The requested resource '{what}' was not found.");
    error(StatusCode::NOT_FOUND, "ResourceNotFound", &text)
}

pub(super) fn not_allowed() -> Response {
    let text = "The HTTP method is not allowed on this resource.";
    error(StatusCode::METHOD_NOT_ALLOWED, "OperationNotAllowed", text)
}

pub(super) fn malformed() -> Response {
    let text = "The request body submitted was malformed JSON.";
    error(StatusCode::BAD_REQUEST, "MalformedJSON", text)
}

pub(super) fn missing_parameter(name: &str) -> Response {
    let text = format!("The action requires the parameter {name} to be present.");
    error(StatusCode::BAD_REQUEST, "ActionParameterMissing", &text)
}

pub(super) fn bad_parameter(name: &str, value: &str) -> Response {
    let text = format!("The value '{value}' for the parameter {name} is not in the list.");
    error(
        StatusCode::BAD_REQUEST,
        "ActionParameterNotSupported",
        &text,
    )
}

/// For what a fault answers: a body for a status that came without one.
pub(super) fn injected(status: u16) -> Value {
    body(
        "GeneralError",
        &format!("injected fault, status {status}"),
        "Critical",
    )
}
