//! The template from which the requests of a check are created, and where these are served.
//!
//! Read once for a storm and not once per member.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::core::{ApiResource, DynamicObject};
use rackhand_api::views::{RemediationTemplateView, TemplateRef};
pub(super) use rackhand_core::dispatch::Unusable;
use serde_json::{Map, Value};

use super::Context;
use crate::store::{
    api::{ApiError, call, optional},
    object::{Key, api},
};

/// How long a template is used as it was read.
const FRESH: Duration = Duration::from_secs(1);

/// A template that can be used.
pub(super) struct RequestTemplate {
    pub(super) reference: TemplateRef,
    pub(super) template: RemediationTemplateView,
    /// `apiVersion` and kind of the requests.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Where they are served.
    pub(super) resource: ApiResource,
}

/// A template, or why it cannot be used.
pub(super) type Read = Result<Arc<RequestTemplate>, Unusable>;

/// The template of a check, as it was read last.
#[derive(Default)]
pub(super) struct TemplateCache {
    read: Option<(Instant, Read)>,
    /// It is being read.
    pub(super) reading: bool,
}

// === impl TemplateCache ===

impl TemplateCache {
    pub(super) fn put(&mut self, read: Option<Read>, now: Instant) {
        self.reading = false;
        self.read = read.map(|read| (now, read));
    }

    /// The template, if it was read a moment ago.
    pub(super) fn fresh(&self, now: Instant) -> Option<&Read> {
        let (at, read) = self.read.as_ref()?;
        (now.saturating_duration_since(*at) < FRESH).then_some(read)
    }
}

pub(super) fn text(body: &Map<String, Value>, field: &str) -> Option<String> {
    body.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// A template as it is stored, or why there is none.
///
/// # Errors
/// The API server did not answer.
pub(super) async fn find(
    context: &Context,
    api_version: &str,
    kind: &str,
    key: &Key,
) -> Result<Result<DynamicObject, String>, ApiError> {
    let what = format!("{kind} {key}");
    let resource = match find_kind(context, api_version, kind).await? {
        Ok(resource) => resource,
        Err(why) => return Ok(Err(format!("{what}: {why}"))),
    };
    let templates = api(&context.client, &resource, &key.namespace);
    let found = optional(call(&what, templates.get(&key.name)).await)?;
    Ok(found.ok_or_else(|| {
        // So the API server answers for a kind with namespaces that is read without one.
        let hint = if key.namespace.is_empty() {
            "; it may lack a namespace"
        } else {
            ""
        };
        format!("{what} does not exist{hint}")
    }))
}

/// Where a kind is served, or that it is not.
///
/// # Errors
/// The API server did not answer.
pub(super) async fn find_kind(
    context: &Context,
    api_version: &str,
    kind: &str,
) -> Result<Result<ApiResource, String>, ApiError> {
    let served = &context.served;
    let found = served.resource_of(&context.client, api_version, kind);
    let found = found.await?;
    Ok(found.ok_or_else(|| format!("{kind} of {api_version} is not served")))
}

/// Reads the template of a check of Machines.
///
/// # Errors
/// The API server did not answer; anything else is an answer.
pub(super) async fn read(
    context: &Context,
    namespace: &str,
    reference: TemplateRef,
) -> Result<Read, ApiError> {
    let not_found = |why: String| {
        let reason = "RemediationTemplateNotFound";
        Ok(Err(Unusable { reason, why }))
    };
    let (version, key) = (&reference.api_version, Key::new(namespace, &reference.name));
    let found = match find(context, version, &reference.kind, &key).await? {
        Ok(found) => found,
        Err(why) => return not_found(why),
    };
    let template = match RemediationTemplateView::from_dynamic(&found) {
        Ok(template) => template,
        Err(error) => return not_found(error.to_string()),
    };
    let api_version = text(&template.template, "apiVersion").unwrap_or_else(|| version.clone());
    let kind = text(&template.template, "kind").unwrap_or_else(|| reference.request_kind().into());
    Ok(match find_kind(context, &api_version, &kind).await? {
        Ok(resource) => Ok(Arc::new(RequestTemplate {
            reference,
            template,
            api_version,
            kind,
            resource,
        })),
        Err(why) => Err(Unusable {
            reason: "RemediationRequestCreationFailed",
            why,
        }),
    })
}
