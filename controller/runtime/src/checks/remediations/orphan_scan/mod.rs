//! Scan for orphaned remediations that no watch shows.
//!
//! An engine knows the remediations of the kinds that this controller carries out, and remediations of a foreign
//! kind while the template of a live check names it. It does not see a foreign remediation whose last check
//! was deleted while no controller ran. The scan lists all foreign kinds of remediations instead, at the start of
//! a leader and every few minutes after that.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::{
    Client,
    api::{DynamicObject, ListParams, PartialObjectMeta},
    core::{ApiResource, TypeMeta},
    discovery,
};
use rackhand_api::views::Meta;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    lifecycle::is_ours,
    withdrawal::{CreatedRemediation, Owner},
};
use crate::{
    checks::Context,
    store::{
        api::{ApiError, call, words},
        object::api,
        watch::pause,
    },
};

/// Interval between two scans for orphaned remediations.
const INTERVAL: Duration = Duration::from_secs(600);
/// Interval after an incomplete scan, because the API server did not answer or has newer objects than the
/// index.
const RETRY: Duration = Duration::from_secs(15);
/// Maximum number of objects in one response.
const PAGE: u32 = 500;

/// Scans until `cancel`. An empty namespace means all.
pub(crate) async fn run(context: Arc<Context>, namespace: String, cancel: CancellationToken) {
    let mut refused = BTreeSet::new();
    loop {
        let wait = match scan(&context, &namespace, &mut refused).await {
            Ok(true) => INTERVAL,
            Ok(false) => RETRY,
            Err(error) => {
                tracing::warn!(%error, "the scan for orphaned remediations failed; trying again");
                RETRY
            }
        };
        if pause(&cancel, wait).await {
            return;
        }
    }
}

/// Withdraws orphaned remediations. Returns whether the scan was complete. Kinds that this program may not
/// list are kept in `refused` and logged once; it cannot have created remediations of them.
async fn scan(
    context: &Context,
    namespace: &str,
    refused: &mut BTreeSet<String>,
) -> Result<bool, ApiError> {
    let mut complete = true;
    let kinds = remediation_kinds(&context.client).await?;
    // The engine of the dialect withdraws the remediations that it knows.
    let foreign = |kind: &ApiResource| is_ours(&kind.kind, &kind.api_version).is_none();
    for resource in kinds.into_iter().filter(foreign) {
        let remediations = match remediations(&context.client, &resource, namespace).await {
            Ok(remediations) => remediations,
            Err(error) if error.label() == "forbidden" => {
                let kind = format!("{} of {}", resource.kind, resource.api_version);
                if refused.insert(kind) {
                    tracing::info!(%error, "orphaned remediations of this kind cannot be found");
                }
                continue;
            }
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        for remediation in &remediations {
            let owner = Owner::of(&Meta::of(remediation));
            let made = CreatedRemediation::read(remediation, owner);
            let Some(made) = made.filter(|made| made.is_orphan_by_index(&context.index)) else {
                continue;
            };
            match made.withdraw(context).await {
                Ok(withdrawn) => complete &= withdrawn,
                Err(error) => {
                    complete = false;
                    let (kind, remediation) = (&made.kind, &made.key);
                    tracing::warn!(%kind, %remediation, %error, "an orphaned remediation was not withdrawn; trying again");
                }
            }
        }
    }
    Ok(complete)
}

/// Every kind of remediations for which the API server serves templates.
async fn remediation_kinds(client: &Client) -> Result<Vec<ApiResource>, ApiError> {
    let failed = |error: kube::Error| ApiError::other("the API groups", words(&error));
    let groups = call("the API groups", client.list_api_groups()).await?;
    // The group of a CustomResourceDefinition is a domain; groups of Kubernetes itself end in `.k8s.io`.
    let is_custom = |name: &str| name.contains('.') && !name.ends_with(".k8s.io");
    let mut kinds = Vec::new();
    for group in groups.groups.iter().filter(|group| is_custom(&group.name)) {
        let found = match discovery::group(client, &group.name).await {
            Ok(found) => found,
            // The group was removed meanwhile, or its aggregated API server does not answer.
            Err(kube::Error::Discovery(_)) => continue,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 503) => continue,
            Err(error) => return Err(failed(error)),
        };
        let resources: Vec<ApiResource> = found
            .resources_by_stability()
            .into_iter()
            .map(|(resource, _)| resource)
            .collect();
        let has_template = |resource: &ApiResource| {
            let template = format!("{}Template", resource.kind);
            resource.kind.ends_with("Remediation") && resources.iter().any(|r| r.kind == template)
        };
        kinds.extend(resources.iter().filter(|r| has_template(r)).cloned());
    }
    Ok(kinds)
}

/// The metadata of all objects of a kind.
async fn remediations(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
) -> Result<Vec<DynamicObject>, ApiError> {
    let what = format!("list of {}", resource.plural);
    let objects = api(client, resource, namespace);
    let mut page = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let list = call(&what, objects.list_metadata(&page)).await?;
        all.extend(list.items.into_iter().map(|item| with_kind(item, resource)));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// The items of a list do not name their kind.
fn with_kind(item: PartialObjectMeta<DynamicObject>, resource: &ApiResource) -> DynamicObject {
    DynamicObject {
        types: Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        }),
        metadata: item.metadata,
        data: Value::Null,
    }
}

#[cfg(test)]
mod tests;
