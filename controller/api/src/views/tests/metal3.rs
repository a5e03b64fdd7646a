//! The kinds of CAPM3 and baremetal-operator.

use std::time::Duration;

use serde_json::{Value, json};

use super::object;
use crate::views::{BareMetalHostView, Metal3MachineView, Metal3RemediationView, Strategy};

#[test]
fn metal3_remediation_is_read_in_both_shapes() {
    let view = |strategy: Value| {
        Metal3RemediationView::from_dynamic(&object(json!({
            "metadata": {"name": "m-0", "namespace": "metal3", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Machine", "name": "not-this", "uid": "0"},
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m-0",
                    "uid": "1"}
            ]},
            "spec": {"strategy": strategy},
            "status": {"phase": "Deleting machine", "retryCount": 2,
                "lastRemediated": "2026-08-01T10:00:00Z"}
        })))
    };
    let old = view(json!({"type": "Reboot", "retryLimit": 2, "timeout": "300s"})).unwrap();
    assert_eq!(old.machine().unwrap().name, "m-0");
    assert_eq!(old.phase.as_deref(), Some("Deleting machine"));
    let strategy = old.strategy.unwrap();
    assert_eq!(strategy.strategy_type.as_deref(), Some(Strategy::REBOOT));
    assert_eq!(strategy.retry_limit, Some(2));
    assert_eq!(strategy.effective_timeout(), Duration::from_secs(300));

    let new = view(json!({"type": "Reboot", "timeoutSeconds": 100}))
        .unwrap()
        .strategy
        .unwrap();
    assert_eq!(new.timeout, Some(Duration::from_secs(100)));
    let bare = view(json!({"timeout": "0s"})).unwrap().strategy.unwrap();
    assert_eq!(bare.effective_timeout(), Duration::from_secs(600));
    assert_eq!(view(Value::Null).unwrap().strategy, None);
    assert_eq!(
        view(json!({"timeout": "ten"})).unwrap_err().to_string(),
        "Metal3Remediation metal3/m-0: spec.strategy.timeout is \"ten\", want a duration such as \
         \"300s\" or \"5m0s\""
    );
}

#[test]
fn metal3_machine_names_its_host() {
    let view = |host: &str| {
        Metal3MachineView::from_dynamic(&object(json!({
            "metadata": {"name": "m3m", "namespace": "metal3",
                "annotations": {"metal3.io/BareMetalHost": host}},
        })))
    };
    let host = view("metal3/host-0").unwrap().host.unwrap();
    assert_eq!(
        (host.namespace.as_str(), host.name.as_str()),
        ("metal3", "host-0")
    );
    for bad in ["host-0", "/host-0", "metal3/", "a/b/c", ""] {
        let error = view(bad).unwrap_err();
        assert_eq!(error.field, "metadata.annotations[metal3.io/BareMetalHost]");
    }
}

#[test]
fn bare_metal_host_lists_its_power_holds() {
    let host = BareMetalHostView::from_dynamic(&object(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "host-0", "namespace": "metal3", "annotations": {
            "reboot.metal3.io": "",
            "reboot.metal3.io/rackhand-u-1": r#"{"mode":"hard","renewed":"2026-11-28T03:20:00Z"}"#,
            "reboot.metal3.io/metal3-remediation-u-2": "",
            "reboot.metal3.iox": "",
            "baremetalhost.metal3.io/detached": "",
        }},
        "spec": {
            "online": true,
            "bmc": {"address": "redfish://10.0.0.1/redfish/v1/Systems/1",
                "credentialsName": "host-0-bmc", "disableCertificateVerification": true},
            "consumerRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "Metal3Machine", "name": "m3m-0", "namespace": "metal3"},
            "image": {"url": "http://images/x"}
        },
        "status": {
            "poweredOn": true, "operationalStatus": "detached",
            "provisioning": {"state": "externally provisioned", "ID": "x"},
            "hardware": {"systemVendor": {"serialNumber": "SN1"}},
            "goodCredentials": {"credentials": {"name": "host-0-bmc", "namespace": "metal3"},
                "credentialsVersion": "77"}
        }
    })))
    .unwrap();
    assert!(host.is_held_by("u-1"));
    assert!(!host.is_held_by("u-2"));
    let renewed = host.hold_renewed("u-1").unwrap();
    assert_eq!(renewed.to_string(), "2026-11-28T03:20:00Z");
    assert_eq!(host.hold_renewed("u-2"), None);
    assert_eq!(
        host.power_holds().map(|hold| hold.key).collect::<Vec<_>>(),
        [None, Some("metal3-remediation-u-2"), Some("rackhand-u-1")]
    );
    assert!(host.is_provisioned() && host.is_detached() && !host.is_paused());
    assert_eq!(host.serial_number.as_deref(), Some("SN1"));
    assert_eq!(
        host.good_credentials.unwrap().version.as_deref(),
        Some("77")
    );
    assert!(host.bmc.unwrap().disable_certificate_verification);
    assert_eq!(
        host.consumer.unwrap().kind.as_deref(),
        Some("Metal3Machine")
    );
}
