//! What is installed into the management cluster before anything runs in it.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use serde_json::Value;

use super::StageConfig;
use crate::cluster::{apply, parse_yaml};

/// Kinds that Cluster API brings itself.
const CLUSTER_APIS: [&str; 3] = [
    "clusters.cluster.x-k8s.io",
    "machines.cluster.x-k8s.io",
    "machinehealthchecks.cluster.x-k8s.io",
];

/// What a cluster with Machines gets, and what one without gets.
const WITH_MACHINES: [&str; 2] = ["standalone", "workload"];
const PLAIN: [&str; 2] = ["base", "node-health-checks"];

/// CRDs, namespace, RBAC: what `kubectl apply -k` would install, but for the Pods, and but for Cluster
/// API's kinds where they come from Cluster API.
pub(super) async fn rackhand(client: &Client, config: &StageConfig) -> Result<()> {
    let folders = if config.plain { PLAIN } else { WITH_MACHINES };
    for folder in folders {
        let path = format!(
            "{}/../deploy/kustomize/{folder}",
            env!("CARGO_MANIFEST_DIR")
        );
        for mut object in render(&path)? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if config.cluster_api && CLUSTER_APIS.contains(&name) {
                continue;
            }
            if config.brief_boots {
                take_floors(&mut object);
            }
            apply(client, object).await.with_context(|| path.clone())?;
        }
    }
    Ok(())
}

/// What a kustomization renders, but for Deployments: nothing runs Pods here, binaries are processes.
pub(super) fn render(path: &str) -> Result<Vec<Value>> {
    let rendered = Command::new("kubectl")
        .args(["kustomize", path])
        .output()
        .context("kubectl is missing; run hack/setup")?;
    if !rendered.status.success() {
        bail!(
            "kubectl kustomize {path}: {}",
            String::from_utf8_lossy(&rendered.stderr)
        );
    }
    let mut objects = parse_yaml(&String::from_utf8(rendered.stdout)?)?;
    objects.retain(|object| object["kind"] != "Deployment");
    Ok(objects)
}

/// Takes off what a CRD says of the least boot timeout.
fn take_floors(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                if ["timeout", "timeoutSeconds"].contains(&name.as_str())
                    && let Some(field) = value.as_object_mut()
                {
                    field.remove("x-kubernetes-validations");
                }
                take_floors(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(take_floors),
        _ => {}
    }
}
