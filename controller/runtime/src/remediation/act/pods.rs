//! Deletes the pods of a host that is confirmed off.
//!
//! Invariants: before each batch the Node is read live; before each deletion leadership and the age of the
//! latest reading of the BMC are checked; and each deletion names UID and version of the pod that was
//! observed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};
use rackhand_core::remediation::{Observation, PodRef, deletion_is_justified};

use crate::{
    remediation::{
        act::{Scope, node, pod_batch::PodBatch},
        engine::ReconcileError,
        scope::Memory,
    },
    store::api::ApiError,
};

/// Time for one batch. A longer one would delay the monitoring of the hold.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Pods that are named in one Event.
const NAMES: usize = 5;

/// Deletes these pods, each as it was observed. A pod that is gone or has changed is not an error: the
/// next observation shows it.
pub(super) async fn delete_pods(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    node: &str,
    pods: &[PodRef],
) -> Result<(), ReconcileError> {
    let batch = PodBatch::justified(scope, memory, o, node, deletion_is_justified).await?;
    let Some(batch) = batch else {
        return Ok(());
    };
    let name = batch.node.clone();
    let shell = memory.shell.clone();
    let delete = |api: Api<Pod>, pod: PodRef| {
        let check_latest_reading = node::check_latest_reading(&shell);
        move || async move {
            check_latest_reading()?;
            api.delete(&pod.name, &as_observed(&pod)).await.map(drop)
        }
    };
    let mut deleted = Vec::new();
    let answered = |pod: PodRef, answer: Result<(), ApiError>| {
        scope.context.metrics.count_pod_deletion(result(&answer));
        match answer {
            Ok(()) => {
                deleted.push(pod.to_string());
                memory.shell.pod_deleted(pod, Ok(()));
            }
            Err(error) if is_refusal(&error) => {
                tracing::warn!(remediation = %scope.id, %error, "left to the garbage collector of pods");
                memory.shell.pod_deleted(pod, Err(error.to_string()));
            }
            Err(error) => {
                tracing::debug!(remediation = %scope.id, %error, "the pod is observed again");
            }
        }
    };
    batch
        .send(scope, "delete_pod", pods, BATCH_TIMEOUT, delete, answered)
        .await;
    if !deleted.is_empty() {
        let message = format!(
            "deleted {} of node {name}, whose host is confirmed off: {}",
            if deleted.len() == 1 {
                "1 pod".into()
            } else {
                format!("{} pods", deleted.len())
            },
            names(&deleted)
        );
        scope.emit_event(false, "PodsDeleted", &message);
    }
    Ok(())
}

/// Deletes the pod at once, only in the version that was observed: a kubelet that reports about it changes the
/// version.
fn as_observed(pod: &PodRef) -> DeleteParams {
    DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(pod.uid.clone()),
            resource_version: Some(pod.version.clone()),
        }),
        ..DeleteParams::default()
    }
}

/// Whether a repetition would be refused as well, as without the right to delete pods.
fn is_refusal(error: &ApiError) -> bool {
    error.is_client_error() && !error.is_not_found() && !error.is_conflict()
}

/// The label of a result in metrics.
fn result(answer: &Result<(), ApiError>) -> &'static str {
    match answer {
        Ok(()) => "deleted",
        Err(error) if error.is_not_found() => "gone",
        Err(error) if error.is_conflict() => "changed",
        Err(error) if is_refusal(error) => "refused",
        Err(_) => "failed",
    }
}

/// The first names, and how many more there are.
fn names(all: &[String]) -> String {
    let shown: Vec<&str> = all.iter().take(NAMES).map(String::as_str).collect();
    match all.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, pod: Option<&str>) -> Result<(), ApiError> {
        let details = pod.map(|name| kube::core::response::StatusDetails {
            name: name.into(),
            group: String::new(),
            kind: "pods".into(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        let status = kube::core::Status {
            code,
            details,
            ..kube::core::Status::failure("no", "No")
        };
        Err(ApiError::Kube {
            what: "pod a/b".into(),
            source: Box::new(kube::Error::Api(Box::new(status))),
        })
    }

    #[test]
    fn f12_pod_is_deleted_only_as_it_was_observed() {
        let pod = PodRef {
            namespace: "shop".into(),
            name: "db-0".into(),
            uid: "u".into(),
            version: "7".into(),
        };
        let sent = serde_json::to_value(as_observed(&pod)).unwrap();
        let expected = serde_json::json!({
            "gracePeriodSeconds": 0,
            "preconditions": { "uid": "u", "resourceVersion": "7" },
        });
        assert_eq!(sent, expected);
    }

    #[test]
    fn only_a_refusal_ends_the_deletion_of_a_pod() {
        let answers = [404, 409, 403, 422, 429, 500, 504];
        let results = answers.map(|code| result(&answered(code, Some("db-0"))));
        let expected = [
            "gone", "changed", "refused", "refused", "failed", "failed", "failed",
        ];
        assert_eq!(results, expected);
        // An API server that does not serve the path, because it starts.
        assert_eq!(result(&answered(404, None)), "failed");
        let timeout = ApiError::Timeout {
            what: String::new(),
        };
        assert_eq!(result(&Err(timeout)), "failed");
    }

    #[test]
    fn event_names_some_pods() {
        let pods: Vec<String> = (0..7).map(|i| format!("a/{i}")).collect();
        assert_eq!(names(&pods[..2]), "a/0, a/1");
        assert_eq!(names(&pods), "a/0, a/1, a/2, a/3, a/4 and 2 more");
    }
}
