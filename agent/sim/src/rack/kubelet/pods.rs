//! Decisions of a kubelet on a pod, as data.
//!
//! Owns: the decision and the posted status. Pure: takes the pod in the API, whether its processes
//! run, and `now`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::node::seconds;
use crate::rack::process::PodIdentity;

/// The action of the kubelet on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodAction {
    /// Start its processes.
    Start,
    /// Its processes run, but its status does not show it: post the status.
    Report,
    /// Stop its processes, then remove it.
    Terminate,
    /// Its processes have ended: remove it from the API.
    Remove,
    Nothing,
}

/// Decides on a pod. `running`: whether its processes run on this host.
pub fn decide(pod: &Pod, running: bool) -> PodAction {
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")) {
        return PodAction::Nothing;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return if running {
            PodAction::Terminate
        } else {
            PodAction::Remove
        };
    }
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    match (running, phase) {
        (_, Some("Succeeded" | "Failed")) => PodAction::Nothing,
        (false, _) => PodAction::Start,
        (true, Some("Running")) if is_ready(pod) => PodAction::Nothing,
        (true, _) => PodAction::Report,
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one.type_ == "Ready" && one.status == "True")
    })
}

/// Identity of a pod's processes; `None` if the pod lacks the metadata of a stored object.
pub fn identity(pod: &Pod) -> Option<PodIdentity> {
    Some(PodIdentity {
        uid: pod.metadata.uid.clone()?,
        namespace: pod.metadata.namespace.clone()?,
        name: pod.metadata.name.clone()?,
    })
}

/// Location and start of a pod's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub since: Timestamp,
    /// The pod's address.
    pub ip: String,
    /// The host's address.
    pub host_ip: String,
    /// Boot id of their boot.
    pub boot_id: String,
}

/// The status of a pod whose processes run, as a strategic merge patch that applies to this UID
/// only.
pub fn status(pod: &Pod, running: &Running, now: Timestamp) -> Value {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let containers = pod
        .spec
        .as_ref()
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default();
    let containers: Vec<_> = containers
        .iter()
        .map(|container| {
            let id = container_id(uid, &container.name, &running.boot_id);
            let image = container.image.as_deref().unwrap_or("sim");
            json!({
                "name": container.name,
                "image": image,
                "imageID": format!("sim://{image}"),
                "containerID": id,
                "ready": true,
                "started": true,
                "restartCount": restarts(pod, &container.name, &id),
                "state": {"running": {"startedAt": seconds(running.since)}},
            })
        })
        .collect();
    let conditions = [
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
    ];
    let conditions = conditions.map(|kind| {
        let since = true_since(pod, kind).unwrap_or(now);
        json!({
            "type": kind,
            "status": "True",
            "lastTransitionTime": seconds(since),
            "reason": null,
            "message": null,
        })
    });
    json!({
        "metadata": {"uid": uid},
        "status": {
            "phase": "Running",
            "reason": null,
            "message": null,
            "hostIP": running.host_ip,
            "podIP": running.ip,
            "podIPs": [{"ip": running.ip}],
            "startTime": seconds(running.since),
            "conditions": conditions,
            "containerStatuses": containers,
        },
    })
}

fn container_id(uid: &str, container: &str, boot_id: &str) -> String {
    format!("sim://{boot_id}/{uid}/{container}")
}

/// A container of an earlier boot counts as a restart.
fn restarts(pod: &Pod, container: &str, id: &str) -> i32 {
    let known = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let known = known.and_then(|all| all.iter().find(|one| one.name == container));
    known.map_or(0, |known| {
        let same = known
            .container_id
            .as_deref()
            .is_none_or(|known| known.is_empty() || known == id);
        known.restart_count + i32::from(!same)
    })
}

fn true_since(pod: &Pod, kind: &str) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let same = conditions
        .iter()
        .find(|one| one.type_ == kind && one.status == "True")?;
    same.last_transition_time.as_ref().map(|time| time.0)
}
