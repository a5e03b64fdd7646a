//! What a maintenance asks of the remediation that it makes.

use rackhand_api::{
    kinds::power_remediation::{PowerRemediation, PowerRemediationSpec},
    views::PowerRemediationView,
};
use rackhand_core::remediation::{EvictionPolicy, OnExhausted, Strategy};
use serde_json::json;

use super::*;

fn stored(spec: &Value) -> StoredMaintenance {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": kinds::HOST_MAINTENANCE,
        "metadata": { "name": "dimm", "namespace": "ns", "uid": "u1" },
        "spec": spec,
    }))
    .unwrap();
    StoredMaintenance::read(&object).unwrap()
}

fn key() -> Key {
    Key::new("ns", "dimm")
}

fn subject() -> Subject {
    Subject {
        cluster: Some(Key::local()),
        node: Some("n1".into()),
        ..Subject::default()
    }
}

fn spec_of(body: &DynamicObject) -> PowerRemediationSpec {
    serde_json::from_value(body.data["spec"].clone()).unwrap()
}

#[test]
fn maintenance_of_a_node_makes_a_remediation_by_node_that_stays_off() {
    let stored = stored(&json!({
        "node": "n1", "reason": "DIMM A3", "requestedBy": "eva",
        "eviction": { "seconds": 60, "whenNotFinished": "Abort" }, "softOffSeconds": 20,
    }));
    let body = remediation_body(&key(), &stored, &subject(), None, Some("shard-a"));
    let spec = spec_of(&body);
    assert_eq!(spec.strategy.strategy_type, Strategy::PowerOff);
    assert_eq!(spec.strategy.on_exhausted, OnExhausted::Notify);
    assert_eq!(spec.strategy.eviction_policy, EvictionPolicy::Abort);
    assert_eq!(spec.strategy.retry_limit, 0);
    let timeouts = spec.strategy.timeouts.unwrap();
    assert_eq!(timeouts.eviction_seconds, Some(60));
    assert_eq!(timeouts.soft_off_seconds, Some(20));
    let whole = serde_json::to_value(&body).unwrap();
    let whole: PowerRemediation = serde_json::from_value(whole).unwrap();
    assert_eq!(whole.metadata.name.as_deref(), Some("maintenance-u1"));
    let annotations = whole.annotations();
    assert_eq!(annotations[MADE_BY_ANNOTATION], "HostMaintenance/dimm/u1");
    assert_eq!(annotations[MEDIK8S_NODE_NAME_ANNOTATION], "n1");
    assert_eq!(
        annotations[CAUSE_ANNOTATION],
        "planned work, by eva: DIMM A3"
    );
    assert_eq!(whole.labels()[WATCH_FILTER_LABEL], "shard-a");
    assert_eq!(whole.owner_references().len(), 1);
}

#[test]
fn remediation_of_a_machine_lasts_as_long_as_its_maintenance() {
    let machine: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": "m1", "namespace": "ns", "uid": "mu" },
    }))
    .unwrap();
    let stored = stored(&json!({ "machine": "m1", "reason": "fan", "powerOff": false }));
    let owner = Some((&machine, Some("c1".to_owned())));
    let body = remediation_body(&key(), &stored, &subject(), owner, None);
    assert_eq!(spec_of(&body).strategy.strategy_type, Strategy::Evict);
    let named = body.annotations().get(MEDIK8S_NODE_NAME_ANNOTATION);
    assert_eq!(named, None, "the Machine alone names the Node");
    assert_eq!(body.labels()[CLUSTER_NAME_LABEL], "c1");
    let owners: Vec<&str> = body.owner_references().iter().map(|o| &*o.kind).collect();
    // The garbage collector deletes what none of its owners is left of.
    assert_eq!(owners, ["HostMaintenance", "Machine"]);
    let mut left = body.clone();
    left.owner_references_mut()
        .retain(|owner| owner.kind != "Machine");
    for body in [&body, &left] {
        let view = PowerRemediationView::from_dynamic(body).unwrap();
        let machine = view.machine().unwrap();
        assert_eq!((&*machine.name, &*machine.uid), ("m1", "mu"));
        assert_eq!(view.node(), None, "it is not one of a Node");
    }
}

#[test]
fn default_maintenance_waits_for_its_pods_and_shuts_down_first() {
    let stored = stored(&json!({ "node": "n1", "reason": "DIMM" }));
    let strategy = spec_of(&remediation_body(&key(), &stored, &subject(), None, None)).strategy;
    assert_eq!(strategy.eviction_policy, EvictionPolicy::Wait);
    let timeouts = strategy.timeouts.unwrap();
    assert_eq!(timeouts.eviction_seconds, Some(300));
    assert_eq!(timeouts.soft_off_seconds, Some(60));
}

#[test]
fn only_what_may_be_changed_while_it_runs_is_compared_with_the_remediation() {
    let made = stored(&json!({ "node": "n1", "reason": "DIMM" }));
    let body = remediation_body(&key(), &made, &subject(), None, None);
    assert!(!is_outdated(&made, &body));
    for changed in [
        json!({ "node": "n1", "reason": "DIMM", "softOffSeconds": 5 }),
        json!({ "node": "n1", "reason": "DIMM", "eviction": { "whenNotFinished": "Proceed" } }),
    ] {
        assert!(is_outdated(&stored(&changed), &body), "{changed}");
        let patch = changeable(&stored(&changed));
        assert_eq!(patch["type"], "PowerOff", "{patch}");
        assert!(patch["timeouts"]["evictionSeconds"].is_null(), "{patch}");
    }
    for other in [
        json!({ "node": "n1", "reason": "another", "locatorLED": true }),
        json!({ "node": 7 }),
    ] {
        assert!(!is_outdated(&stored(&other), &body), "{other}");
    }
}

#[test]
fn only_a_host_that_was_left_on_is_switched_after_all() {
    let on = stored(&json!({ "node": "n1", "reason": "fan", "powerOff": false }));
    let off = stored(&json!({ "node": "n1", "reason": "fan", "powerOff": true }));
    let body =
        |stored: &StoredMaintenance| remediation_body(&key(), stored, &subject(), None, None);
    assert!(!is_outdated(&on, &body(&on)));
    assert!(is_outdated(&off, &body(&on)), "a person has changed it");
    assert_eq!(changeable(&off)["type"], "PowerOff");
    assert!(!is_outdated(&on, &body(&off)));
    assert!(changeable(&on)["type"].is_null());
}

#[test]
fn failed_change_of_a_mark_is_told_until_it_is_done_and_not_tried_at_once() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut memory = Memory::default();
    let skip = Mark::SkipRemediation;
    for (change, other) in [
        (Change::Set, Change::TakeBack),
        (Change::TakeBack, Change::Set),
    ] {
        let of = |memory: &Memory, now| {
            let all = memory.failed_marks(at(now));
            let map = match change {
                Change::Set => all.set,
                Change::TakeBack => all.take_back,
            };
            map.get(&skip).cloned()
        };
        let refused = Err(ApiError::other("Machine ns/m", "no"));
        memory.tried((skip, change), &refused, at(0));
        assert_eq!(of(&memory, 4).as_deref(), Some("Machine ns/m: no"));
        assert!(memory.has_failed((skip, change), at(4)));
        assert!(!memory.has_failed((skip, other), at(4)));
        assert!(!memory.has_failed((skip, change), at(5)));
        assert_eq!(of(&memory, 100), None, "nobody wants it any more");
        memory.tried((skip, change), &Ok(()), at(5));
        assert_eq!(of(&memory, 6), None);
    }
}
