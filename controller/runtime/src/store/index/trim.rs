//! Removal of the parts of objects that the controller does not read.
//!
//! Invariant: keeps everything that a patch is built from: names, UID, resourceVersion, generation, and whole
//! lists of conditions, which other controllers also write.

use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Map, Value};

use crate::store::object::Kind;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Groups whose annotations on a Machine are used. Bootstrap providers store whole configurations in others.
const MACHINE_ANNOTATIONS: [&str; 6] = [
    "cluster.x-k8s.io/",
    "in-place-updates.internal.cluster.x-k8s.io/",
    "machine.openshift.io/",
    "metal3.io/",
    "rackhand.dev/",
    "remediation.medik8s.io/",
];
const MACHINE_SPEC: [&str; 3] = ["clusterName", "infrastructureRef", "providerID"];
const MACHINE_STATUS: [&str; 12] = [
    "conditions",
    "deprecated",
    "errorMessage",
    "errorReason",
    "failureMessage",
    "failureReason",
    "infrastructureReady",
    "initialization",
    "lastUpdated",
    "nodeRef",
    "phase",
    "v1beta2",
];

/// Removes the fields of this kind that are not read.
pub(super) fn trim(kind: Kind, object: &mut DynamicObject) {
    object.metadata.managed_fields = None;
    object.metadata.self_link = None;
    object.annotations_mut().remove(LAST_APPLIED);
    match kind {
        Kind::Machine => {
            object.metadata.finalizers = None;
            object
                .annotations_mut()
                .retain(|name, _| MACHINE_ANNOTATIONS.iter().any(|of| name.starts_with(of)));
            only(&mut object.data, &["spec", "status"]);
            only_in(&mut object.data, "spec", &MACHINE_SPEC);
            only_in(&mut object.data, "status", &MACHINE_STATUS);
        }
        Kind::OpenShiftMachine => {
            only(&mut object.data, &["spec", "status"]);
            only_in(&mut object.data, "spec", &MACHINE_SPEC);
            only_in(&mut object.data, "status", &MACHINE_STATUS);
        }
        // The hardware details are most of an inspected host, and only the serial number is read.
        Kind::BareMetalHost => {
            let hardware = object.data.pointer_mut("/status/hardware");
            if let Some(hardware) = hardware.and_then(Value::as_object_mut) {
                hardware.retain(|found, _| found == "systemVendor");
            }
        }
        // Its parts are read all at once or not at all, and as a tree they take several times the memory of their text.
        Kind::RemediationState => {
            let state = object.data.pointer_mut("/spec/state");
            if let Some(state) = state.filter(|state| state.is_object()) {
                let mut text = state.to_string();
                text.shrink_to_fit();
                *state = Value::String(text);
            }
        }
        _ => {}
    }
    if object
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|a| a.is_empty())
    {
        object.metadata.annotations = None;
    }
}

fn only(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        let kept: Map<String, Value> = std::mem::take(map)
            .into_iter()
            .filter(|(name, _)| fields.contains(&name.as_str()))
            .collect();
        *map = kept;
    }
}

fn only_in(value: &mut Value, place: &str, fields: &[&str]) {
    if let Some(inner) = value.get_mut(place) {
        only(inner, fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trimmed_machine_keeps_fields_used_for_reads_and_patches() {
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "name": "m", "uid": "u", "resourceVersion": "7", "generation": 2,
                "labels": { "any": "label" },
                "finalizers": ["machine.cluster.x-k8s.io"],
                "managedFields": [{}],
                "annotations": {
                    "cluster.x-k8s.io/paused": "",
                    "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration": "{}",
                    LAST_APPLIED: "{}",
                },
            },
            "spec": { "clusterName": "c", "bootstrap": { "dataSecretName": "s" } },
            "status": { "addresses": [], "conditions": [{ "type": "T", "x": 1 }] },
        }))
        .unwrap();
        trim(Kind::Machine, &mut object);
        assert_eq!(
            serde_json::to_value(object).unwrap(),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {
                    "name": "m", "uid": "u", "resourceVersion": "7", "generation": 2,
                    "labels": { "any": "label" },
                    "annotations": { "cluster.x-k8s.io/paused": "" },
                },
                "spec": { "clusterName": "c" },
                "status": { "conditions": [{ "type": "T", "x": 1 }] },
            })
        );
    }

    #[test]
    fn trimmed_record_keeps_its_state_as_text() {
        let state = json!({ "step": "Draining", "off": { "at": "2026-01-01T00:00:00Z" } });
        let spec = json!({ "sequence": 3, "state": state });
        let object = json!({ "metadata": { "name": "u" }, "spec": spec });
        let mut object: DynamicObject = serde_json::from_value(object).unwrap();
        for _ in 0..2 {
            trim(Kind::RemediationState, &mut object);
            assert_eq!(object.data["spec"]["sequence"], 3);
            let text = object.data["spec"]["state"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), state);
        }
    }

    #[test]
    fn trimmed_host_keeps_only_system_vendor_of_hardware() {
        let mut host: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "h", "annotations": { LAST_APPLIED: "{}", "a": "b" } },
            "spec": { "online": true },
            "status": { "hardware": {
                "cpu": { "flags": ["x"] },
                "nics": [{}],
                "systemVendor": { "serialNumber": "s" },
            }},
        }))
        .unwrap();
        trim(Kind::BareMetalHost, &mut host);
        assert_eq!(
            serde_json::to_value(&host).unwrap(),
            json!({
                "metadata": { "name": "h", "annotations": { "a": "b" } },
                "spec": { "online": true },
                "status": { "hardware": { "systemVendor": { "serialNumber": "s" } } },
            })
        );
    }
}
