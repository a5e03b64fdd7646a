//! Evicts the pods of a host that is still on.
//!
//! Invariants: before each batch the Node is read live; before each eviction leadership is checked; and each eviction names
//! the UID of the pod that was observed. Nothing but the Eviction API is used, which refuses what a PodDisruptionBudget
//! forbids.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use rackhand_core::remediation::{EvictionResult, Observation, PodRef, eviction_is_justified};
use serde_json::{Value, json};

use crate::{
    remediation::{
        act::{Scope, pod_batch::PodBatch},
        engine::ReconcileError,
        scope::Memory,
    },
    store::{api::ApiError, clock},
};

/// Time for one batch. What was not answered by then is asked again.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Evicts these pods, each as it was observed, and records the answers.
pub(super) async fn evict_pods(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    node: &str,
    pods: &[PodRef],
) -> Result<(), ReconcileError> {
    let batch = PodBatch::justified(scope, memory, o, node, eviction_is_justified).await?;
    let Some(batch) = batch else {
        return Ok(());
    };
    let name = batch.node.clone();
    let evict = |api: Api<Pod>, pod: PodRef| {
        move || async move {
            let (params, body) = (PostParams::default(), eviction_of(&pod));
            api.create_subresource::<Value, Value>("eviction", &pod.name, &params, &body)
                .await
                .map(drop)
        }
    };
    let mut evicted: usize = 0;
    let answered = |pod: PodRef, answer| {
        let result = result(&pod, answer);
        scope.context.metrics.count_eviction(label(&result));
        if result == EvictionResult::Evicted {
            evicted = evicted.saturating_add(1);
        }
        memory
            .shell
            .pod_evicted(pod, result, clock::monotonic_now());
    };
    batch
        .send(scope, "evict_pod", pods, BATCH_TIMEOUT, evict, answered)
        .await;
    if evicted > 0 {
        let message = format!("evicted {evicted} of the pods of node {name}");
        scope.emit_event(false, "PodsEvicted", &message);
    }
    Ok(())
}

/// The eviction of the pod that was observed, and not of a later one of its name.
fn eviction_of(pod: &PodRef) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": pod.name, "namespace": pod.namespace },
        "deleteOptions": { "preconditions": { "uid": pod.uid } },
    })
}

fn result(pod: &PodRef, answer: Result<(), ApiError>) -> EvictionResult {
    let error = match answer {
        Ok(()) => return EvictionResult::Evicted,
        Err(error) => error,
    };
    let Some(status) = error.status() else {
        return EvictionResult::Failed(error.to_string());
    };
    let details = status.details.iter();
    let causes = details.flat_map(|details| &details.causes);
    let causes: Vec<_> = causes
        .map(|cause| (cause.reason.clone(), cause.message.clone()))
        .collect();
    let of_pod = status.code != 404 || error.is_not_found();
    EvictionResult::of_refusal(
        &pod.namespace,
        status.code,
        of_pod,
        &status.message,
        &causes,
    )
}

/// The label of a result in metrics.
fn label(result: &EvictionResult) -> &'static str {
    match result {
        EvictionResult::Evicted => "evicted",
        EvictionResult::Gone => "gone",
        EvictionResult::Blocked(_) => "blocked",
        EvictionResult::Refused(_) => "refused",
        EvictionResult::Failed(_) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f12_pod_is_evicted_only_as_it_was_observed() {
        let pod = PodRef {
            namespace: "shop".into(),
            name: "db-0".into(),
            uid: "u".into(),
            version: "7".into(),
        };
        let sent = eviction_of(&pod);
        assert_eq!(sent["deleteOptions"]["preconditions"]["uid"], "u");
        assert_eq!(sent["metadata"]["name"], "db-0");
        let timeout = ApiError::Timeout {
            what: String::new(),
        };
        assert_eq!(label(&result(&pod, Err(timeout))), "failed");
    }
}
