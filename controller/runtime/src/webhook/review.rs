//! AdmissionReview requests, and the answers to them.
//!
//! Pure: bytes in, JSON out. Must never answer a request that it did not understand with yes.

use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use rackhand_api::names::{groups, kinds};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{check, defaults};

/// Which of the two webhooks is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// Yes or no.
    Validate,
    /// What is filled in.
    Mutate,
}

/// Why there is no answer at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadRequest {
    #[error("the body is not an AdmissionReview: {0}")]
    Unreadable(serde_json::Error),
    #[error("the body is a {0}, want an AdmissionReview of admission.k8s.io/v1")]
    Other(String),
    #[error("the AdmissionReview holds no request")]
    Empty,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    operation: String,
    object: Option<Value>,
    old_object: Option<Value>,
}

/// Answers one request.
///
/// # Errors
/// The body is not a request of the one version that is spoken.
pub(super) fn answer(hook: Hook, body: &[u8]) -> Result<Value, BadRequest> {
    let review: Review = serde_json::from_slice(body).map_err(BadRequest::Unreadable)?;
    if review.api_version != "admission.k8s.io/v1" || review.kind != "AdmissionReview" {
        return Err(BadRequest::Other(format!(
            "{} {}",
            review.api_version, review.kind
        )));
    }
    let request = review.request.ok_or(BadRequest::Empty)?;
    let mut response = match decide(hook, &request) {
        Ok(response) => response,
        Err(why) => denied(400, "BadRequest", &why),
    };
    if let Some(fields) = response.as_object_mut() {
        fields.insert("uid".into(), request.uid.into());
    }
    Ok(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    }))
}

fn decide(hook: Hook, request: &Request) -> Result<Value, String> {
    if !["CREATE", "UPDATE"].contains(&request.operation.as_str()) {
        return Ok(json!({ "allowed": true }));
    }
    let new = object(request.object.as_ref())?.ok_or("the request holds no object")?;
    let old = object(request.old_object.as_ref())?;
    // What is on its way out must be able to lose its finalizers.
    if new.metadata.deletion_timestamp.is_some() {
        return Ok(json!({ "allowed": true }));
    }
    Ok(match hook {
        Hook::Mutate => mutated(&new),
        Hook::Validate => validated(&new, old.as_ref()),
    })
}

fn object(value: Option<&Value>) -> Result<Option<DynamicObject>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let object: DynamicObject = serde_json::from_value(value.clone())
        .map_err(|error| format!("not a Kubernetes object: {error}"))?;
    let types = object.types.clone().unwrap_or_default();
    let group = types
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    if types.kind != kinds::MACHINE_HEALTH_CHECK || group != groups::CLUSTER_API {
        return Err(format!(
            "this webhook is for {} of {}, not for {} of {}",
            kinds::MACHINE_HEALTH_CHECK,
            groups::CLUSTER_API,
            types.kind,
            types.api_version
        ));
    }
    Ok(Some(object))
}

fn validated(new: &DynamicObject, old: Option<&DynamicObject>) -> Value {
    // A spec that stands there already is not judged again: labels and annotations of an old check
    // must remain changeable.
    let unchanged = old.is_some_and(|old| old.data.get("spec") == new.data.get("spec"));
    if unchanged {
        return json!({ "allowed": true });
    }
    let refusals = check::refusals(new, old);
    if refusals.is_empty() {
        return with_warnings(json!({ "allowed": true }), check::warnings(new));
    }
    let name = new
        .metadata
        .name
        .as_deref()
        .or(new.metadata.generate_name.as_deref());
    let why: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    let message = format!(
        "{} {:?} is invalid: {}",
        kinds::MACHINE_HEALTH_CHECK,
        name.unwrap_or_default(),
        why.join("; ")
    );
    denied(422, "Invalid", &message)
}

fn with_warnings(mut response: Value, warnings: Vec<String>) -> Value {
    if let (false, Some(fields)) = (warnings.is_empty(), response.as_object_mut()) {
        fields.insert("warnings".into(), warnings.into());
    }
    response
}

fn denied(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "allowed": false,
        "status": {
            "status": "Failure", "code": code, "reason": reason, "message": message,
        },
    })
}

fn mutated(new: &DynamicObject) -> Value {
    let operations = defaults::patch(new);
    if operations.is_empty() {
        return json!({ "allowed": true });
    }
    let patch = ByteString(Value::Array(operations).to_string().into_bytes());
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch })
}
