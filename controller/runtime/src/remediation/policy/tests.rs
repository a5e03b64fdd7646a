use kube::api::DynamicObject;
use rackhand_api::kinds::power_remediation::StepTimeouts;
use rackhand_core::remediation::{
    DrainPolicy, NodeGonePolicy, OnExhausted, Strategy, UnreachablePolicy,
};
use rackhand_proto::limits::{CONFIRMATIONS, LONGEST_OPERATION, check_deadline};
use serde_json::{Value, json};

use super::{
    super::act::power::{off_deadline, on_deadline},
    *,
};
use crate::store::object::Kind;

fn object(spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "metadata": { "name": "n1", "namespace": "ns", "uid": "u" },
        "spec": spec,
    }))
    .unwrap()
}

fn asking(kind: Kind, strategy: &Value) -> RemediationObject {
    RemediationObject::read(kind, &object(&json!({ "strategy": strategy }))).unwrap()
}

fn policy(kind: Kind, strategy: &Value) -> Result<Policy, PolicyError> {
    asking(kind, strategy).policy(&Config::default())
}

#[test]
fn metal3_remediation_policy_retires_host_and_uses_flags() {
    let asked = json!({ "type": "Reboot", "retryLimit": 3, "timeoutSeconds": 100 });
    let p = policy(Kind::Metal3Remediation, &asked).unwrap();
    assert_eq!((p.retry_limit, p.boot_timeout.as_secs()), (3, 100));
    assert_eq!(p.on_exhausted, OnExhausted::Retire);
    assert_eq!(p.drain_timeout, Config::default().drain_timeout);
    for wrong in [
        json!({ "type": "Other" }),
        json!({ "type": "Reboot", "retryLimit": -1 }),
    ] {
        assert!(policy(Kind::Metal3Remediation, &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn power_remediation_policy_reads_all_fields_with_defaults() {
    let p = policy(Kind::PowerRemediation, &json!({})).unwrap();
    assert_eq!((p.strategy, p.retry_limit), (Strategy::Reboot, 1));
    assert_eq!(p.on_exhausted, OnExhausted::Escalate);
    let asked = json!({
        "type": "PowerCycleFirst",
        "retryLimit": 0,
        "drainPolicy": "GiveUp",
        "unreachablePolicy": "PowerOn",
        "nodeGonePolicy": "Replace",
        "onExhausted": "StayOff",
        "timeouts": {
            "holdSeconds": 99, "powerOffSeconds": 1, "confirmOffSeconds": 2, "taintSeconds": 3,
            "drainSeconds": 4, "powerOnSeconds": 5, "bootSeconds": 6, "restoreSeconds": 7,
        },
    });
    let p = policy(Kind::PowerRemediation, &asked).unwrap();
    assert_eq!(
        (p.strategy, p.drain_blocked, p.workload_down),
        (
            Strategy::PowerCycleFirst,
            DrainPolicy::GiveUp,
            UnreachablePolicy::PowerOn
        )
    );
    assert_eq!(
        (p.node_gone, p.on_exhausted),
        (NodeGonePolicy::Replace, OnExhausted::StayOff)
    );
    let seconds = [
        p.cooperative_grace,
        p.power_off_timeout,
        p.confirm_timeout,
        p.defer_timeout,
        p.drain_timeout,
        p.power_on_timeout,
        p.boot_timeout,
        p.restore_timeout,
    ]
    .map(|d| d.as_secs());
    assert_eq!(seconds, [30, 1, 2, 3, 4, 5, 6, 7]);
    assert!(policy(Kind::PowerRemediation, &json!({ "retryLimit": -1 })).is_err());
    let unknown = json!({ "strategy": { "type": "Reprovision" } });
    let error = RemediationObject::read(Kind::PowerRemediation, &object(&unknown)).unwrap_err();
    assert!(error.to_string().contains("Reprovision"), "{error}");
}

/// The smallest and the largest value of a timeout that the CRD accepts.
fn bounds(name: &str) -> [i64; 2] {
    let schema = serde_json::to_value(schemars::schema_for!(StepTimeouts)).unwrap();
    let field = &schema["properties"][name];
    ["minimum", "maximum"].map(|bound| {
        let value = field[bound]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: no {bound}"));
        format!("{value:.0}").parse().unwrap()
    })
}

#[test]
fn l1_agent_accepts_every_timeout_that_crd_allows() {
    let holds = bounds("holdSeconds");
    for (off, on) in bounds("powerOffSeconds")
        .into_iter()
        .zip(bounds("powerOnSeconds"))
    {
        let asked = json!({ "timeouts": { "powerOffSeconds": off, "powerOnSeconds": on } });
        let p = policy(Kind::PowerRemediation, &asked).unwrap();
        // The timeouts apply as written, limited so that the longest operation includes the grace.
        let (seconds, longest) = (p.power_off_timeout.as_secs(), LONGEST_OPERATION.as_secs());
        assert_eq!(i64::try_from(seconds).unwrap(), off);
        assert!(seconds <= longest && p.power_on_timeout.as_secs() <= longest);
        assert_eq!(off_deadline(&p, Duration::ZERO), p.power_off_timeout);
        assert_eq!(on_deadline(&p), p.power_on_timeout);
        assert!(CONFIRMATIONS.contains(&p.confirmations));
        check_deadline(on_deadline(&p), Duration::ZERO).unwrap();
        for hold in holds {
            let hold = Duration::from_secs(hold.try_into().unwrap());
            assert!(hold <= LONGEST_GRACE, "the controller would limit it");
            let readings = p.confirm_interval * (p.confirmations - 1);
            check_deadline(off_deadline(&p, hold), hold + readings).unwrap();
        }
    }
}

#[test]
fn l1_timeouts_beyond_agent_bounds_are_clamped() {
    // Such values come from a flag or from an object that is older than the bounds.
    for seconds in [0, 1, 7200, 604_800] {
        let timeout = Duration::from_secs(seconds);
        let p = Policy {
            power_off_timeout: timeout,
            power_on_timeout: timeout,
            ..Policy::default()
        };
        for hold in [Duration::ZERO, LONGEST_GRACE] {
            check_deadline(off_deadline(&p, hold), hold + p.confirm_interval).unwrap();
        }
        check_deadline(on_deadline(&p), Duration::ZERO).unwrap();
    }
}

#[test]
fn power_remediation_targets_owner_machine_or_named_node() {
    let read = |metadata: Value| {
        let object = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        RemediationObject::read(Kind::PowerRemediation, &object).unwrap()
    };
    let owner = |group: &str, kind: &str| json!([{ "apiVersion": group, "kind": kind, "name": "o", "uid": "u" }]);
    let by_machine = read(json!({
        "name": "n1", "ownerReferences": owner("cluster.x-k8s.io/v1beta1", "Machine"),
        "annotations": { "remediation.medik8s.io/node-name": "n2" },
    }));
    assert_eq!(by_machine.node(), None);
    assert_eq!(by_machine.machine().map(|m| m.name.as_str()), Some("o"));
    let owned = owner("remediation.medik8s.io/v1alpha1", "NodeHealthCheck");
    let named = read(json!({ "name": "n1", "ownerReferences": owned }));
    assert_eq!((named.node(), named.machine()), (Some("n1"), None));
    let generated = read(json!({
        "name": "n1-x7k", "annotations": { "remediation.medik8s.io/node-name": "n1" },
    }));
    assert_eq!(generated.node(), Some("n1"));
}

#[test]
fn power_remediation_targets_owning_openshift_machine_unless_node_is_named() {
    let read = |owner: &str, annotations: Value| {
        let object = serde_json::from_value(json!({ "metadata": {
            "name": "m1", "namespace": "openshift-machine-api", "annotations": annotations,
            "ownerReferences": [{ "apiVersion": owner, "kind": "Machine", "name": "m1", "uid": "u" }],
        }}));
        let view = RemediationObject::read(Kind::PowerRemediation, &object.unwrap()).unwrap();
        view.openshift_machine().map(|owner| owner.name.clone())
    };
    let openshift = "machine.openshift.io/v1beta1";
    assert_eq!(read(openshift, json!({})).as_deref(), Some("m1"));
    let named = json!({ "remediation.medik8s.io/node-name": "n1" });
    assert_eq!(read(openshift, named), None);
    assert_eq!(read("cluster.x-k8s.io/v1beta1", json!({})), None);
}
