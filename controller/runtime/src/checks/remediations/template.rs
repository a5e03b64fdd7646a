//! The template of a check's remediations, and the API resource of these remediations.
//!
//! Cached, so that a mass failure does not read it once per member.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::core::{ApiResource, DynamicObject};
use rackhand_api::views::{RemediationTemplateView, TemplateRef};
pub(in crate::checks) use rackhand_core::checks::dispatch::Unusable;
use serde_json::{Map, Value};

use crate::{
    checks::Context,
    store::{
        api::{ApiError, call, optional},
        object::{Key, api},
    },
};

/// Lifetime of a cached template.
const FRESH: Duration = Duration::from_secs(1);

/// A template from which remediations can be created.
pub(in crate::checks) struct RemediationTemplate {
    pub(in crate::checks) reference: TemplateRef,
    pub(in crate::checks) template: RemediationTemplateView,
    /// `apiVersion` and kind of the remediations.
    pub(in crate::checks) api_version: String,
    pub(in crate::checks) kind: String,
    /// The API resource of the remediations.
    pub(in crate::checks) resource: ApiResource,
}

/// A template, or why it cannot be used.
pub(in crate::checks) type Read = Result<Arc<RemediationTemplate>, Unusable>;

/// Cache of the template of a check.
#[derive(Default)]
pub(in crate::checks) struct TemplateCache {
    read: Option<(Instant, Read)>,
    /// Whether the template is being read.
    pub(in crate::checks) reading: bool,
}

// === impl TemplateCache ===

impl TemplateCache {
    pub(in crate::checks) fn put(&mut self, read: Option<Read>, now: Instant) {
        self.reading = false;
        self.read = read.map(|read| (now, read));
    }

    /// The cached template, if it was read within [`FRESH`].
    pub(in crate::checks) fn fresh(&self, now: Instant) -> Option<&Read> {
        let (at, read) = self.read.as_ref()?;
        (now.saturating_duration_since(*at) < FRESH).then_some(read)
    }
}

pub(in crate::checks) fn text(body: &Map<String, Value>, field: &str) -> Option<String> {
    body.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// Reads a template as stored, or why there is none.
///
/// # Errors
/// The API server did not answer.
pub(in crate::checks) async fn find(
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
        // The API server answers so if a namespaced kind is read without a namespace.
        let hint = if key.namespace.is_empty() {
            "; it may lack a namespace"
        } else {
            ""
        };
        format!("{what} does not exist{hint}")
    }))
}

/// The API resource of a kind, or the cause that it is not served.
///
/// # Errors
/// The API server did not answer.
pub(in crate::checks) async fn find_kind(
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
/// The API server did not answer.
pub(in crate::checks) async fn read(
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
    let kind =
        text(&template.template, "kind").unwrap_or_else(|| reference.remediation_kind().into());
    Ok(match find_kind(context, &api_version, &kind).await? {
        Ok(resource) => Ok(Arc::new(RemediationTemplate {
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
