//! Installation of the management cluster.

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::Value;

use super::StageConfig;
use crate::cluster::{apply, shipped};

/// Kinds that Cluster API installs itself.
const CLUSTER_APIS: [&str; 3] = [
    "clusters.cluster.x-k8s.io",
    "machines.cluster.x-k8s.io",
    "machinehealthchecks.cluster.x-k8s.io",
];

/// Folders of `deploy/kustomize` for a cluster with Machines, and for one without.
const WITH_MACHINES: [&str; 2] = ["standalone", "workload"];
const PLAIN: [&str; 2] = ["base", "node-health-checks"];

/// Installs CRDs, namespace and RBAC like `kubectl apply -k`, without Pods, and without Cluster API's kinds
/// if Cluster API installs them.
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

/// Removes the minimum boot timeout from a schema.
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
