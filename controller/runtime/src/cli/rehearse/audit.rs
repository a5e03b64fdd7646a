//! Audit logs of a Kubernetes API server (audit.k8s.io/v1).
//!
//! Only events that contain the objects are used: level RequestResponse for writes of Machines and Nodes.

use jiff::Timestamp;
use rackhand_api::names::{groups, kinds};
use serde::Deserialize;
use serde_json::{Value, json};

use super::history::{Change, HistoryEvent};

/// The fields of an event that matter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    stage_timestamp: Timestamp,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    response_object: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    resource: String,
    api_group: String,
    namespace: Option<String>,
    name: Option<String>,
    api_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// Whether a line is an event of an audit log.
pub(super) fn is_event(line: &str) -> bool {
    line.contains("\"audit.k8s.io/v1\"")
}

/// Reads a line; `None` if it changed no Machine and no Node.
pub(super) fn read(line: &str) -> Result<Option<HistoryEvent>, String> {
    let event: AuditEvent =
        serde_json::from_str(line).map_err(|error| format!("not an audit event: {error}"))?;
    let of = &event.object_ref;
    let (api_version, kind) = match (of.api_group.as_str(), of.resource.as_str()) {
        ("", "nodes") => ("v1".to_owned(), "Node"),
        (groups::CLUSTER_API | groups::OPENSHIFT_MACHINE, "machines") => (
            format!("{}/{}", of.api_group, of.api_version),
            kinds::MACHINE,
        ),
        _ => return Ok(None),
    };
    let is_done = event.stage == "ResponseComplete";
    if !is_done || !(200..300).contains(&event.response_status.code) {
        return Ok(None);
    }
    let response = event.response_object.unwrap_or_default();
    let is_object = response.get("kind").and_then(Value::as_str) == Some(kind);
    let change = match (event.verb.as_str(), is_object) {
        ("create" | "update" | "patch", true) => Change::Put(
            serde_json::from_value(response).map_err(|error| format!("responseObject: {error}"))?,
        ),
        // An object with finalizers is returned, and written again when they are removed.
        ("delete", false) => {
            let object = json!({
                "apiVersion": api_version, "kind": kind,
                "metadata": { "name": of.name, "namespace": of.namespace },
            });
            Change::Delete(
                serde_json::from_value(object).map_err(|error| format!("objectRef: {error}"))?,
            )
        }
        _ => return Ok(None),
    };
    Ok(Some(HistoryEvent {
        at: event.stage_timestamp,
        change,
    }))
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;

    fn line(verb: &str, resource: &str, code: u16, object: &Value) -> String {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
            "stage": "ResponseComplete", "verb": verb,
            "stageTimestamp": "2026-03-01T00:00:00.123456Z",
            "objectRef": { "resource": resource, "name": "n1", "apiVersion": "v1", "subresource": "status" },
            "responseStatus": { "code": code }, "responseObject": object,
        })
        .to_string()
    }

    #[test]
    fn writes_of_nodes_and_machines_are_read_and_everything_else_is_left_out() {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" } });
        let status = json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" });
        let read = |verb: &str, resource: &str, code, object: &Value| {
            let line = line(verb, resource, code, object);
            assert!(is_event(&line));
            read(&line).unwrap().map(|event| event.change)
        };
        for (verb, resource, code, object) in [
            ("get", "nodes", 200, &node),
            ("patch", "pods", 200, &node),
            ("patch", "nodes", 409, &status),
        ] {
            assert!(
                read(verb, resource, code, object).is_none(),
                "{verb} {resource} {code}"
            );
        }
        let put = read("patch", "nodes", 200, &node).unwrap();
        assert!(matches!(put, Change::Put(object) if object.name_any() == "n1"));
        let deleted = read("delete", "nodes", 200, &status).unwrap();
        assert!(matches!(deleted, Change::Delete(object) if object.name_any() == "n1"));
        assert!(super::read("{\"apiVersion\": \"audit.k8s.io/v1\"}").is_err());
    }
}
