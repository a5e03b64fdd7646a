//! The shipped manifests as rendered by `kubectl`.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::parse_yaml;

/// Renders a folder of `deploy/`.
///
/// # Errors
/// As [`rendered`].
pub fn shipped(folder: &str) -> Result<Vec<Value>> {
    rendered(&format!(
        "{}/../deploy/{folder}",
        env!("CARGO_MANIFEST_DIR")
    ))
}

/// Renders a kustomization without Deployments, because the binaries run as processes and not in Pods.
///
/// # Errors
/// kubectl is missing, or rejects the folder.
pub fn rendered(path: &str) -> Result<Vec<Value>> {
    let mut objects = rendered_whole(path)?;
    objects.retain(|object| object["kind"] != "Deployment");
    Ok(objects)
}

/// Renders a kustomization with Deployments.
///
/// # Errors
/// As [`rendered`].
pub fn rendered_whole(path: &str) -> Result<Vec<Value>> {
    let output = Command::new("kubectl")
        .args(["kustomize", path])
        .output()
        .context("kubectl is missing; run hack/setup")?;
    ensure!(
        output.status.success(),
        "kubectl kustomize {path}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    parse_yaml(&String::from_utf8(output.stdout)?)
}
