//! External remediation (`external-baremetal`): the annotation `host.metal3.io/external-remediation` on a
//! Machine (the mark) leads to a PowerRemediation, and is removed after it.
//!
//! Invariant: an external remediation never begins where OpenShift's own Machine controllers run or may run,
//! because they act on the same annotation and would switch the same host.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, api::DynamicObject, core::TypeMeta};
use rackhand_api::{
    names::{
        API_VERSION, MADE_BY_ANNOTATION, OPENSHIFT_EXTERNAL_BAREMETAL,
        OPENSHIFT_MACHINE_API_NAMESPACE, OPENSHIFT_MACHINE_CONTROLLERS,
        OPENSHIFT_POWER_ON_TIMEOUT_ANNOTATION, OPENSHIFT_POWERED_OFF_ANNOTATION,
        OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION, kinds,
    },
    views::{MachineView, Meta},
};
use rackhand_core::checks::machines::{ExternalProgress, MarkCarrier, mark_carrier};
use serde_json::{Value, json};

use crate::{
    checks::Context,
    store::{
        api::{call, optional},
        index::Index,
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

/// Boot timeout if the check has no startup timeout, as in OpenShift's own controller.
const BOOT: Duration = Duration::from_secs(20 * 60);
/// Bounds of `bootSeconds` by the schema.
const BOOT_SECONDS: (u64, u64) = (1, 86_400);

/// Progress of the remediation of a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    stands: MarkState,
    /// The UID of the remediation, if it belongs to the mark.
    pub(super) remediation: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkState {
    Nowhere,
    /// Running, which includes a remediation of that name with another owner.
    Running,
    /// The remediation is being deleted.
    Going,
    Succeeded,
    Failed,
    Aborted,
}

// === impl Mark ===

impl Mark {
    /// The progress for the next step. An aborted remediation of a `healthy` Machine counts as succeeded.
    pub(super) fn carried(&self, healthy: bool) -> ExternalProgress {
        match self.stands {
            MarkState::Nowhere => ExternalProgress::None,
            MarkState::Going | MarkState::Running => ExternalProgress::Running,
            MarkState::Succeeded => ExternalProgress::Succeeded,
            MarkState::Aborted if healthy => ExternalProgress::Succeeded,
            MarkState::Aborted => ExternalProgress::Aborted,
            MarkState::Failed => ExternalProgress::Failed,
        }
    }

    /// Whether the remediation belongs to the mark and can be withdrawn.
    pub(super) fn is_withdrawable(&self) -> bool {
        self.remediation.is_some() && self.stands != MarkState::Going
    }
}

/// The progress of the remediation of a Machine's mark, from the index.
pub(super) fn mark(index: &Index, machine: &Key, uid: &str) -> Mark {
    let id = RemediationId::new(Kind::PowerRemediation, machine.clone());
    let found = index.remediation(&id);
    read(found.as_ref().map(|entry| &*entry.object), uid)
}

/// The progress from the PowerRemediation with the name of the Machine.
pub(super) fn read(remediation: Option<&DynamicObject>, uid: &str) -> Mark {
    let Some(remediation) = remediation else {
        return Mark {
            stands: MarkState::Nowhere,
            remediation: None,
        };
    };
    let meta = Meta::of(remediation);
    let for_mark = meta
        .annotations
        .get(OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION)
        .is_some_and(|s| s == OPENSHIFT_EXTERNAL_BAREMETAL);
    if !for_mark || !meta.owners.iter().any(|owner| owner.uid == uid) {
        return Mark {
            stands: MarkState::Running,
            remediation: None,
        };
    }
    let phase = remediation.data.pointer("/status/phase");
    let stands = match phase.and_then(Value::as_str) {
        _ if meta.is_deleting() => MarkState::Going,
        Some("Succeeded") => MarkState::Succeeded,
        Some("Failed") => MarkState::Failed,
        Some("Aborted") => MarkState::Aborted,
        _ => MarkState::Running,
    };
    Mark {
        stands,
        remediation: Some(meta.uid),
    }
}

/// The PowerRemediation of a mark. It has one attempt, as in OpenShift's own controller; the check decides
/// what follows a failure.
pub(super) fn remediation_object(
    machine: &MachineView,
    startup_timeout: Option<Duration>,
    made_by: &str,
) -> DynamicObject {
    let (least, most) = BOOT_SECONDS;
    let boot = startup_timeout.unwrap_or(BOOT).as_secs().clamp(least, most);
    let meta = &machine.meta;
    let metadata = json!({
        "name": meta.name,
        "namespace": meta.namespace,
        "annotations": {
            OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION: OPENSHIFT_EXTERNAL_BAREMETAL,
            MADE_BY_ANNOTATION: made_by,
        },
        "ownerReferences": [{
            "apiVersion": meta.api_version,
            "kind": kinds::MACHINE,
            "name": meta.name,
            "uid": meta.uid,
        }],
    });
    DynamicObject {
        types: Some(TypeMeta {
            api_version: API_VERSION.into(),
            kind: kinds::POWER_REMEDIATION.into(),
        }),
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        data: json!({ "spec": { "strategy": {
            "type": "Reboot",
            "retryLimit": 0,
            "onExhausted": "Notify",
            "timeouts": { "bootSeconds": boot },
        }}}),
    }
}

/// Which controller carries out the mark of this Machine, read before anything begins.
pub(super) async fn carrier(context: &Context, machine: &MachineView) -> MarkCarrier {
    mark_carrier(controllers(&context.client).await, begun(machine))
}

/// Whether OpenShift's own Machine controllers run in this cluster.
///
/// # Errors
/// The cause if that cannot be read.
pub(crate) async fn controllers(client: &Client) -> Result<bool, String> {
    let deployments: Api<Deployment> =
        Api::namespaced(client.clone(), OPENSHIFT_MACHINE_API_NAMESPACE);
    let name = OPENSHIFT_MACHINE_CONTROLLERS;
    let what = format!("Deployment {OPENSHIFT_MACHINE_API_NAMESPACE}/{name}");
    let found = optional(call(what, deployments.get(name)).await);
    found
        .map(|found| found.is_some())
        .map_err(|error| error.to_string())
}

/// Whether a Machine has an annotation that only OpenShift's own controller writes.
pub(super) fn begun(machine: &MachineView) -> bool {
    [
        OPENSHIFT_POWERED_OFF_ANNOTATION,
        OPENSHIFT_POWER_ON_TIMEOUT_ANNOTATION,
    ]
    .iter()
    .any(|name| machine.meta.has_annotation(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKER: &str = "MachineHealthCheck/check/cu";

    fn machine(annotations: &Value) -> MachineView {
        let object = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": { "name": "m", "namespace": "ns", "uid": "u", "annotations": annotations },
        });
        MachineView::from_dynamic(&serde_json::from_value(object).unwrap()).unwrap()
    }

    fn stands(change: impl FnOnce(&mut Value)) -> Mark {
        let mut object =
            serde_json::to_value(remediation_object(&machine(&json!({})), None, MAKER)).unwrap();
        object["metadata"]["uid"] = "r".into();
        change(&mut object);
        read(Some(&serde_json::from_value(object).unwrap()), "u")
    }

    #[test]
    fn external_remediation_is_one_reboot_owned_by_machine() {
        let body = remediation_object(&machine(&json!({})), Some(Duration::from_secs(90)), MAKER);
        assert_eq!(
            serde_json::to_value(&body).unwrap(),
            json!({
                "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
                "metadata": {
                    "name": "m", "namespace": "ns",
                    "annotations": {
                        "machine.openshift.io/remediation-strategy": "external-baremetal",
                        "rackhand.dev/made-by": "MachineHealthCheck/check/cu",
                    },
                    "ownerReferences": [{
                        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                        "name": "m", "uid": "u",
                    }],
                },
                "spec": { "strategy": {
                    "type": "Reboot", "retryLimit": 0, "onExhausted": "Notify",
                    "timeouts": { "bootSeconds": 90 },
                }},
            })
        );
        let seconds = |timeout| {
            remediation_object(&machine(&json!({})), timeout, MAKER).data["spec"]["strategy"]["timeouts"]
                ["bootSeconds"]
                .as_u64()
        };
        assert_eq!(seconds(None), Some(1200));
        assert_eq!(seconds(Some(Duration::from_millis(1))), Some(1));
    }

    #[test]
    fn progress_follows_remediation_phase() {
        let phase = |phase: &str, healthy: bool| {
            stands(|o| o["status"] = json!({ "phase": phase })).carried(healthy)
        };
        assert_eq!(stands(|_| {}).carried(false), ExternalProgress::Running);
        assert_eq!(phase("Waiting", true), ExternalProgress::Running);
        assert_eq!(phase("Succeeded", false), ExternalProgress::Succeeded);
        assert_eq!(phase("Failed", true), ExternalProgress::Failed);
        assert_eq!(phase("Aborted", false), ExternalProgress::Aborted);
        assert_eq!(phase("Aborted", true), ExternalProgress::Succeeded);
        let going = stands(|o| o["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
        assert_eq!(going.carried(false), ExternalProgress::Running);
        assert!(!going.is_withdrawable());
    }

    #[test]
    fn foreign_remediation_is_awaited_and_never_withdrawn() {
        for change in [
            (|o: &mut Value| o["metadata"]["annotations"] = json!({})) as fn(&mut Value),
            |o| o["metadata"]["ownerReferences"][0]["uid"] = "older".into(),
        ] {
            let mark = stands(change);
            assert_eq!(mark.carried(false), ExternalProgress::Running);
            assert!(!mark.is_withdrawable());
        }
    }

    #[test]
    fn annotations_of_openshift_controller_mark_begun_remediation() {
        assert!(!begun(&machine(
            &json!({ "metal3.io/BareMetalHost": "ns/h" })
        )));
        for name in [
            "remediation.metal3.io/powered-off-for-remediation",
            "remediation.metal3.io/power-on-will-timeout-at",
        ] {
            assert!(begun(&machine(&json!({ name: "" }))), "{name}");
        }
    }
}
