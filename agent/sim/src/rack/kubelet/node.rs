//! The Node and the Lease of a host, as data.
//!
//! Owns: their content. Pure: takes a configuration, the existing object, and `now`, and returns a
//! document.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::rack::config::HostConfig;

/// Namespace of the Leases of Nodes.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Internal address of every Node.
pub const ADDRESS: &str = "127.0.0.1";
const VERSION: &str = "v1.36.0";

/// The labels of the Node.
pub fn labels(host: &HostConfig) -> BTreeMap<String, String> {
    let usual = [
        ("kubernetes.io/hostname", host.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ];
    let mut labels: BTreeMap<_, _> = usual
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    labels.extend(host.kubelet.labels.clone());
    labels
}

/// The Node at its registration.
pub fn registration(host: &HostConfig) -> Value {
    let mut spec = json!({});
    if let Some(id) = &host.kubelet.provider_id {
        spec["providerID"] = json!(id);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host.name, "labels": labels(host)},
        "spec": spec,
    })
}

/// A patch for missing parts of an existing Node: labels, and a provider id that was never set.
pub fn amendment(host: &HostConfig, existing: &Node) -> Option<Value> {
    let mut patch = json!({});
    let present = existing.metadata.labels.clone().unwrap_or_default();
    let missing: BTreeMap<_, _> = labels(host)
        .into_iter()
        .filter(|(key, value)| present.get(key) != Some(value))
        .collect();
    if !missing.is_empty() {
        patch["metadata"] = json!({"labels": missing});
    }
    let known = existing
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref());
    if let (None | Some(""), Some(id)) = (known, &host.kubelet.provider_id) {
        patch["spec"] = json!({"providerID": id});
    }
    patch
        .as_object()
        .is_some_and(|patch| !patch.is_empty())
        .then_some(patch)
}

/// Whether a kubelet has looked at its container runtime since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It has not: its first status of a boot.
    Starting,
    Ready,
}

/// The status of the Node, as a strategic merge patch. An unchanged condition keeps its last
/// transition time.
pub fn status(
    host: &HostConfig,
    boot_id: &str,
    readiness: Readiness,
    existing: Option<&Node>,
    now: Timestamp,
) -> Value {
    let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    let (ready, reason, message) = match readiness {
        Readiness::Starting => (
            "False",
            "KubeletNotReady",
            "container runtime status check may not have completed yet",
        ),
        Readiness::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
    };
    let conditions = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "enough memory",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "enough disk",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "enough processes",
        ),
        ("Ready", ready, reason, message),
    ];
    let conditions = conditions.map(|(kind, status, reason, message)| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": seconds(now),
            "lastTransitionTime": since(existing, kind, status).unwrap_or_else(|| seconds(now)),
        })
    });
    json!({"status": {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [
            {"type": "InternalIP", "address": ADDRESS},
            {"type": "Hostname", "address": host.name},
        ],
        "conditions": conditions,
        "nodeInfo": {
            "systemUUID": host.uuid,
            "machineID": host.uuid.replace('-', ""),
            "bootID": boot_id,
            "kernelVersion": "6.1.0",
            "osImage": "Simulated Linux",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "containerRuntimeVersion": "sim://1.0",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": VERSION,
        },
    }})
}

fn since(existing: Option<&Node>, kind: &str, status: &str) -> Option<String> {
    let conditions = existing?.status.as_ref()?.conditions.as_ref()?;
    let same = conditions
        .iter()
        .find(|one| one.type_ == kind && one.status == status)?;
    same.last_transition_time
        .as_ref()
        .map(|time| seconds(time.0))
}

/// The renewal of the Lease, as a merge patch.
pub fn lease_renewal(host: &HostConfig, now: Timestamp) -> Value {
    json!({"spec": {
        "holderIdentity": host.name,
        "leaseDurationSeconds": 4,
        "renewTime": micros(now),
    }})
}

/// A new Lease, owned by the Node if that is known, so that it is deleted with it.
pub fn lease(host: &HostConfig, node_uid: Option<&str>, now: Timestamp) -> Value {
    let mut lease = lease_renewal(host, now);
    let owners = node_uid
        .map(|uid| json!([{"apiVersion": "v1", "kind": "Node", "name": host.name, "uid": uid}]));
    lease["apiVersion"] = json!("coordination.k8s.io/v1");
    lease["kind"] = json!("Lease");
    lease["metadata"] =
        json!({"name": host.name, "namespace": LEASE_NAMESPACE, "ownerReferences": owners});
    lease
}

/// A time in the format of `metav1.Time`.
pub(super) fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}
