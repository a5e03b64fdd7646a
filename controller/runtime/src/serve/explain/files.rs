//! Objects from files: YAML documents, or a List as `kubectl` prints it.
//!
//! Invariant: a document that cannot be parsed is an error, never treated as missing.

use kube::{Resource, ResourceExt, api::DynamicObject};
use rackhand_api::names::kinds;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    CheckGroup, CheckSubject, ExplainError, Found,
    machines::{ambiguous, existing},
    nodes,
    snapshot::Snapshot,
};
use crate::store::object::Key;

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

/// The only check that matches.
pub(super) fn find(snapshot: &Snapshot, check: &CheckSubject) -> Result<Found, ExplainError> {
    match check {
        CheckSubject::Machines {
            namespace,
            name,
            group,
        } => find_machine_check(snapshot, namespace.as_deref(), name.as_deref(), *group),
        CheckSubject::Nodes { name } => find_node_check(snapshot, name.as_deref()),
    }
}

fn fits(key: &Key, namespace: Option<&str>, name: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| namespace == key.namespace)
        && name.is_none_or(|name| name == key.name)
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

pub(crate) fn documents(text: &str) -> Result<Vec<DynamicObject>, ExplainError> {
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

/// Adds an object. A Node must be valid.
fn add(snapshot: &mut Snapshot, object: DynamicObject) -> Result<(), ExplainError> {
    let types = object.types.clone().unwrap_or_default();
    if (types.api_version.as_str(), types.kind.as_str()) == ("v1", "Node") {
        snapshot.seen.nodes.push(parse(&object)?);
        return Ok(());
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
