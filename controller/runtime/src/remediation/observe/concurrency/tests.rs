use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::{remediation::observe::quorum::control_plane, store::object::Kind};
use rackhand_core::remediation::{Step, WordsOfPersons};

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
    let remediation = object(json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": "r",
        "ownerReferences": [{
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": name, "uid": name,
        }],
    }}));
    let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
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
    assert_eq!(counted(&index, &by_node("a")), (3, 1));
    assert!(control_plane(&index, &by_node("w"), None).is_none());
    let remediation = object(json!({ "metadata": { "name": "a", "namespace": "ns", "uid": "r" } }));
    let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
    let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "a"));
    let me = |state: Option<&State>| active(&index, &id, &view, &by_node("a"), None, state);
    assert_eq!(me(None).control_plane_of, ["local"]);
    // A host that is kept off does not block members that keep the quorum without it; its Node and host stay
    // reserved.
    let mut fenced = State::new(Timestamp::UNIX_EPOCH);
    fenced.step = Step::Fenced;
    let me = me(Some(&fenced));
    assert_eq!(
        (me.control_plane_of.as_slice(), me.node.as_deref()),
        ([].as_slice(), Some("local/a"))
    );
}

fn by_node(name: &str) -> Target {
    Target {
        machine: None,
        cluster: Some(Key::local()),
        node: Some(name.into()),
        by_node: true,
        openshift: None,
    }
}

#[test]
fn f6_nodes_with_the_etcd_role_are_the_members_where_any_has_it() {
    let index = Index::new(Vec::new());
    let local = Key::local();
    let etcd = json!({ "node-role.kubernetes.io/etcd": "true" });
    let server = json!({ "node-role.kubernetes.io/control-plane": "true" });
    for (name, ready) in [("e0", "Unknown"), ("e1", "Unknown"), ("e2", "True")] {
        index.apply_node(&local, node(name, ready, &etcd));
    }
    index.apply_node(&local, node("c0", "True", &server));
    index.apply_node(&local, node("w", "True", &json!({})));
    let plane = control_plane(&index, &by_node("e0"), None).unwrap();
    assert_eq!((plane.total, plane.healthy_others), (3, 1));
    assert_eq!(plane.unhealthy, ["e1"]);
    assert!(plane.refuses().is_some());
    // A server without etcd costs no quorum, and still takes its turn with the members.
    assert!(control_plane(&index, &by_node("c0"), None).is_none());
    let remediation = object(json!({ "metadata": { "name": "a", "namespace": "ns", "uid": "r" } }));
    let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
    let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "a"));
    for (name, of) in [
        ("e0", vec!["local"]),
        ("c0", vec!["local"]),
        ("w", Vec::new()),
    ] {
        let me = active(&index, &id, &view, &by_node(name), None, None);
        assert_eq!(me.control_plane_of, of, "{name}");
    }
    // OpenShift's arbiter runs a member beside two masters.
    let index = Index::new(Vec::new());
    let arbiter = json!({ "node-role.kubernetes.io/arbiter": "" });
    let master = json!({ "node-role.kubernetes.io/master": "" });
    index.apply_node(&local, node("a", "Unknown", &arbiter));
    for name in ["m0", "m1"] {
        index.apply_node(&local, node(name, "True", &master));
    }
    assert_eq!(counted(&index, &by_node("a")), (3, 2));
    assert_eq!(counted(&index, &by_node("m0")), (3, 1));
}

fn labelled(name: &str, labels: &Value) -> DynamicObject {
    let mut machine = member(name, None, false);
    machine.metadata.labels = serde_json::from_value(labels.clone()).unwrap();
    machine
}

#[test]
fn f6_member_of_etcd_is_one_whose_machine_or_node_shows_the_role() {
    let index = Index::new(Vec::new());
    let cluster = Key::new("ns", "c");
    let rancher = json!({ "rke.cattle.io/etcd-role": "true" });
    let plane = json!({ "cluster.x-k8s.io/control-plane": "true" });
    let etcd = json!({ "node-role.kubernetes.io/etcd": "true" });
    // Only the Machine shows the role, then both objects, then only the Node.
    index.apply(Kind::Machine, labelled("a", &rancher));
    index.apply_node(&cluster, node("a", "Unknown", &json!({})));
    index.apply(Kind::Machine, labelled("b", &rancher));
    index.apply_node(&cluster, node("b", "True", &etcd));
    index.apply(Kind::Machine, labelled("d", &json!({})));
    index.apply_node(&cluster, node("d", "Unknown", &etcd));
    index.apply(Kind::Machine, labelled("p", &plane));
    index.apply_node(&cluster, node("p", "True", &json!({})));
    assert_eq!(counted(&index, &place_of(&index, "a")), (3, 1));
    assert_eq!(counted(&index, &place_of(&index, "b")), (3, 0));
    assert_eq!(counted(&index, &place_of(&index, "d")), (3, 1));
    assert!(control_plane(&index, &place_of(&index, "p"), None).is_none());
}

#[test]
fn f6_node_that_its_machine_left_behind_counts_only_with_the_etcd_role() {
    let index = Index::new(Vec::new());
    let cluster = Key::new("ns", "c");
    let role = json!({ "node-role.kubernetes.io/control-plane": "" });
    for name in ["a", "b", "d"] {
        index.apply(Kind::Machine, member(name, None, false));
        index.apply_node(&cluster, node(name, "True", &role));
    }
    index.apply_node(&cluster, node("old", "Unknown", &role));
    assert_eq!(counted(&index, &place_of(&index, "a")), (3, 2));
    // RKE2 and k3s remove a member with its Node.
    let both = json!({
        "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/etcd": "",
    });
    for (name, ready) in [
        ("a", "True"),
        ("b", "True"),
        ("d", "True"),
        ("old", "Unknown"),
    ] {
        index.apply_node(&cluster, node(name, ready, &both));
    }
    assert_eq!(counted(&index, &place_of(&index, "a")), (4, 2));
}

#[test]
fn quorum_is_overruled_only_by_the_uid_of_the_remediation() {
    for (value, overrules) in [("r", true), ("true", false), ("", false), ("r2", false)] {
        let remediation = object(json!({ "metadata": {
            "name": "a", "namespace": "ns", "uid": "r",
            "annotations": { "rackhand.dev/override-quorum": value },
        }}));
        let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
        let config = Config::default();
        assert_eq!(overrules_quorum(&config, &view), overrules, "{value}");
        let ignoring = Config {
            words_of_persons: WordsOfPersons::Ignored,
            ..config
        };
        assert!(!overrules_quorum(&ignoring, &view), "{value}");
    }
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
        index.apply(Kind::PowerRemediation, asking(name, &Value::Null, spec));
        let uid = format!("u-{name}");
        let recorded = json!({ "metadata": { "name": uid }, "spec": { "state": cursor } });
        index.apply(Kind::RemediationState, object(recorded));
    }
    let mut evaluated = BTreeMap::new();
    let unevaluated = index.remediations().into_iter().map(|(id, _)| id).collect();
    let all = begun_by_others(&index, &evaluated, &unevaluated);
    let of = |name: &str| all.iter().find(|a| a.uid == format!("u-{name}"));
    assert_eq!(all.len(), 3, "{all:?}");
    for name in ["off", "odd", "lost"] {
        let active = of(name).unwrap();
        assert_eq!(active.progress, Progress::Begun);
        assert_eq!(active.control_plane_of, ["local"]);
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
    let remediation = object(json!({ "metadata": {
        "name": "m1", "namespace": "ns", "uid": "r",
        "ownerReferences": [{
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m1",
            "uid": "u1",
        }],
    }}));
    let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
    let with = |role: &str| {
        let machine = object(json!({
            "metadata": {
                "name": "m1", "namespace": "ns", "uid": "u1",
                "labels": { "machine.openshift.io/cluster-api-machine-role": role },
            },
            "status": { "nodeRef": { "name": "a" } },
        }));
        let mut target = target(&index, &Key::new("ns", "m1"), &view, None);
        crate::hosts::of_openshift(&mut target, &view, Some(machine));
        target
    };
    let master = with("master");
    assert_eq!(counted(&index, &master), (3, 1));
    assert!(has_guard(&index, &master));
    let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
    let me = active(&index, &id, &view, &master, None, None);
    assert_eq!(me.control_plane_of, ["local"]);
    assert_eq!(me.machine.as_deref(), Some("ns/m1"));
    let worker = with("worker");
    assert!(control_plane(&index, &worker, None).is_none() && !has_guard(&index, &worker));
}
