//! References that name the host of a Node, and what a kubelet may write about it (F14).

use rackhand_core::{hosts::InventoryHost, remediation::HostRef};

use super::*;

const UUID: &str = "8a95d198-7f46-11e5-bf8b-08002704d48e";

fn metal3_machine(name: &str, host: &str, owner: &str) -> DynamicObject {
    object(json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": name,
        "annotations": { "metal3.io/BareMetalHost": format!("ns/{host}") },
        "ownerReferences": [{
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": owner,
            "uid": format!("ns-{owner}"), "controller": true,
        }],
    }}))
}

fn consumer(name: &str) -> Value {
    json!({ "kind": "Metal3Machine", "name": name, "namespace": "ns" })
}

fn resolved(index: &Index) -> Result<HostRef, Reason> {
    let racks = Racks::from([("r1".to_owned(), Rack::default())]);
    match host(index, &racks, &by_node(index), None, None).view {
        HostView::Found(host) => Ok(host),
        HostView::NotFound(reason) => Err(reason),
    }
}

#[test]
fn f14_stale_node_of_a_reused_host_has_no_host() {
    let index = index();
    index.apply_node(&Key::local(), node(&json!({}), "metal3://ns/h7/old"));
    index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer("new")));
    let why = |index: &Index| resolved(index).unwrap_err().to_string();
    assert!(
        why(&index).contains("BareMetalHost ns/h7 is consumed by new"),
        "{}",
        why(&index)
    );
    // The new one is complete, and its Machine names another Node.
    index.apply(Kind::Metal3Machine, metal3_machine("new", "h7", "new"));
    index.apply(
        Kind::Machine,
        machine("ns", "new", "n2", "metal3://ns/h7/new"),
    );
    assert!(
        why(&index).contains("is consumed by new"),
        "{}",
        why(&index)
    );
    for reference in ["metal3://u7", "metal3://ns/h7", "metal3://ns/h7/new"] {
        index.apply_node(&Key::local(), node(&json!({}), reference));
        let why = why(&index);
        assert!(
            why.contains("is consumed by new") && why.contains("n2"),
            "{why}"
        );
    }
}

#[test]
fn f14_node_fields_choose_no_host_without_a_reference_back() {
    let labels = json!({ "labels": { "metal3.io/uuid": "u7" } });
    let openshift = json!({ "annotations": { "machine.openshift.io/machine": "api/m7" } });
    let openshift_consumer = json!({ "kind": "Machine", "name": "m7", "namespace": "api" });
    let other = json!({ "kind": "HostClaim", "name": "x", "namespace": "ns" });
    for (metadata, provider, consumer) in [
        (&labels, "", json!(null)),
        (&json!({}), "metal3://ns/h7", json!(null)),
        (&labels, "metal3://ns/h7/m1", consumer("m1")),
        (&openshift, "", openshift_consumer),
        (&labels, "", other),
        (&labels, "", json!({ "kind": "Node", "name": "n2" })),
    ] {
        let index = index();
        index.apply_node(&Key::local(), node(metadata, provider));
        index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer));
        index.apply(Kind::OpenShiftMachine, openshift_machine_of("m7", "n2"));
        let reason = resolved(&index).unwrap_err();
        assert_eq!(reason.label(), "HostNotFound");
        assert!(reason.to_string().contains("ns/h7"), "{reason}");
    }
}

#[test]
fn f14_consumer_that_refers_back_chooses_the_host() {
    for (provider, consumer) in [
        ("metal3://ns/h7/m1", consumer("m1")),
        ("metal3://u7", json!({ "kind": "Node", "name": "n1" })),
    ] {
        let index = index();
        index.apply_node(&Key::local(), node(&json!({}), provider));
        index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer));
        index.apply(Kind::Metal3Machine, metal3_machine("m1", "h7", "m1"));
        // With another providerID the Machine is not found by the Node.
        index.apply(Kind::Machine, machine("ns", "m1", "n1", "elsewhere"));
        assert_eq!(resolved(&index).unwrap().bmh.as_deref(), Some("ns/h7"));
    }
}

#[test]
fn f14_machine_of_a_node_of_another_cluster_is_not_used() {
    let with_uid = |uid: &str| node(&json!({ "uid": uid }), "metal3://ns/h7/m1");
    let index = index();
    index.apply_node(&Key::local(), with_uid("1"));
    index.apply(Kind::BareMetalHost, bmh("h7", "u7", &consumer("m1")));
    index.apply(Kind::Metal3Machine, metal3_machine("m1", "h7", "m1"));
    index.apply(
        Kind::Machine,
        machine("ns", "m1", "n1", "metal3://ns/h7/m1"),
    );
    // The management cluster has a Cluster object.
    index.apply_node(&Key::new("ns", "c"), with_uid("1"));
    assert!(by_node(&index).machine.is_some());
    assert!(resolved(&index).is_ok());
    index.apply_node(&Key::new("ns", "c"), with_uid("2"));
    assert!(by_node(&index).machine.is_none());
    let why = resolved(&index).unwrap_err().to_string();
    assert!(why.contains("another cluster"), "{why}");
}

#[test]
fn f14_duplicate_system_uuid_chooses_no_host_of_another_node() {
    let with_name = |name: &str| -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": name, "uid": name },
            "status": { "nodeInfo": {
                "systemUUID": UUID, "machineID": "", "bootID": "", "kernelVersion": "",
                "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "",
                "kubeProxyVersion": "", "operatingSystem": "", "architecture": "",
            }},
        }))
        .unwrap()
    };
    let index = index();
    index.apply_node(&Key::local(), with_name("n1"));
    let entry = |name: &str, node: &str| InventoryHost {
        name: name.into(),
        node_name: node.into(),
        system_uuid: UUID.into(),
        bmc: "192.0.2.1".into(),
        ..InventoryHost::default()
    };
    let find = |index: &Index, known: InventoryHost| {
        let rack = Rack {
            hosts: vec![known],
            ..Rack::default()
        };
        let racks = Racks::from([("r1".to_owned(), rack)]);
        let facts = crate::clusters::node_facts(&with_name("n1"), None);
        match host(index, &racks, &by_node(index), Some(&facts), None).view {
            HostView::Found(host) => Ok(host.host),
            HostView::NotFound(reason) => Err(reason.to_string()),
        }
    };
    assert_eq!(find(&index, entry("h1", "")), Ok("h1".into()));
    let why = find(&index, entry("h1", "n-a")).unwrap_err();
    assert!(
        why.contains("h1") && why.contains("n-a") && why.contains("n1"),
        "{why}"
    );
    index.apply_node(&Key::new("ns", "c"), with_name("n-a"));
    for entry in [entry("h1", ""), entry("n-a", "")] {
        let why = find(&index, entry).unwrap_err();
        assert!(why.contains("n-a"), "{why}");
    }
    assert_eq!(find(&index, entry("h1", "n1")), Ok("h1".into()));
    // A Node that is gone has no host.
    index.delete_node(&Key::new("ns", "c"), "n-a");
    assert_eq!(find(&index, entry("h1", "")), Ok("h1".into()));
    index.apply_node(&Key::new("ns", "c"), with_name("n-a"));
    index.forget_workload(&Key::new("ns", "c"));
    assert_eq!(find(&index, entry("h1", "")), Ok("h1".into()));
}

#[test]
fn f14_node_name_of_two_clusters_is_ambiguous_until_the_inventory_names_one() {
    let index = index();
    index.apply_node(&Key::local(), node(&json!({ "uid": "1" }), ""));
    let find = |index: &Index, cluster: &str| {
        let known = InventoryHost {
            name: "h1".into(),
            node_name: "n1".into(),
            cluster: cluster.into(),
            ..InventoryHost::default()
        };
        let rack = Rack {
            hosts: vec![known],
            ..Rack::default()
        };
        let racks = Racks::from([("r1".to_owned(), rack)]);
        match host(index, &racks, &by_node(index), None, None).view {
            HostView::Found(host) => host.host,
            HostView::NotFound(reason) => reason.label().to_owned(),
        }
    };
    assert_eq!(find(&index, ""), "h1");
    // The same Node, of a management cluster that has a Cluster object.
    index.apply_node(&Key::new("ns", "c"), node(&json!({ "uid": "1" }), ""));
    for cluster in ["", "local", "ns/c"] {
        assert_eq!(find(&index, cluster), "h1", "{cluster}");
    }
    // Another Node, in a connected cluster or in a cluster that only a Machine shows.
    let connected = |index: &Index| {
        index.apply_node(&Key::new("ns", "d"), node(&json!({ "uid": "2" }), ""));
    };
    let shown = |index: &Index| {
        let mut machine = machine("ns", "m9", "n1", "p9");
        machine.data["spec"]["clusterName"] = "e".into();
        index.apply(Kind::Machine, machine);
    };
    connected(&index);
    assert_eq!(find(&index, ""), "HostAmbiguous");
    index.forget_workload(&Key::new("ns", "d"));
    assert_eq!(find(&index, ""), "h1");
    shown(&index);
    assert_eq!(find(&index, ""), "HostAmbiguous");
    assert_eq!(find(&index, "local"), "h1");
    assert_eq!(find(&index, "ns/e"), "HostNotFound");
}
