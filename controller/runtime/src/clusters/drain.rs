//! Which pods keep a Node from being drained (F4), by what lists show of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Toleration;
use rackhand_api::names::{
    OUT_OF_SERVICE_TAINT_EFFECT, OUT_OF_SERVICE_TAINT_KEY, OUT_OF_SERVICE_TAINT_VALUE,
};
use rackhand_core::remediation::{BoundPod, PodRef};

use super::pods::SeenPod;

/// Marks a static pod, which a kubelet creates from a file.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

pub(super) fn bound_pod(pod: &SeenPod) -> BoundPod {
    let meta = &pod.metadata;
    BoundPod {
        id: PodRef {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            version: meta.resource_version.clone(),
        },
        is_mirror: is_mirror(pod),
        is_of_daemon_set: pod.is_controlled_by("DaemonSet"),
        tolerates_taint: tolerates(pod),
        is_terminating: meta.deletion_timestamp.is_some(),
        has_finalizers: meta.finalizers.as_ref().is_some_and(|all| !all.is_empty()),
        is_ended: pod.has_ended(),
        claims: claims(pod),
    }
}

/// The PersistentVolumeClaims of a pod. The claim of a generic ephemeral volume is named by pod and volume.
fn claims(pod: &SeenPod) -> BTreeSet<String> {
    let meta = &pod.metadata;
    let names = pod.volumes().filter_map(|volume| {
        let named = volume.persistent_volume_claim.as_ref();
        let named = named.map(|claim| claim.claim_name.clone());
        let ephemeral = volume.ephemeral.as_ref();
        named.or_else(|| ephemeral.map(|_| format!("{}-{}", meta.name, volume.name)))
    });
    names
        .map(|name| format!("{}/{name}", meta.namespace))
        .collect()
}

/// Whether the pod is the mirror of a static pod.
pub(super) fn is_mirror(pod: &SeenPod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(MIRROR_ANNOTATION))
}

/// Whether the pod tolerates the out-of-service taint without a time limit.
fn tolerates(pod: &SeenPod) -> bool {
    let list = pod.spec.as_ref().and_then(|s| s.tolerations.as_ref());
    list.into_iter()
        .flatten()
        .any(|t| matches_taint(t) && t.toleration_seconds.is_none())
}

fn matches_taint(toleration: &Toleration) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != OUT_OF_SERVICE_TAINT_EFFECT {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => key.is_empty() || key == OUT_OF_SERVICE_TAINT_KEY,
        "Equal" => {
            key == OUT_OF_SERVICE_TAINT_KEY
                && toleration.value.as_deref() == Some(OUT_OF_SERVICE_TAINT_VALUE)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        Toleration {
            key: some(key),
            operator: some(operator),
            value: some(value),
            effect: some(effect),
            ..Toleration::default()
        }
    }

    fn pod(tolerations: Vec<Toleration>) -> SeenPod {
        let mut pod = SeenPod::default();
        pod.spec.get_or_insert_default().tolerations = Some(tolerations);
        pod
    }

    #[test]
    fn f4_only_pods_that_tolerate_taint_without_limit_are_ignored() {
        let key = OUT_OF_SERVICE_TAINT_KEY;
        for (t, tolerated) in [
            (toleration("", "Exists", "", ""), true),
            (toleration(key, "Exists", "", "NoExecute"), true),
            (toleration(key, "Equal", "nodeshutdown", ""), true),
            (toleration(key, "", "nodeshutdown", "NoExecute"), true),
            (toleration(key, "Equal", "other", ""), false),
            (toleration(key, "Exists", "", "NoSchedule"), false),
            (
                toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
                false,
            ),
        ] {
            assert_eq!(tolerates(&pod(vec![t.clone()])), tolerated, "{t:?}");
        }
        let mut limited = toleration(key, "Exists", "", "");
        limited.toleration_seconds = Some(300);
        assert!(!tolerates(&pod(vec![limited])));
        assert!(!tolerates(&SeenPod::default()));
    }

    #[test]
    fn f4_everything_that_decides_about_a_pod_is_read() {
        let listed = serde_json::json!({
            "metadata": {
                "namespace": "shop", "name": "db-0", "uid": "u", "resourceVersion": "7",
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"],
                "annotations": { MIRROR_ANNOTATION: "x" }, "managedFields": [{}],
                "ownerReferences": [
                    { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "o", "uid": "o", "controller": true },
                ],
            },
            "spec": { "nodeName": "n", "containers": [], "tolerations": [{ "operator": "Exists" }], "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } },
                { "name": "tmp", "ephemeral": { "volumeClaimTemplate": {} } },
                { "name": "none", "emptyDir": {} },
            ] },
            "status": { "phase": "Failed" },
        });
        let bound = bound_pod(&serde_json::from_value(listed).unwrap());
        let claims = ["shop/data-db-0", "shop/db-0-tmp"];
        let expected = BoundPod {
            id: PodRef {
                namespace: "shop".into(),
                name: "db-0".into(),
                uid: "u".into(),
                version: "7".into(),
            },
            is_mirror: true,
            is_of_daemon_set: true,
            tolerates_taint: true,
            is_terminating: true,
            has_finalizers: true,
            is_ended: true,
            claims: claims.map(String::from).into(),
        };
        assert_eq!(bound, expected);
        let little = serde_json::json!({
            "metadata": { "name": "a", "finalizers": [], "annotations": null },
            "spec": { "nodeName": "n", "volumes": null },
        });
        let bound = bound_pod(&serde_json::from_value(little).unwrap());
        assert!(bound.keeps_from_drain() && !bound.has_finalizers && !bound.is_ended);
    }
}
