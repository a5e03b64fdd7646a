//! What is filled in of a MachineHealthCheck (docs/reference/cluster-api.md, Fields), as a JSON Patch.
//!
//! Must never write a field of one version's shape beside fields of the other's.

use kube::api::DynamicObject;
use rackhand_api::names::CLUSTER_NAME_LABEL;
use serde_json::{Value, json};

const SECONDS: u32 = 600;
const DURATION: &str = "10m0s";

/// The operations that complete a check; none: it is complete.
pub(super) fn patch(object: &DynamicObject) -> Vec<Value> {
    let mut operations = label(object);
    operations.extend(startup_timeout(object));
    operations
}

/// The label by which the checks of a Cluster are found.
fn label(object: &DynamicObject) -> Vec<Value> {
    let cluster = object.data.pointer("/spec/clusterName");
    let Some(cluster) = cluster
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
    else {
        return Vec::new();
    };
    let labels = object.metadata.labels.as_ref();
    if labels
        .and_then(|l| l.get(CLUSTER_NAME_LABEL))
        .map(String::as_str)
        == Some(cluster)
    {
        return Vec::new();
    }
    let mut operations = Vec::new();
    if labels.is_none() {
        operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": {} }));
    }
    let key = CLUSTER_NAME_LABEL.replace('~', "~0").replace('/', "~1");
    let path = format!("/metadata/labels/{key}");
    operations.push(json!({ "op": "add", "path": path, "value": cluster }));
    operations
}

/// Ten minutes, in the shape that the check has.
fn startup_timeout(object: &DynamicObject) -> Option<Value> {
    let spec = object.data.get("spec")?.as_object()?;
    let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let flat = ["unhealthyConditions", "unhealthyMachineConditions"];
    if has("nodeStartupTimeout") {
        return None;
    }
    if let Some(checks) = spec.get("checks").and_then(Value::as_object) {
        let given = checks.get("nodeStartupTimeoutSeconds");
        return given.is_none_or(Value::is_null).then(|| {
            let path = "/spec/checks/nodeStartupTimeoutSeconds";
            json!({ "op": "add", "path": path, "value": SECONDS })
        });
    }
    let version = object.types.as_ref().map(|t| t.api_version.as_str());
    let nested = version.is_some_and(|v| v.ends_with("/v1beta2"));
    if nested && !flat.into_iter().any(has) {
        let value = json!({ "nodeStartupTimeoutSeconds": SECONDS });
        return Some(json!({ "op": "add", "path": "/spec/checks", "value": value }));
    }
    Some(json!({ "op": "add", "path": "/spec/nodeStartupTimeout", "value": DURATION }))
}
