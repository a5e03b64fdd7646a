use kube::api::DynamicObject;
use rackhand_api::kinds::power_policy::PowerPolicyStatus;
use serde_json::{Value, json};

use super::*;
use crate::store::index::Connection;

const POLICY: &str = "p";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn index(spec: &Value, status: &Value) -> Index {
    let index = Index::new(Vec::new());
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
        "metadata": { "name": POLICY, "uid": "u", "resourceVersion": "1" },
        "spec": spec, "status": status,
    }))
    .unwrap();
    index.apply(Kind::PowerPolicy, object);
    index
}

fn policies(index: &Index) -> Vec<PowerPolicy> {
    let stored = index.power_policies().into_iter();
    stored.map(|e| e.view.unwrap().policy.clone()).collect()
}

fn name(host: usize) -> HostName {
    host_name(&Key::local(), &format!("n{host}"))
}

/// A rack of eight hosts; seven of them fail from second 100 on.
fn dark_rack() -> SharedCauses {
    let causes = SharedCauses::default();
    let mut inner = causes.inner.lock();
    for host in 0..8 {
        let rack = Domain::new(DomainKind::Rack, "r1");
        inner.failures.place(&name(host), BTreeSet::from([rack]));
    }
    for host in 0..7 {
        let time = at(100 + i64::try_from(host).unwrap());
        inner.failures.fail(&name(host), time, time);
    }
    drop(inner);
    causes
}

fn reasons(changes: &report::Changes) -> Vec<&'static str> {
    changes.events.iter().map(|event| event.reason).collect()
}

fn hold(causes: &SharedCauses, index: &Index, host: usize, now: i64) -> Option<CauseHold> {
    let host = (&*name(host), Some("r1"));
    let mut holds = causes.holds(&policies(index), host, true, at(now));
    holds.remove(POLICY)
}

#[test]
fn cause_is_reported_once_when_its_bmcs_are_read_and_again_when_it_ends() {
    let index = index(&json!({ "sharedCauses": {} }), &json!({}));
    let causes = dark_rack();
    let first = causes.judge(&index, at(110));
    assert!(first.events.is_empty());
    assert_eq!(first.unread.len(), 7);
    let readings = (0..7).map(|host| (name(host), BmcReading::NoResponse));
    causes.inner.lock().readings.extend(readings);
    assert!(
        causes.judge(&index, at(112)).events.is_empty(),
        "not settled"
    );
    let second = causes.judge(&index, at(125));
    assert_eq!(reasons(&second), ["SharedCause"]);
    let message = &second.events[0].message;
    assert!(
        message.contains("7 of 8 hosts of rack r1 failed within 6s")
            && message.contains("loss of power"),
        "{message}"
    );
    assert!(causes.judge(&index, at(126)).events.is_empty());
    assert_eq!(causes.open(at(126)).len(), 1);
    for host in 0..7 {
        causes.inner.lock().failures.recover(&name(host));
    }
    assert_eq!(
        reasons(&causes.judge(&index, at(130))),
        ["SharedCauseEnded"]
    );
    assert!(causes.open(at(130)).is_empty());
}

#[test]
fn cause_without_readings_is_reported_all_the_same() {
    let index = index(&json!({ "sharedCauses": {} }), &json!({}));
    let causes = dark_rack();
    causes.judge(&index, at(110));
    assert!(causes.judge(&index, at(139)).events.is_empty());
    assert_eq!(reasons(&causes.judge(&index, at(140))), ["SharedCause"]);
}

#[test]
fn next_leader_continues_the_hold_and_does_not_report_it_again() {
    let spec = json!({ "sharedCauses": { "holdSeconds": 60 } });
    let index_before = index(&spec, &json!({}));
    let causes = dark_rack();
    causes.judge(&index_before, at(150));
    assert!(hold(&causes, &index_before, 1, 150).is_some_and(|hold| hold.cause.is_some()));
    causes.begin_hold(POLICY, &name(1), at(150));
    let status = PowerPolicyStatus {
        shared_causes: causes.status(POLICY, at(151)).unwrap(),
        ..PowerPolicyStatus::default()
    };
    let index = index(&spec, &serde_json::to_value(status).unwrap());
    let next = dark_rack();
    assert!(
        hold(&next, &index, 1, 200).unwrap().cause.is_none(),
        "not judged yet"
    );
    assert!(next.judge(&index, at(200)).events.is_empty());
    assert_eq!(hold(&next, &index, 1, 200).unwrap().until, Some(at(210)));
    let ended = next.judge(&index, at(210));
    assert_eq!(hold(&next, &index, 1, 210), None);
    let rack = Domain::new(DomainKind::Rack, "r1");
    assert!(ended.released.contains(&rack));
}

/// A rack gets its hosts when its agent connects, which may be after the first judgement.
#[test]
fn next_leader_keeps_a_cause_whose_hosts_it_does_not_know_yet() {
    let spec = json!({ "sharedCauses": { "holdSeconds": 600 } });
    let index_before = index(&spec, &json!({}));
    let causes = dark_rack();
    causes.judge(&index_before, at(150));
    causes.begin_hold(POLICY, &name(1), at(150));
    let status = PowerPolicyStatus {
        shared_causes: causes.status(POLICY, at(151)).unwrap(),
        ..PowerPolicyStatus::default()
    };
    let index = index(&spec, &serde_json::to_value(&status).unwrap());
    let next = SharedCauses::default();
    let policy = &policies(&index)[0];
    assert_eq!(
        policy_status::causes(&next, &status, policy, at(160)),
        status.shared_causes,
        "not judged yet"
    );
    assert!(next.judge(&index, at(160)).events.is_empty());
    let kept = next.status(POLICY, at(160)).unwrap();
    assert_eq!((kept.len(), kept[0].still_failed), (1, 7));
    *next.inner.lock() = {
        let mut known = dark_rack().inner.into_inner();
        known.judged = std::mem::take(&mut next.inner.lock().judged);
        known
    };
    assert!(next.judge(&index, at(162)).events.is_empty());
    let held = hold(&next, &index, 1, 162).unwrap();
    assert_eq!((held.cause.is_some(), held.until), (true, Some(at(750))));
}

#[test]
fn first_judgement_waits_for_the_first_lists_of_nodes() {
    let index = Index::new(Vec::new());
    assert!(are_listed(&index), "no cluster");
    index.watch_own_nodes(Kind::OpenShiftCheck, true);
    assert!(!are_listed(&index));
    index.set_connection(&Key::local(), Connection::Down("forbidden".into()));
    assert!(are_listed(&index));
}

#[test]
fn failures_are_settled_with_the_judgement_after_their_time() {
    let index = index(&json!({ "sharedCauses": { "minHosts": 8 } }), &json!({}));
    let causes = dark_rack();
    causes.judge(&index, at(106));
    assert!(hold(&causes, &index, 0, 114).unwrap().cause.is_none());
    let settled = causes.judge(&index, at(116)).settled;
    assert_eq!(settled, BTreeSet::from([name(0), name(1)]));
    assert_eq!(hold(&causes, &index, 0, 116), None);
    assert!(hold(&causes, &index, 2, 116).unwrap().cause.is_none());
}

#[test]
fn host_outside_of_its_rack_waits_until_the_fleet_could_be_read_again() {
    let index = index(&json!({ "sharedCauses": { "minHosts": 8 } }), &json!({}));
    let causes = dark_rack();
    causes.judge(&index, at(200));
    let held = |now| {
        let host = (&*name(0), Some("r2"));
        let holds = causes.holds(&policies(&index), host, true, at(now));
        holds.contains_key(POLICY)
    };
    assert!(held(200));
    assert!(held(209));
    assert!(!held(210));
}

#[test]
fn nothing_is_held_without_rules() {
    let index = index(&json!({}), &json!({}));
    let causes = dark_rack();
    assert!(causes.judge(&index, at(200)).events.is_empty());
    assert_eq!(hold(&causes, &index, 0, 200), None);
    assert_eq!(causes.status(POLICY, at(200)), None);
}
