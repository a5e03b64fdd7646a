//! Workload that waits for a host to be off, by the pods of its Node.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rackhand_core::fleet::placement::{HostWorkload, WaitingPod};

use super::drain::is_mirror;

/// The workload that can run elsewhere only once the host of these pods is off.
pub(super) fn host_workload(pods: &[Pod]) -> HostWorkload {
    HostWorkload::of(pods.iter().map(waiting_pod))
}

fn waiting_pod(pod: &Pod) -> WaitingPod {
    let owned_by = |kind| {
        let owners = pod.owner_references().iter();
        owners
            .filter(|owner| owner.controller == Some(true))
            .any(|owner| owner.kind == kind)
    };
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    WaitingPod {
        of_stateful_set: owned_by("StatefulSet"),
        has_volume: volumes
            .into_iter()
            .any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some()),
        is_bound_to_node: owned_by("DaemonSet") || is_mirror(pod),
        has_ended: matches!(phase, Some("Succeeded" | "Failed")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(pods: &[Value]) -> HostWorkload {
        let pods: Vec<Pod> = pods
            .iter()
            .map(|pod| serde_json::from_value(pod.clone()).unwrap())
            .collect();
        host_workload(&pods)
    }

    fn owned(kind: &str) -> Value {
        json!({ "metadata": { "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true },
        ] } })
    }

    #[test]
    fn pods_of_the_node_tell_what_waits() {
        let with_claim = json!({ "spec": { "containers": [], "volumes": [
            { "name": "data", "persistentVolumeClaim": { "claimName": "data-0" } },
        ] } });
        let mut ended = with_claim.clone();
        ended["status"] = json!({ "phase": "Succeeded" });
        let mirror =
            json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } });
        let none = workload(&[owned("DaemonSet"), mirror.clone(), ended]);
        assert_eq!(none, HostWorkload::None);
        let replaced = workload(&[owned("ReplicaSet"), mirror]);
        assert_eq!(replaced, HostWorkload::Replaced);
        for waiting in [owned("StatefulSet"), with_claim] {
            let pods = [owned("ReplicaSet"), waiting];
            assert_eq!(workload(&pods), HostWorkload::Waits, "{pods:?}");
        }
    }
}
