use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::{remediation::control_plane, store::object::Kind};

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn member(name: &str, etcd: Option<&Value>, v1beta2: bool) -> DynamicObject {
    let conditions: Vec<&Value> = etcd.into_iter().collect();
    let status = if v1beta2 {
        json!({ "v1beta2": { "conditions": conditions }, "nodeRef": { "name": name } })
    } else {
        json!({ "conditions": conditions, "nodeRef": { "name": name } })
    };
    object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "ns", "uid": name,
            "labels": { "cluster.x-k8s.io/control-plane": "" },
        },
        "spec": { "clusterName": "c" },
        "status": status,
    }))
}

fn etcd(status: &str) -> Value {
    json!({
        "type": "EtcdMemberHealthy", "status": status, "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn node(name: &str, ready: &str, labels: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    }))
    .unwrap()
}

fn place_of(index: &Index, name: &str) -> Target {
    let request = object(json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": "r",
        "ownerReferences": [{
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": name, "uid": name,
        }],
    }}));
    let view = RequestView::read(Kind::PowerRemediation, &request).unwrap();
    target(index, &Key::new("ns", name), &view, None)
}

fn counted(index: &Index, target: &Target) -> (u32, u32) {
    let plane = control_plane(index, target, None).unwrap();
    (plane.total, plane.healthy_others)
}

#[test]
fn f6_member_is_healthy_with_etcd_condition_and_ready_node() {
    let index = Index::new(Vec::new());
    let cluster = Key::new("ns", "c");
    index.apply(Kind::Machine, member("a", None, false));
    index.apply(Kind::Machine, member("b", Some(&etcd("True")), false));
    index.apply(Kind::Machine, member("d", Some(&etcd("True")), true));
    let target = place_of(&index, "a");
    // The condition may be older than the failure of the Node, or the Node may be gone.
    assert_eq!(counted(&index, &target), (3, 0));
    for (ready, healthy) in [("Unknown", 0), ("False", 0), ("True", 2)] {
        index.apply_node(&cluster, node("b", ready, &json!({})));
        index.apply_node(&cluster, node("d", ready, &json!({})));
        assert_eq!(counted(&index, &target), (3, healthy), "{ready}");
    }
    // A Ready Node does not make a member healthy whose etcd condition is not True, in either list.
    for status in ["False", "Unknown"] {
        index.apply(Kind::Machine, member("b", Some(&etcd(status)), false));
        index.apply(Kind::Machine, member("d", Some(&etcd(status)), true));
        assert_eq!(counted(&index, &target), (3, 0), "{status}");
    }
}

#[test]
fn f6_without_etcd_conditions_ready_nodes_are_healthy_members() {
    let index = Index::new(Vec::new());
    let cluster = Key::new("ns", "c");
    for name in ["a", "b", "d"] {
        index.apply(Kind::Machine, member(name, None, false));
    }
    index.apply_node(&cluster, node("b", "True", &json!({})));
    index.apply_node(&cluster, node("d", "Unknown", &json!({})));
    let target = place_of(&index, "a");
    assert_eq!(counted(&index, &target), (3, 1));
    // Machines of another cluster and workers are not members.
    let mut other = member("x", Some(&etcd("True")), false);
    other.data["spec"]["clusterName"] = "c2".into();
    index.apply(Kind::Machine, other);
    let mut worker = member("w", Some(&etcd("True")), false);
    worker.metadata.labels = None;
    index.apply(Kind::Machine, worker);
    assert_eq!(counted(&index, &target), (3, 1));
    assert!(control_plane(&index, &place_of(&index, "w"), None).is_none());
}

#[test]
fn f6_without_machines_control_plane_nodes_are_counted() {
    let index = Index::new(Vec::new());
    let local = Key::local();
    let role = json!({ "node-role.kubernetes.io/control-plane": "" });
    index.apply_node(&local, node("a", "Unknown", &role));
    index.apply_node(&local, node("b", "True", &role));
    let master = json!({ "node-role.kubernetes.io/master": "" });
    index.apply_node(&local, node("d", "False", &master));
    index.apply_node(&local, node("w", "True", &json!({})));
    let by_node = |name: &str| Target {
        machine: None,
        cluster: Some(Key::local()),
        node: Some(name.into()),
        by_node: true,
        openshift: None,
    };
    assert_eq!(counted(&index, &by_node("a")), (3, 1));
    assert!(control_plane(&index, &by_node("w"), None).is_none());
    let request = object(json!({ "metadata": { "name": "a", "namespace": "ns", "uid": "r" } }));
    let view = RequestView::read(Kind::PowerRemediation, &request).unwrap();
    let id = RequestId::new(Kind::PowerRemediation, Key::new("ns", "a"));
    let me = |state: Option<&State>| active(&index, &id, &view, &by_node("a"), None, state);
    assert_eq!(me(None).control_plane_of.as_deref(), Some("local"));
    // A host that is kept off does not block members that keep the quorum without it; its Node and host stay
    // reserved.
    let mut fenced = State::new(Timestamp::UNIX_EPOCH);
    fenced.step = Step::Fenced;
    let me = me(Some(&fenced));
    assert_eq!(
        (me.control_plane_of, me.node.as_deref()),
        (None, Some("local/a"))
    );
}

#[test]
fn capm3_controller_is_detected_by_its_hold_for_same_uid() {
    let mut bmh = BareMetalHostFacts::default();
    assert_eq!(competing_controller("u1", Some(&bmh)), None);
    bmh.foreign_holds
        .insert("reboot.metal3.io/metal3-remediation-u2".into());
    assert_eq!(competing_controller("u1", Some(&bmh)), None, "another's");
    bmh.foreign_holds
        .insert("reboot.metal3.io/metal3-remediation-u1".into());
    assert!(matches!(
        competing_controller("u1", Some(&bmh)),
        Some(Reason::RivalController(_))
    ));
    assert_eq!(competing_controller("u1", None), None);
}

/// A remediation by Node, as stored after a restart.
fn asking(name: &str, cursor: &Value, spec: &Value) -> DynamicObject {
    object(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("u-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec, "status": { "cursor": cursor },
    }))
}

#[test]
fn f6_begun_remediations_are_active_after_restart_before_observation() {
    let index = Index::new(Vec::new());
    let role = json!({ "node-role.kubernetes.io/control-plane": "" });
    let mut state = State::new(Timestamp::UNIX_EPOCH);
    state.host = Some(HostRef {
        rack: "r1".into(),
        host: "h".into(),
        bmh: None,
        bmc: "10.0.0.7".into(),
    });
    let cursor = |step: Step, state: &State| {
        let mut state = state.clone();
        state.step = step;
        serde_json::to_value(state).unwrap()
    };
    for name in ["pending", "retrying", "over", "new", "off", "odd", "lost"] {
        index.apply_node(&Key::local(), node(name, "True", &role));
    }
    let odd = json!({ "strategy": { "type": "Reprovision" } });
    for (name, cursor, spec) in [
        ("pending", cursor(Step::Pending, &state), &json!({})),
        ("retrying", cursor(Step::Retrying, &state), &json!({})),
        ("over", cursor(Step::Blocked, &state), &json!({})),
        ("new", Value::Null, &json!({})),
        ("off", cursor(Step::PoweringOff, &state), &json!({})),
        // A remediation whose spec or state cannot be parsed may have begun.
        ("odd", cursor(Step::Draining, &state), &odd),
        ("lost", json!({ "step": 7 }), &json!({})),
    ] {
        index.apply(Kind::PowerRemediation, asking(name, &cursor, spec));
    }
    let mut evaluated = BTreeMap::new();
    let unevaluated = index.requests().into_iter().map(|(id, _)| id).collect();
    let all = begun_by_others(&index, &evaluated, &unevaluated);
    let of = |name: &str| all.iter().find(|a| a.uid == format!("u-{name}"));
    assert_eq!(all.len(), 3, "{all:?}");
    for name in ["off", "odd", "lost"] {
        let active = of(name).unwrap();
        assert_eq!(active.progress, Progress::Begun);
        assert_eq!(active.control_plane_of.as_deref(), Some("local"));
        assert_eq!(active.node, Some(format!("local/{name}")));
    }
    assert_eq!(of("off").unwrap().bmc.as_deref(), Some("10.0.0.7"));
    // An evaluation by this process takes precedence over the stored state.
    let mut said = of("off").unwrap().clone();
    said.progress = Progress::Waiting;
    evaluated.insert("u-off".to_owned(), said);
    assert_eq!(begun_by_others(&index, &evaluated, &unevaluated).len(), 2);
}

#[test]
fn f6_openshift_master_counts_as_control_plane_without_node() {
    let index = Index::new(Vec::new());
    let role = json!({ "node-role.kubernetes.io/master": "" });
    index.apply_node(&Key::local(), node("b", "True", &role));
    index.apply_node(&Key::local(), node("d", "False", &role));
    let request = object(json!({ "metadata": {
        "name": "m1", "namespace": "ns", "uid": "r",
        "ownerReferences": [{
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m1",
            "uid": "u1",
        }],
    }}));
    let view = RequestView::read(Kind::PowerRemediation, &request).unwrap();
    let with = |role: &str| {
        let machine = object(json!({
            "metadata": {
                "name": "m1", "namespace": "ns", "uid": "u1",
                "labels": { "machine.openshift.io/cluster-api-machine-role": role },
            },
            "status": { "nodeRef": { "name": "a" } },
        }));
        let mut target = target(&index, &Key::new("ns", "m1"), &view, None);
        crate::remediation::of_openshift(&mut target, &view, Some(machine));
        target
    };
    let master = with("master");
    assert_eq!(counted(&index, &master), (3, 1));
    assert!(has_guard(&index, &master));
    let id = RequestId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
    let me = active(&index, &id, &view, &master, None, None);
    assert_eq!(me.control_plane_of.as_deref(), Some("local"));
    assert_eq!(me.machine.as_deref(), Some("ns/m1"));
    let worker = with("worker");
    assert!(control_plane(&index, &worker, None).is_none() && !has_guard(&index, &worker));
}
