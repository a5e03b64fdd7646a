//! Objects from files: YAML documents, or a List as `kubectl` prints it.
//!
//! Invariant: a document that cannot be parsed is an error, never treated as missing.

use k8s_openapi::api::{
    coordination::v1::Lease, core::v1::Pod, policy::v1::PodDisruptionBudget,
    storage::v1::VolumeAttachment,
};
use kube::{Resource, ResourceExt, api::DynamicObject};
use rackhand_api::names::{NODE_LEASE_NAMESPACE, kinds};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    CheckGroup, ExplainError, Found, Subject,
    machines::{ambiguous, existing},
    nodes,
    snapshot::Snapshot,
};
use crate::{
    clusters::OPENSHIFT_ETCD,
    store::object::{Key, Kind},
};

/// Reads the texts of files, each with its name.
pub(super) fn read(files: &[(String, String)]) -> Result<Snapshot, ExplainError> {
    let mut snapshot = Snapshot {
        from_files: true,
        ..Snapshot::default()
    };
    for (file, text) in files {
        let in_file = |error: ExplainError| ExplainError::File(format!("{file}: {error}"));
        for object in documents(text).map_err(in_file)? {
            add(&mut snapshot, object).map_err(in_file)?;
        }
    }
    Ok(snapshot)
}

/// The only object that matches the subject.
pub(super) fn find(snapshot: &Snapshot, subject: &Subject) -> Result<Found, ExplainError> {
    match subject {
        Subject::Remediation {
            namespace,
            name,
            kind,
        } => {
            let kinds = Kind::REQUESTS.into_iter();
            let mut found: Vec<(Kind, Key)> = kinds
                .filter(|k| kind.is_none_or(|kind| kind.kind() == *k))
                .flat_map(|k| {
                    snapshot
                        .seen
                        .of(k.group(), k.kind())
                        .map(move |o| (k, Key::of(o)))
                })
                .filter(|(_, key)| fits(key, namespace.as_deref(), name.as_deref()))
                .collect();
            found.dedup();
            find_remediation(&found)
        }
        Subject::MachineHealthCheck {
            namespace,
            name,
            group,
        } => find_machine_check(snapshot, namespace.as_deref(), name.as_deref(), *group),
        Subject::NodeHealthCheck { name } => find_node_check(snapshot, name.as_deref()),
    }
}

fn fits(key: &Key, namespace: Option<&str>, name: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| namespace == key.namespace)
        && name.is_none_or(|name| name == key.name)
}

fn find_remediation(found: &[(Kind, Key)]) -> Result<Found, ExplainError> {
    match found {
        [(kind, key)] => Ok(Found::Remediation(*kind, key.clone())),
        [] => Err(ExplainError::Request(
            "the file holds no PowerRemediation or Metal3Remediation that fits".into(),
        )),
        several => {
            let names = several
                .iter()
                .map(|(kind, key)| format!("{} {key}", kind.kind()));
            Err(ExplainError::Request(format!(
                "the file holds several: {}; name one, and its --kind",
                names.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

fn find_machine_check(
    snapshot: &Snapshot,
    namespace: Option<&str>,
    name: Option<&str>,
    group: Option<CheckGroup>,
) -> Result<Found, ExplainError> {
    let of = |group: CheckGroup| {
        let found = snapshot.seen.of(group.name(), kinds::MACHINE_HEALTH_CHECK);
        found.map(move |object| (group, Key::of(object)))
    };
    let mut checks: Vec<(CheckGroup, Key)> = CheckGroup::ALL.into_iter().flat_map(of).collect();
    checks.sort();
    checks.dedup();
    let fits: Vec<(CheckGroup, Key)> = checks
        .iter()
        .filter(|(of, _)| group.is_none_or(|group| group == *of))
        .filter(|(_, key)| fits(key, namespace, name))
        .cloned()
        .collect();
    match fits.as_slice() {
        [(group, key)] => Ok(Found::Machines(*group, key.clone())),
        [] => {
            let name = name.map(|name| format!(" {name}")).unwrap_or_default();
            let group = group.map(|group| format!(" of {}", group.name()));
            Err(ExplainError::Request(format!(
                "the files hold no MachineHealthCheck{name}{} that fits; {}",
                group.unwrap_or_default(),
                existing(&checks)
            )))
        }
        [(_, one), (_, other)] if one == other => Err(ambiguous(one)),
        _ => Err(ExplainError::Request(format!(
            "the files hold several checks, name one, and its namespace by -n; {}",
            existing(&fits)
        ))),
    }
}

fn find_node_check(snapshot: &Snapshot, name: Option<&str>) -> Result<Found, ExplainError> {
    let all = nodes::checks(snapshot);
    let fits: Vec<&String> = all
        .iter()
        .filter(|n| name.is_none_or(|name| name == *n))
        .collect();
    let existing = nodes::existing(&all);
    match (fits.as_slice(), name) {
        ([only], _) => Ok(Found::Nodes((*only).clone())),
        ([], Some(name)) => Err(ExplainError::Request(format!(
            "the files hold no NodeHealthCheck {name}; {existing}"
        ))),
        ([], None) => Err(ExplainError::Request(
            "the files hold no NodeHealthCheck of remediation.medik8s.io".into(),
        )),
        _ => Err(ExplainError::Request(format!(
            "the files hold several checks, name one; {existing}"
        ))),
    }
}

#[derive(Deserialize)]
struct Document(Value);

pub(in crate::serve) fn documents(text: &str) -> Result<Vec<DynamicObject>, ExplainError> {
    let mut objects = Vec::new();
    for (number, part) in text.split("\n---").enumerate() {
        let blank = |line: &str| {
            let line = line.trim_start_matches('-').trim();
            line.is_empty() || line.starts_with('#')
        };
        if part.lines().all(blank) {
            continue;
        }
        let bad =
            |why: String| ExplainError::File(format!("document {} of the file: {why}", number + 1));
        let part = part.trim_start_matches("---");
        let Document(value) =
            serde_saphyr::from_str(part).map_err(|e| bad(format!("not YAML: {e}")))?;
        let items = match value.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![value],
        };
        for item in items {
            let object: DynamicObject = serde_json::from_value(item)
                .map_err(|e| bad(format!("not a Kubernetes object: {e}")))?;
            objects.push(object);
        }
    }
    Ok(objects)
}

/// Adds an object. An object of Kubernetes' own kinds must be valid.
fn add(snapshot: &mut Snapshot, object: DynamicObject) -> Result<(), ExplainError> {
    let types = object.types.clone().unwrap_or_default();
    let namespace = object.metadata.namespace.as_deref();
    match (types.api_version.as_str(), types.kind.as_str()) {
        ("v1", "Node") => {
            let node = parse(&object)?;
            snapshot.seen.nodes.push(node);
            return Ok(());
        }
        ("v1", "Pod") => drop(parse::<Pod>(&object)?),
        (_, "VolumeAttachment") => drop(parse::<VolumeAttachment>(&object)?),
        (_, "Lease") if namespace == Some(NODE_LEASE_NAMESPACE) => drop(parse::<Lease>(&object)?),
        (_, "PodDisruptionBudget") if namespace == Some(OPENSHIFT_ETCD) => {
            drop(parse::<PodDisruptionBudget>(&object)?);
        }
        _ => {}
    }
    snapshot.seen.objects.push(object);
    Ok(())
}

fn parse<T: Resource + DeserializeOwned>(object: &DynamicObject) -> Result<T, ExplainError> {
    let kind = object
        .types
        .as_ref()
        .map_or("object", |types| types.kind.as_str());
    let name = object.name_any();
    object
        .clone()
        .try_parse()
        .map_err(|error| ExplainError::File(format!("cannot parse {kind} {name}: {error}")))
}
