//! Objects from a file: YAML documents, or a List as `kubectl` prints it.
//!
//! Must never take a part that does not read for one that is not there.

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{NODE_LEASE_NAMESPACE, groups, kinds},
    views::group_of,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    ExplainError, Explanation, RequestKind, explain,
    scene::{Workload, scene},
};
use crate::{
    config::Config,
    index::Index,
    object::Kind,
    remediation::{OPENSHIFT_ETCD, RequestId},
};

/// Explains a request from the text of a file: YAML documents, or a List as `kubectl get -o yaml`
/// prints it, with the request and whatever of Machine, Cluster, Metal3Machine, BareMetalHost,
/// RackAgents, Node, Lease, pods, VolumeAttachments and the guard of OpenShift's etcd is there.
///
/// # Errors
/// The text does not read, or does not hold exactly one request that fits.
pub fn explain_file(
    text: &str,
    name: Option<&str>,
    kind: Option<RequestKind>,
    config: &Config,
) -> Result<Explanation, ExplainError> {
    explain_file_at(text, name, kind, config, Timestamp::now())
}

pub(super) fn explain_file_at(
    text: &str,
    name: Option<&str>,
    kind: Option<RequestKind>,
    config: &Config,
    now: Timestamp,
) -> Result<Explanation, ExplainError> {
    let index = Index::new(Vec::new());
    let mut workload = Workload::default();
    for object in documents(text)? {
        take(&index, &mut workload, object)?;
    }
    let wanted = |id: &RequestId| {
        kind.is_none_or(|k| k.kind() == id.kind) && name.is_none_or(|n| n == id.key.name)
    };
    let fit: Vec<RequestId> = index
        .requests()
        .into_iter()
        .map(|(id, _)| id)
        .filter(wanted)
        .collect();
    let id = match fit.as_slice() {
        [id] => id.clone(),
        [] => {
            return Err(ExplainError::Request(
                "the file holds no PowerRemediation or Metal3Remediation that fits".into(),
            ));
        }
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            return Err(ExplainError::Request(format!(
                "the file holds several: {}; name one, and its --kind",
                names.join(", ")
            )));
        }
    };
    scene(&index, &id, &workload, config, now).map(|scene| explain(&scene, now))
}

#[derive(Deserialize)]
struct Document(Value);

pub(super) fn documents(text: &str) -> Result<Vec<DynamicObject>, ExplainError> {
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

/// Sorts an object to where it belongs; others are passed over.
fn take(index: &Index, workload: &mut Workload, object: DynamicObject) -> Result<(), ExplainError> {
    let types = object.types.clone().unwrap_or_default();
    let group = group_of(&types.api_version);
    if group == groups::OPENSHIFT_MACHINE && types.kind == kinds::MACHINE {
        workload.machines.push(object);
        return Ok(());
    }
    let known = Kind::ALL
        .into_iter()
        .find(|k| k.kind() == types.kind && k.group() == group);
    if let Some(kind) = known {
        index.apply(kind, object);
        return Ok(());
    }
    let name = format!("{} {}", types.kind, object.name_any());
    let bad = |e: &dyn std::fmt::Display| ExplainError::File(format!("{name} does not read: {e}"));
    match types.kind.as_str() {
        "Node" => workload
            .nodes
            .push(object.try_parse().map_err(|e| bad(&e))?),
        "Lease" if object.metadata.namespace.as_deref() == Some(NODE_LEASE_NAMESPACE) => {
            workload
                .leases
                .push(object.try_parse().map_err(|e| bad(&e))?);
        }
        "Pod" => {
            let pod = object.try_parse().map_err(|e| bad(&e))?;
            workload.pods.get_or_insert_default().push(pod);
        }
        "PodDisruptionBudget" if object.metadata.namespace.as_deref() == Some(OPENSHIFT_ETCD) => {
            workload
                .budgets
                .push(object.try_parse().map_err(|e| bad(&e))?);
        }
        "VolumeAttachment" => {
            let volume = object.try_parse().map_err(|e| bad(&e))?;
            workload.volumes.get_or_insert_default().push(volume);
        }
        _ => {}
    }
    Ok(())
}
