//! AdmissionReview requests, and the answers to them.
//!
//! Pure: bytes in, JSON out. Must never answer a request that it did not understand with yes.

use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use rackhand_api::names::{groups, kinds};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{check, defaults, nodes, refusal::Refusal};

/// Which webhook is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// Yes or no about a MachineHealthCheck.
    Validate,
    /// What is filled in of one.
    Mutate,
    /// Yes or no about a NodeHealthCheck.
    ValidateNodes,
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
    let old = || object(hook, request.old_object.as_ref());
    if hook == Hook::ValidateNodes && request.operation == "DELETE" {
        let old = old()?.ok_or("the request holds no object")?;
        return Ok(match nodes::deletion(&old) {
            Some(why) => denied(403, "Forbidden", &format!("{} {why}", about(hook, &old))),
            None => json!({ "allowed": true }),
        });
    }
    if !["CREATE", "UPDATE"].contains(&request.operation.as_str()) {
        return Ok(json!({ "allowed": true }));
    }
    let new = object(hook, request.object.as_ref())?.ok_or("the request holds no object")?;
    let old = old()?;
    // What is on its way out must be able to lose its finalizers.
    if new.metadata.deletion_timestamp.is_some() {
        return Ok(json!({ "allowed": true }));
    }
    Ok(match hook {
        Hook::Mutate => mutated(&new),
        Hook::Validate | Hook::ValidateNodes => validated(hook, &new, old.as_ref()),
    })
}

fn object(hook: Hook, value: Option<&Value>) -> Result<Option<DynamicObject>, String> {
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
    if types.kind != hook.kind() || group != hook.group() {
        return Err(format!(
            "this webhook is for {} of {}, not for {} of {}",
            hook.kind(),
            hook.group(),
            types.kind,
            types.api_version
        ));
    }
    Ok(Some(object))
}

fn validated(hook: Hook, new: &DynamicObject, old: Option<&DynamicObject>) -> Value {
    // A spec that stands there already is not judged again: labels and annotations of an old check
    // must remain changeable.
    let unchanged = old.is_some_and(|old| old.data.get("spec") == new.data.get("spec"));
    if unchanged {
        return json!({ "allowed": true });
    }
    let (refusals, warnings): (Vec<Refusal>, Vec<String>) = match hook {
        Hook::ValidateNodes => (nodes::refusals(new, old), nodes::warnings(new)),
        Hook::Validate | Hook::Mutate => (check::refusals(new, old), check::warnings(new)),
    };
    if refusals.is_empty() {
        return with_warnings(json!({ "allowed": true }), warnings);
    }
    let why: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    let message = format!("{} is invalid: {}", about(hook, new), why.join("; "));
    denied(422, "Invalid", &message)
}

fn about(hook: Hook, object: &DynamicObject) -> String {
    let meta = &object.metadata;
    let name = meta.name.as_deref().or(meta.generate_name.as_deref());
    format!("{} {:?}", hook.kind(), name.unwrap_or_default())
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

impl Hook {
    fn kind(self) -> &'static str {
        match self {
            Self::Validate | Self::Mutate => kinds::MACHINE_HEALTH_CHECK,
            Self::ValidateNodes => kinds::NODE_HEALTH_CHECK,
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Validate | Self::Mutate => groups::CLUSTER_API,
            Self::ValidateNodes => groups::MEDIK8S,
        }
    }
}
