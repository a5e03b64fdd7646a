use kube::api::DynamicObject;
use rackhand_core::hosts::Rack;
use serde_json::{Value, json};

use super::*;

mod naming;

use crate::store::object::Kind;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn index() -> Index {
    Index::new(Vec::new())
}

fn machine(namespace: &str, name: &str, node: &str, provider: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}") },
        "spec": {
            "clusterName": "c", "providerID": provider,
            "infrastructureRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "Metal3Machine", "name": name,
            },
        },
        "status": { "nodeRef": { "name": node } },
    }))
}

fn node(metadata: &Value, provider: &str) -> Node {
    let mut metadata = metadata.clone();
    metadata["name"] = "n1".into();
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "providerID": provider } }))
        .unwrap()
}

fn bmh(name: &str, uid: &str, consumer: &Value) -> DynamicObject {
    object(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": { "name": name, "namespace": "ns", "uid": uid },
        "spec": { "online": true, "bmc": { "address": "redfish://192.0.2.1" }, "consumerRef": consumer },
    }))
}

fn by_node(index: &Index) -> Target {
    let remediation =
        object(json!({ "metadata": { "name": "n1", "namespace": "nhc", "uid": "r" } }));
    let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
    let mut target = super::target(index, &Key::new("nhc", "n1"), &view, None);
    find_machine(index, &mut target);
    target
}

fn found(index: &Index) -> Option<String> {
    by_node(index).machine_key().map(|key| key.to_string())
}

#[test]
fn remediation_by_node_targets_management_cluster() {
    let target = by_node(&index());
    assert_eq!(target.cluster, Some(Key::local()));
    assert_eq!(target.node.as_deref(), Some("n1"));
    assert!(target.by_node && target.machine.is_none());
}

#[test]
fn node_annotation_and_node_ref_must_agree_on_machine() {
    let index = index();
    index.apply(Kind::Machine, machine("ns", "m1", "n1", "p"));
    index.apply(Kind::Machine, machine("ns", "m2", "other", "p"));
    let names = |machine: &str| {
        json!({ "annotations": {
            "cluster.x-k8s.io/machine": machine, "cluster.x-k8s.io/cluster-namespace": "ns",
        }})
    };
    index.apply_node(&Key::local(), node(&names("m1"), "p"));
    assert_eq!(found(&index).as_deref(), Some("ns/m1"));
    // The Machine does not name the Node.
    index.apply_node(&Key::local(), node(&names("m2"), "p"));
    assert_eq!(found(&index), None);
}

#[test]
fn machine_matches_node_by_name_and_provider_id() {
    let index = index();
    index.apply(Kind::Machine, machine("ns", "m1", "n1", "far"));
    index.apply_node(&Key::local(), node(&json!({}), "near"));
    assert_eq!(found(&index), None);
    index.apply(Kind::Machine, machine("ns", "m2", "n1", "near"));
    assert_eq!(found(&index).as_deref(), Some("ns/m2"));
    index.apply(Kind::Machine, machine("ns2", "m3", "n1", "near"));
    assert_eq!(found(&index), None, "two fit");
}

fn openshift_machine_of(name: &str, node: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "api", "uid": name,
            "annotations": { "metal3.io/BareMetalHost": "ns/h7" },
        },
        "status": { "nodeRef": { "kind": "Node", "name": node } },
    }))
}

#[test]
fn host_without_machine_is_found_by_node_label_or_provider_id() {
    let by_label = node(&json!({ "labels": { "metal3.io/uuid": "u7" } }), "");
    let by_uid = node(&json!({}), "metal3://u7");
    let by_name = node(&json!({}), "metal3://ns/h7/whatever");
    let openshift = node(
        &json!({ "annotations": { "machine.openshift.io/machine": "api/m7" } }),
        "baremetalhost:///ns/h7/u7",
    );
    let consumer = json!({ "kind": "Machine", "name": "m7", "namespace": "api" });
    for node in [by_label, by_uid, by_name, openshift] {
        let index = index();
        index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer));
        index.apply(Kind::BareMetalHost, bmh("h8", "u8", &json!(null)));
        index.apply(Kind::OpenShiftMachine, openshift_machine_of("m7", "n1"));
        index.apply_node(&Key::local(), node.clone());
        let racks = Racks::from([("r1".to_owned(), Rack::default())]);
        let found = host(&index, &racks, &by_node(&index), None, None);
        let HostView::Found(host) = found.view else {
            panic!("{:?} for {node:?}", found.view);
        };
        assert_eq!(host.bmh.as_deref(), Some("ns/h7"));
        assert_eq!(found.bmh, Some(Key::new("ns", "h7")));
    }
}

#[test]
fn f5_two_hosts_matching_a_node_are_ambiguous() {
    let index = index();
    index.apply(Kind::BareMetalHost, bmh("h7", "u7", &json!(null)));
    index.apply(Kind::BareMetalHost, bmh("h8", "u8", &json!(null)));
    let both = json!({ "labels": { "metal3.io/uuid": "u8" } });
    let node = node(&both, "metal3://u7");
    let Err(Reason::HostAmbiguous(named)) = host_of_node(&index, &node) else {
        panic!("one was chosen");
    };
    assert!(named.contains("ns/h7, ns/h8"), "{named}");
}

#[test]
fn host_is_found_in_inventory_by_provider_id() {
    let index = index();
    index.apply_node(&Key::local(), node(&json!({}), "p7"));
    let inventory = rackhand_core::hosts::InventoryHost {
        name: "u42".into(),
        provider_id: "p7".into(),
        bmc: "192.0.2.7".into(),
        ..Default::default()
    };
    let rack = Rack {
        hosts: vec![inventory],
        ..Rack::default()
    };
    let racks = Racks::from([("r1".to_owned(), rack)]);
    let found = host(&index, &racks, &by_node(&index), None, None);
    assert!(matches!(found.view, HostView::Found(h) if h.host == "u42" && h.bmh.is_none()));
    assert_eq!(found.bmh, None);
    let nobody = host(&index, &Racks::default(), &by_node(&index), None, None).view;
    assert!(matches!(
        nobody,
        HostView::NotFound(Reason::HostNotFound(_))
    ));
}

#[test]
fn machine_with_inconsistent_links_has_no_host() {
    let index = index();
    index.apply(Kind::Machine, machine("ns", "m1", "n1", "p"));
    let entry = index.machine(&Key::new("ns", "m1")).unwrap();
    let machine = entry.view.unwrap();
    let why = |index: &Index| host_of_machine(index, &machine).unwrap_err().to_string();
    assert!(why(&index).contains("Metal3Machine ns/m1 does not exist"));
    let m3m = |annotations: Value| {
        object(json!({ "metadata": {
            "name": "m1", "namespace": "ns", "uid": "x", "annotations": annotations,
        }}))
    };
    index.apply(Kind::Metal3Machine, m3m(json!({})));
    assert!(why(&index).contains("linked to no BareMetalHost"));
    index.apply(
        Kind::Metal3Machine,
        m3m(json!({ "metal3.io/BareMetalHost": "elsewhere/h7" })),
    );
    assert!(why(&index).contains("BareMetalHost ns/h7 does not exist"));
    let other = json!({ "kind": "Metal3Machine", "name": "m9", "namespace": "ns" });
    index.apply(Kind::BareMetalHost, bmh("h7", "u7", &other));
    assert!(why(&index).contains("consumed by m9"));
    let mine = json!({ "kind": "Metal3Machine", "name": "m1", "namespace": "ns" });
    index.apply(Kind::BareMetalHost, bmh("h7", "u7", &mine));
    let (key, wanted) = host_of_machine(&index, &machine).unwrap();
    assert_eq!(key, Some(Key::new("ns", "h7")));
    assert_eq!(wanted.unwrap().address, "redfish://192.0.2.1");
}

fn openshift_machine(uid: &str, role: &str, node: Option<&str>) -> DynamicObject {
    object(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": "m1", "namespace": "api", "uid": uid,
            "labels": { "machine.openshift.io/cluster-api-machine-role": role },
            "annotations": { "metal3.io/BareMetalHost": "ns/h7" },
        },
        "status": { "nodeRef": node.map(|name| json!({ "kind": "Node", "name": name })) },
    }))
}

/// A remediation as created by machine-api-operator's health check: its only owner is the Machine, and it has
/// the Machine's name.
fn of_machine(
    index: &Index,
    machine: Option<DynamicObject>,
    state: Option<&State>,
) -> (RemediationObject, Target) {
    let remediation = object(json!({ "metadata": {
        "name": "m1", "namespace": "api", "uid": "r",
        "ownerReferences": [{
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m1",
            "uid": "u1",
        }],
    }}));
    let view = RemediationObject::read(Kind::PowerRemediation, &remediation).unwrap();
    let mut target = super::target(index, &Key::new("api", "m1"), &view, state);
    of_openshift(&mut target, &view, machine);
    find_machine(index, &mut target);
    (view, target)
}

#[test]
fn openshift_machine_links_node_and_host_in_management_cluster() {
    let index = index();
    let consumer = json!({ "kind": "Machine", "name": "m1", "namespace": "api" });
    index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer));
    let racks = Racks::from([("r1".to_owned(), Rack::default())]);
    let (_, target) = of_machine(
        &index,
        Some(openshift_machine("u1", "worker", Some("n1"))),
        None,
    );
    assert_eq!(target.cluster, Some(Key::local()));
    assert_eq!(target.node.as_deref(), Some("n1"));
    assert_eq!(target.machine_key(), Some(Key::new("api", "m1")));
    assert!(!target.by_node && !target.is_master());
    let found = host(&index, &racks, &target, None, None);
    assert!(matches!(found.view, HostView::Found(h) if h.bmh.as_deref() == Some("ns/h7")));
    assert_eq!(found.bmh, Some(Key::new("ns", "h7")));
    // The Machine has no Node, and its host is known.
    let (_, target) = of_machine(&index, Some(openshift_machine("u1", "master", None)), None);
    assert!(target.node.is_none() && target.is_master());
    assert!(matches!(
        host(&index, &racks, &target, None, None).view,
        HostView::Found(_)
    ));
    // A remediation that has begun knows its Node without the Machine.
    let mut state = State::new(jiff::Timestamp::UNIX_EPOCH);
    state.attempt.node = Some(rackhand_core::remediation::PinnedNode {
        name: "n1".into(),
        uid: "n".into(),
        boot_id: "b".into(),
        system_uuid: "s".into(),
        unproven: false,
    });
    let (_, target) = of_machine(&index, None, Some(&state));
    assert_eq!(target.node.as_deref(), Some("n1"));
}

#[test]
fn f5_replaced_openshift_machine_or_foreign_consumer_is_rejected() {
    let index = index();
    let (_, target) = of_machine(
        &index,
        Some(openshift_machine("u2", "worker", Some("n1"))),
        None,
    );
    assert!(target.machine().is_none() && target.node.is_none());
    let why = |index: &Index| {
        let machine = openshift_machine("u1", "worker", Some("n1"));
        let (_, target) = of_machine(index, Some(machine), None);
        linked_host(index, &target).unwrap_err().to_string()
    };
    assert!(why(&index).contains("BareMetalHost ns/h7 does not exist"));
    for (kind, name, namespace) in [
        ("Machine", "m9", "api"),
        ("Machine", "m1", "elsewhere"),
        ("Metal3Machine", "m1", "api"),
    ] {
        let consumer = json!({ "kind": kind, "name": name, "namespace": namespace });
        index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer));
        assert!(why(&index).contains("is consumed by"), "{consumer}");
    }
    let mut odd = openshift_machine("u1", "worker", Some("n1"));
    let annotations = odd.metadata.annotations.as_mut().unwrap();
    annotations.insert("metal3.io/BareMetalHost".into(), "h7".into());
    let (_, target) = of_machine(&index, Some(odd), None);
    let odd = linked_host(&index, &target).unwrap_err().to_string();
    assert!(odd.contains("not namespace/name"), "{odd}");
}

#[test]
fn f5_host_is_resolved_again_only_between_attempts() {
    let index = index();
    let labels = json!({ "name": "n1", "labels": { "metal3.io/uuid": "u8" } });
    index.apply_node(&Key::local(), node(&labels, ""));
    index.apply(
        Kind::BareMetalHost,
        bmh("h8", "u8", &json!({ "kind": "Node", "name": "n1" })),
    );
    let racks = Racks::from([("r1".to_owned(), Rack::default())]);
    let target = by_node(&index);
    let mut state = State::new(jiff::Timestamp::UNIX_EPOCH);
    state.host = Some(rackhand_core::remediation::HostRef {
        rack: "r1".into(),
        host: "ns/h7".into(),
        bmh: Some("ns/h7".into()),
        bmc: "192.0.2.7".into(),
    });
    let chosen = |state: &State| match host(&index, &racks, &target, None, Some(state)).view {
        HostView::Found(host) => host.bmh,
        HostView::NotFound(why) => Some(why.to_string()),
    };
    state.step = Step::Retrying;
    assert_eq!(chosen(&state).as_deref(), Some("ns/h8"));
    for step in [
        Step::Holding,
        Step::PoweringOff,
        Step::Booting,
        Step::Aborting,
    ] {
        state.step = step;
        assert_eq!(chosen(&state).as_deref(), Some("ns/h7"), "{step:?}");
    }
}
