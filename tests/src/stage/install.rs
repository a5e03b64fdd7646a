//! What is installed into the management cluster before anything runs in it.

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::Value;

use super::StageConfig;
use crate::cluster::{apply, shipped};

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
        for mut object in shipped(&format!("kustomize/{folder}"))? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if config.cluster_api && CLUSTER_APIS.contains(&name) {
                continue;
            }
            if config.brief_boots {
                take_floors(&mut object);
            }
            apply(client, object)
                .await
                .with_context(|| folder.to_owned())?;
        }
    }
    Ok(())
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
