//! Recordings: one line of JSON for each change, as `record` writes them.

use std::{collections::BTreeMap, io::Write, time::Duration};

use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::watcher::Event,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::history::{Change, HistoryEvent};
use crate::store::{
    api::{ApiError, management_client},
    object::{Key, Kind, Served, api, with_kind},
    watch::events,
};

/// A line of a recording.
#[derive(Serialize, Deserialize)]
struct Line {
    at: Timestamp,
    #[serde(rename = "type")]
    kind: LineKind,
    object: DynamicObject,
}

/// The type of a change, as watches name it.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum LineKind {
    Added,
    Modified,
    Deleted,
}

/// Reads a line.
pub(super) fn read(line: &str) -> Result<Option<HistoryEvent>, String> {
    let line: Line = serde_json::from_str(line)
        .map_err(|error| format!("not a line of a recording or of an audit log: {error}"))?;
    Ok(Some(HistoryEvent {
        at: line.at,
        change: match line.kind {
            LineKind::Added | LineKind::Modified => Change::Put(line.object),
            LineKind::Deleted => Change::Delete(line.object),
        },
    }))
}

/// Why a recording ended.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A cluster cannot be read.
    #[error("{0}")]
    Cluster(String),
    /// The recording cannot be written.
    #[error("cannot write the recording: {0}")]
    Write(#[from] std::io::Error),
}

impl From<ApiError> for RecordError {
    fn from(error: ApiError) -> Self {
        Self::Cluster(error.to_string())
    }
}

/// Writes the Machines of a management cluster and the Nodes of its workload cluster, and every change of
/// them, for a time. `nodes` is the kubeconfig of the workload cluster; with `None`, the Nodes of the
/// management cluster are written.
///
/// # Errors
/// A cluster cannot be reached at the beginning, or the output cannot be written.
pub async fn record(
    kubeconfig: Option<&std::path::Path>,
    nodes: Option<&std::path::Path>,
    time: Option<Duration>,
    output: &mut (dyn Write + Send),
) -> Result<usize, RecordError> {
    let connect = async |file: Option<&std::path::Path>| {
        let client = management_client(file).await;
        client.map_err(|error| RecordError::Cluster(error.to_string()))
    };
    let management = connect(kubeconfig).await?;
    let workload = match nodes {
        Some(file) => connect(Some(file)).await?,
        None => management.clone(),
    };
    let served = Served::default();
    let mut watches = stream::SelectAll::new();
    watches.push(watch(&workload, ApiResource::erase::<Node>(&())));
    for machine in [Kind::Machine, Kind::OpenShiftMachine] {
        let found = served.find(&management, machine.group(), machine.kind());
        let found = found.await.map_err(|error| {
            RecordError::Cluster(format!("Machines of {}: {error}", machine.group()))
        })?;
        if let Some(resource) = found {
            watches.push(watch(&management, resource));
        }
    }
    let end = time.map(|time| tokio::time::Instant::now() + time);
    let mut written = Written::new();
    let mut lines = 0;
    loop {
        let deadline = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let change = tokio::select! {
            () = deadline => return Ok(lines),
            change = watches.next() => change,
        };
        let Some((kind, object)) = change else {
            return Ok(lines);
        };
        let Some(line) = line(kind, &object, &mut written) else {
            continue;
        };
        let text = serde_json::to_string(&line).map_err(std::io::Error::other)?;
        writeln!(output, "{text}")?;
        output.flush()?;
        lines += 1;
    }
}

type Watch = std::pin::Pin<Box<dyn Stream<Item = (LineKind, DynamicObject)> + Send>>;

/// The changes of a kind. An interrupted watch is resumed.
fn watch(client: &Client, resource: ApiResource) -> Watch {
    let objects = api(client, &resource, "");
    let changes = events(objects).filter_map(move |event| {
        let change = match event {
            Ok(Event::InitApply(object)) => Some((LineKind::Added, object)),
            Ok(Event::Apply(object)) => Some((LineKind::Modified, object)),
            Ok(Event::Delete(object)) => Some((LineKind::Deleted, object)),
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => {
                tracing::warn!(kind = resource.kind, %error, "watch interrupted; resuming");
                None
            }
        };
        let change = change.map(|(kind, object)| (kind, with_kind(object, &resource)));
        std::future::ready(change)
    });
    Box::pin(changes)
}

/// The last written state of each object, by its API version and kind.
type Written = BTreeMap<(String, String, Key), Value>;

/// A line; `None` if nothing that a rehearsal uses has changed.
fn line(kind: LineKind, object: &DynamicObject, written: &mut Written) -> Option<Line> {
    let object = reduced(object);
    let types = object.types.clone().unwrap_or_default();
    let key = (types.api_version, types.kind, Key::of(&object));
    let value = serde_json::to_value(&object).ok()?;
    if matches!(kind, LineKind::Deleted) {
        written.remove(&key);
    } else if written.insert(key, value.clone()) == Some(value) {
        return None;
    }
    Some(Line {
        at: Timestamp::now(),
        kind,
        object,
    })
}

/// The object without the fields that change all the time or that a rehearsal does not use: addresses, images,
/// managed fields and heartbeats.
fn reduced(object: &DynamicObject) -> DynamicObject {
    let mut reduced = DynamicObject {
        types: object.types.clone(),
        metadata: kube::api::ObjectMeta {
            name: Some(object.name_any()),
            namespace: object.namespace(),
            uid: object.uid(),
            creation_timestamp: object.creation_timestamp(),
            deletion_timestamp: object.metadata.deletion_timestamp.clone(),
            labels: object.metadata.labels.clone(),
            annotations: object.metadata.annotations.clone(),
            owner_references: object.metadata.owner_references.clone(),
            ..kube::api::ObjectMeta::default()
        },
        data: json!({}),
    };
    let status = object.data.get("status");
    let is_node = reduced
        .types
        .as_ref()
        .is_some_and(|types| types.kind == "Node");
    if is_node {
        let conditions = status.and_then(|s| s.get("conditions")).cloned();
        let mut conditions = conditions.unwrap_or_else(|| json!([]));
        for condition in conditions.as_array_mut().into_iter().flatten() {
            if let Some(fields) = condition.as_object_mut() {
                fields.remove("lastHeartbeatTime");
            }
        }
        let mut status = json!({ "conditions": conditions });
        let kernel = object.data.pointer("/status/nodeInfo/kernelVersion");
        if let Some(kernel) = kernel {
            status["nodeInfo"] = json!({ "kernelVersion": kernel });
        }
        reduced.data = json!({ "status": status });
    } else {
        for field in ["spec", "status"] {
            if let Some(value) = object.data.get(field) {
                reduced.data[field] = value.clone();
            }
        }
    }
    reduced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(heartbeat: &str, ready: &str) -> DynamicObject {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "n1", "uid": "u1", "resourceVersion": heartbeat,
                "labels": { "pool": "a" },
                "managedFields": [{ "manager": "kubelet" }],
            },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
                "conditions": [{
                    "type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat,
                    "lastTransitionTime": "2026-03-01T00:00:00Z",
                }],
            },
        });
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn heartbeats_are_not_recorded() {
        let mut written = BTreeMap::new();
        let mut record = |kind, object| line(kind, &object, &mut written).is_some();
        assert!(record(LineKind::Added, node("1", "True")));
        assert!(!record(LineKind::Modified, node("2", "True")));
        assert!(record(LineKind::Modified, node("3", "Unknown")));
        assert!(record(LineKind::Deleted, node("4", "Unknown")));
        assert!(record(LineKind::Added, node("4", "Unknown")));
    }

    #[test]
    fn recorded_line_is_read_as_it_was_written() {
        let line = line(LineKind::Added, &node("1", "True"), &mut BTreeMap::new()).unwrap();
        let text = serde_json::to_string(&line).unwrap();
        assert!(
            !text.contains("192.0.2.1") && !text.contains("managedFields"),
            "{text}"
        );
        let event = read(&text).unwrap().unwrap();
        assert_eq!(event.at, line.at);
        let Change::Put(object) = event.change else {
            panic!("{text}");
        };
        assert_eq!(object.labels()["pool"], "a");
        assert_eq!(object.data["status"]["conditions"][0]["status"], "True");
    }
}
