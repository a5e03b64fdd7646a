//! Applies manifests like `kubectl apply --server-side`.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{Scope, pinned_kind},
};
use serde::Deserialize;

/// Number of attempts, because the kind of a CRD is served a moment after the CRD was accepted.
const TRIES: u32 = 100;

/// Applies one object, including its status if it has one.
///
/// # Errors
/// The API server rejects the object, or does not serve its kind.
pub async fn apply(client: &Client, object: serde_json::Value) -> Result<DynamicObject> {
    let status = object.get("status").cloned();
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("no apiVersion and kind")?;
    let gvk = GroupVersionKind::try_from(&types)?;
    let mut tried = 0;
    let (resource, capabilities) = loop {
        match pinned_kind(client, &gvk).await {
            Ok(found) => break found,
            Err(error) if tried >= TRIES => {
                return Err(error).with_context(|| format!("{} is not served", types.kind));
            }
            Err(_) => {
                tried += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    let api: Api<DynamicObject> = match (&capabilities.scope, object.namespace()) {
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
        (Scope::Namespaced, None) => Api::namespaced_with(client.clone(), "default", &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    let params = PatchParams::apply("test-kit").force();
    let what = || format!("applying {} {name}", types.kind);
    let mut applied = api
        .patch(&name, &params, &Patch::Apply(&object))
        .await
        .with_context(what)?;
    let has_status = capabilities
        .subresources
        .iter()
        .any(|(r, _)| r.plural.ends_with("status"));
    if let Some(status) = status.filter(|_| has_status) {
        let body = serde_json::json!({ "status": status });
        applied = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
            .await
            .with_context(what)?;
    }
    Ok(applied)
}

/// Applies every document of a YAML text.
///
/// # Errors
/// As [`apply`], or the text is not YAML.
pub async fn apply_yaml(client: &Client, text: &str) -> Result<()> {
    for document in parse_yaml(text)? {
        apply(client, document).await?;
    }
    Ok(())
}

/// Applies every document of a file.
///
/// # Errors
/// As [`apply_yaml`].
pub async fn apply_file(client: &Client, path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    apply_yaml(client, &text)
        .await
        .with_context(|| path.display().to_string())
}

/// Parses every document of a YAML text.
///
/// # Errors
/// The text is not YAML.
pub fn parse_yaml(text: &str) -> Result<Vec<serde_json::Value>> {
    text.split("\n---")
        .map(|part| part.trim_start_matches("---"))
        .filter(|part| {
            part.lines()
                .any(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#'))
        })
        .map(|part| {
            let value: Document = serde_saphyr::from_str(part)?;
            Ok(value.0)
        })
        .collect()
}

#[derive(Deserialize)]
struct Document(serde_json::Value);
