//! Workload that waits for a host to be off, by the pods of its Node.

use rackhand_core::fleet::placement::WaitingPod;

use super::{drain::is_mirror, pods::SeenPod};

/// What of a pod decides whether it waits for its host to be off.
pub(super) fn waiting_pod(pod: &SeenPod) -> WaitingPod {
    WaitingPod {
        of_stateful_set: pod.is_controlled_by("StatefulSet"),
        has_volume: pod
            .volumes()
            .any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some()),
        is_bound_to_node: pod.is_controlled_by("DaemonSet") || is_mirror(pod),
        has_ended: pod.has_ended(),
    }
}

#[cfg(test)]
mod tests {
    use rackhand_core::fleet::placement::HostWorkload;
    use serde_json::{Value, json};

    use super::*;

    fn workload(pods: &[Value]) -> HostWorkload {
        let pods: Vec<SeenPod> = pods
            .iter()
            .map(|pod| serde_json::from_value(pod.clone()).unwrap())
            .collect();
        HostWorkload::of(pods.iter().map(waiting_pod))
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
