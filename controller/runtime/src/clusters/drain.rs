//! The pods and volumes of a Node (F4).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Toleration};
use kube::ResourceExt;
use rackhand_api::names::{
    OUT_OF_SERVICE_TAINT_EFFECT, OUT_OF_SERVICE_TAINT_KEY, OUT_OF_SERVICE_TAINT_VALUE,
};
use rackhand_core::remediation::{BoundPod, BoundVolume, Drain, PodRef};

use super::AttachedVolume;

/// Marks a static pod, which a kubelet creates from a file.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The listed objects of the Node.
pub(crate) fn bound_to<'a>(
    node: &str,
    pods: &[Pod],
    volumes: impl IntoIterator<Item = &'a AttachedVolume>,
) -> Drain {
    let here = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node);
    Drain {
        pods: pods.iter().filter(here).map(bound_pod).collect(),
        volumes: volumes
            .into_iter()
            .filter(|volume| volume.node == node)
            .map(|volume| BoundVolume {
                name: volume.name.clone(),
                claim: None,
            })
            .collect(),
    }
}

fn bound_pod(pod: &Pod) -> BoundPod {
    BoundPod {
        id: PodRef {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            version: pod.resource_version().unwrap_or_default(),
        },
        is_mirror: is_mirror(pod),
        is_of_daemon_set: is_of_daemon_set(pod),
        tolerates_taint: tolerates(pod),
        is_terminating: pod.metadata.deletion_timestamp.is_some(),
        has_finalizers: !pod.finalizers().is_empty(),
        is_ended: pod
            .status
            .as_ref()
            .is_some_and(|status| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))),
        claims: claims(pod),
    }
}

/// The PersistentVolumeClaims of a pod. The claim of a generic ephemeral volume is named by pod and volume.
fn claims(pod: &Pod) -> BTreeSet<String> {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let names = volumes.into_iter().flatten().filter_map(|volume| {
        let named = volume.persistent_volume_claim.as_ref();
        let named = named.map(|claim| claim.claim_name.clone());
        let ephemeral = volume.ephemeral.as_ref();
        named.or_else(|| ephemeral.map(|_| format!("{}-{}", pod.name_any(), volume.name)))
    });
    names.map(|name| format!("{namespace}/{name}")).collect()
}

/// Whether the pod is the mirror of a static pod.
pub(super) fn is_mirror(pod: &Pod) -> bool {
    pod.annotations().contains_key(MIRROR_ANNOTATION)
}

/// Whether a DaemonSet controls the pod.
fn is_of_daemon_set(pod: &Pod) -> bool {
    let mut owners = pod.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
}

/// Whether the pod tolerates the out-of-service taint without a time limit.
fn tolerates(pod: &Pod) -> bool {
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

    fn pod(tolerations: Vec<Toleration>) -> Pod {
        let mut pod = Pod::default();
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
        assert!(!tolerates(&Pod::default()));
    }
}
