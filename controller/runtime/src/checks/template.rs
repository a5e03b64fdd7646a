//! The template from which the requests of a check are created, and where these are served.
//!
//! Read once for a storm and not once per member.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::core::ApiResource;
use rackhand_api::views::{RemediationTemplateView, TemplateRef};
use serde_json::{Map, Value};

use super::Context;
use crate::{
    api::{ApiError, call, optional},
    object::api,
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

/// Why none can be made: the reason of `ExternallyRemediated`, and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) reason: &'static str,
    pub(super) why: String,
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

// === impl Unusable ===

impl Unusable {
    /// A request of the same name belongs to somebody else.
    pub(super) fn foreign(owner: &str) -> Self {
        Self {
            reason: "RemediationRequestCreationFailed",
            why: format!("a request of this name exists and belongs to {owner}; delete it"),
        }
    }
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

/// Reads template and resources.
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
    let name = format!("{} {namespace}/{}", reference.kind, reference.name);
    let version = &reference.api_version;
    let Some(resource) = context
        .served
        .resource_of(&context.client, version, &reference.kind)
        .await?
    else {
        return not_found(format!("{name}: {version} is not served"));
    };
    let templates = api(&context.client, &resource, namespace);
    let Some(found) = optional(call(&name, templates.get(&reference.name)).await)? else {
        return not_found(format!("{name} does not exist"));
    };
    let template = match RemediationTemplateView::from_dynamic(&found) {
        Ok(template) => template,
        Err(error) => return not_found(error.to_string()),
    };
    let api_version = text(&template.template, "apiVersion").unwrap_or_else(|| version.clone());
    let kind = text(&template.template, "kind").unwrap_or_else(|| reference.request_kind().into());
    Ok(
        match context
            .served
            .resource_of(&context.client, &api_version, &kind)
            .await?
        {
            Some(resource) => Ok(Arc::new(RequestTemplate {
                reference,
                template,
                api_version,
                kind,
                resource,
            })),
            None => Err(Unusable {
                reason: "RemediationRequestCreationFailed",
                why: format!("{kind} of {api_version} is not served"),
            }),
        },
    )
}
