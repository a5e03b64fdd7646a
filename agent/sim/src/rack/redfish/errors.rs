//! Error responses, and success responses in the form of an error, as Redfish defines them.
//!
//! Owns: message ids. Must never: decide anything.

use axum::http::{StatusCode, header};
use serde_json::{Value, json};

use super::{
    http::{query::QueryError, response::Answer},
    profile::{Profile, Refusal},
};

/// The registry of common messages.
const REGISTRY: &str = "Base.1.18";

/// One message. An id without a dot belongs to the base registry.
pub(super) fn message(id: &str, text: &str, severity: &str) -> Value {
    let full = full_id(id);
    json!({
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": full,
        "Message": text,
        "MessageArgs": [],
        "MessageSeverity": severity,
        "Severity": severity,
        "Resolution": "None.",
    })
}

fn full_id(id: &str) -> String {
    if id.contains('.') {
        id.to_owned()
    } else {
        format!("{REGISTRY}.{id}")
    }
}

/// An error object with one message.
fn body(profile: &Profile, id: &str, text: &str, severity: &str) -> Value {
    let code = profile.error_code.clone();
    json!({"error": {
        "code": code.unwrap_or_else(|| full_id(id)),
        "message": text,
        "@Message.ExtendedInfo": [message(id, text, severity)],
    }})
}

pub(super) fn error(profile: &Profile, status: StatusCode, id: &str, text: &str) -> Answer {
    Answer::json(status, body(profile, id, text, "Critical"))
}

fn bad(profile: &Profile, id: &str, text: &str) -> Answer {
    error(profile, StatusCode::BAD_REQUEST, id, text)
}

pub(in crate::rack) fn refusal_body(profile: &Profile, refusal: &Refusal) -> Value {
    body(profile, &refusal.message_id, &refusal.text, "Critical")
}

pub(super) fn refused(profile: &Profile, refusal: &Refusal) -> Answer {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let answer = Answer::json(status, refusal_body(profile, refusal));
    match refusal.retry_after {
        Some(seconds) => answer.with(header::RETRY_AFTER, seconds.to_string()),
        None => answer,
    }
}

pub(super) fn success(profile: &Profile) -> Value {
    let text = "The request completed successfully.";
    body(profile, "Success", text, "OK")
}

pub(super) fn unauthorized(profile: &Profile) -> Answer {
    let text = "There is no valid session established with the implementation.";
    error(profile, StatusCode::UNAUTHORIZED, "NoValidSession", text)
        .with(header::WWW_AUTHENTICATE, "Basic realm=\"Redfish\"")
}

pub(super) fn forbidden(profile: &Profile) -> Answer {
    let text = "The account or credentials associated with the session are not authorized.";
    error(
        profile,
        StatusCode::FORBIDDEN,
        "InsufficientPrivilege",
        text,
    )
}

pub(super) fn not_found(profile: &Profile, what: &str) -> Answer {
    let text = format!("The requested resource '{what}' was not found.");
    error(profile, StatusCode::NOT_FOUND, "ResourceNotFound", &text)
}

pub(super) fn not_allowed(profile: &Profile, allow: &str) -> Answer {
    let text = "The HTTP method is not allowed on this resource.";
    let status = StatusCode::METHOD_NOT_ALLOWED;
    error(profile, status, "OperationNotAllowed", text).with(header::ALLOW, allow)
}

pub(super) fn not_implemented(profile: &Profile) -> Answer {
    let text = "The HTTP method is not implemented.";
    error(
        profile,
        StatusCode::NOT_IMPLEMENTED,
        "OperationNotAllowed",
        text,
    )
}

pub(super) fn malformed(profile: &Profile) -> Answer {
    let text = "The request body submitted was malformed JSON.";
    bad(profile, "MalformedJSON", text)
}

pub(super) fn missing_parameter(profile: &Profile, name: &str) -> Answer {
    let text = format!("The action requires the parameter {name} to be present.");
    bad(profile, "ActionParameterMissing", &text)
}

pub(super) fn bad_parameter(profile: &Profile, name: &str, value: &str) -> Answer {
    let text = format!("The value '{value}' for the parameter {name} is not in the list.");
    bad(profile, "ActionParameterNotSupported", &text)
}

pub(super) fn missing_property(profile: &Profile, name: &str) -> Answer {
    let text = format!("The property {name} is required and must be included in the request.");
    bad(profile, "PropertyMissing", &text)
}

pub(super) fn bad_value(profile: &Profile, name: &str, value: &Value) -> Answer {
    let text = format!("The value {value} for the property {name} is not in the list.");
    bad(profile, "PropertyValueNotInList", &text)
}

pub(super) fn no_operation(profile: &Profile) -> Answer {
    let text = "The request body contains no data to act upon.";
    bad(profile, "NoOperation", text)
}

pub(super) fn precondition_failed(profile: &Profile) -> Answer {
    let text = "The ETag supplied did not match the ETag required to change this resource.";
    let status = StatusCode::PRECONDITION_FAILED;
    error(profile, status, "PreconditionFailed", text)
}

/// Only AMI requires a precondition, and has its own message for it.
pub(super) fn precondition_missing(profile: &Profile) -> Answer {
    let text = "A precondition header is required to change this resource.";
    let status = StatusCode::PRECONDITION_REQUIRED;
    error(profile, status, "Ami.1.0.PreconditionHeaderMissing", text)
}

pub(super) fn wrong_version(profile: &Profile) -> Answer {
    let text = "The service does not support the requested version of OData.";
    let status = StatusCode::PRECONDITION_FAILED;
    error(profile, status, "HeaderInvalid", text)
}

pub(super) fn bad_query(profile: &Profile, bad_query: &QueryError) -> Answer {
    match bad_query {
        QueryError::Unknown(name) => {
            let text = format!("The query parameter {name} is not supported.");
            let status = StatusCode::NOT_IMPLEMENTED;
            error(profile, status, "QueryNotSupported", &text)
        }
        QueryError::NotHere(name) => {
            let text = format!("The query parameter {name} is not supported on this resource.");
            bad(profile, "QueryNotSupportedOnResource", &text)
        }
        QueryError::Value(name) => {
            let text = format!("The value of the query parameter {name} is not a number.");
            bad(profile, "QueryParameterValueTypeError", &text)
        }
    }
}

/// The body of an injected status without a configured one.
pub(super) fn injected(profile: &Profile, status: u16) -> Value {
    let text = format!("injected fault, status {status}");
    body(profile, "GeneralError", &text, "Critical")
}
