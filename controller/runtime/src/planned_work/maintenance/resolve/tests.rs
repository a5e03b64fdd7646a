//! What is found again of a maintenance that is gone.

use kube::api::DynamicObject;
use rackhand_core::hosts::{InventoryHost, Rack};
use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A Node with its Machine, as the cluster in which the controller runs shows them.
fn world() -> (Index, Racks) {
    let index = Index::new(Vec::new());
    index.apply(Kind::Machine, machine("n1"));
    index.apply_node(&Key::local(), node("uid-n1", "p1"));
    (index, racks())
}

fn machine(node: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": "m1", "namespace": "ns", "uid": "uid-m1" },
        "spec": { "clusterName": "c", "providerID": "p1" },
        "status": { "nodeRef": { "name": node } },
    }))
}

fn node(uid: &str, provider: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": "n1", "uid": uid }, "spec": { "providerID": provider },
    }))
    .unwrap()
}

fn racks() -> Racks {
    let inventory = InventoryHost {
        name: "u42".into(),
        provider_id: "p1".into(),
        bmc: "192.0.2.7".into(),
        ..InventoryHost::default()
    };
    let rack = Rack {
        hosts: vec![inventory],
        ..Rack::default()
    };
    Racks::from([("r1".to_owned(), rack)])
}

fn by_machine() -> Subject {
    Subject {
        machine: Some((Kind::Machine, Key::new("ns", "m1"))),
        ..Subject::default()
    }
}

#[test]
fn f9_machine_with_a_mark_leads_to_the_lease_and_led_of_its_host() {
    let (index, racks) = world();
    let found = complete(&index, &racks, &by_machine());
    // A Lease counts of a Node of this cluster alone.
    assert_eq!(found.cluster, Some(Key::local()));
    assert_eq!(found.node.as_deref(), Some("n1"));
    assert_eq!(found.node_uid.as_deref(), Some("uid-n1"));
    assert_eq!(found.host.as_deref(), Some("r1/u42"));
    assert_eq!(found.host_ref.as_ref().unwrap().host, "u42");
    assert_eq!(found.machine, by_machine().machine);
}

#[test]
fn f9_lease_is_found_before_the_agent_has_reported_its_hosts_and_the_led_after() {
    let (index, racks) = world();
    let first = complete(&index, &Racks::default(), &by_machine());
    assert_eq!(first.node_uid.as_deref(), Some("uid-n1"));
    assert_eq!((&first.host, &first.host_ref), (&None, &None));
    let then = complete(&index, &racks, &first);
    assert_eq!(then, complete(&index, &racks, &by_machine()));
}

#[test]
fn node_of_the_machines_own_cluster_is_found_where_it_is_another_one() {
    let (index, racks) = world();
    // The Node of the same name here is that of another provider, so it is not that of the Machine.
    index.apply_node(&Key::local(), node("uid-n1", "p9"));
    let cluster = Key::new("ns", "c");
    index.apply_node(&cluster, node("uid-far", "p1"));
    let found = complete(&index, &racks, &by_machine());
    assert_eq!(found.cluster, Some(cluster));
    assert_eq!(found.node_uid.as_deref(), Some("uid-far"));
    assert_eq!(found.host.as_deref(), Some("r1/u42"));
}

#[test]
fn f14_nothing_is_added_of_a_node_that_has_taken_the_place_of_another() {
    let (index, racks) = world();
    let known = Subject {
        cluster: Some(Key::local()),
        node: Some("n0".into()),
        ..by_machine()
    };
    assert_eq!(complete(&index, &racks, &known), known);
    let gone = Subject {
        machine: Some((Kind::Machine, Key::new("ns", "gone"))),
        ..Subject::default()
    };
    assert_eq!(complete(&index, &racks, &gone), gone);
    let nothing = Subject::default();
    assert_eq!(complete(&index, &racks, &nothing), nothing);
}

#[test]
fn node_without_a_machine_leads_to_its_host() {
    let (index, racks) = world();
    let of = |cluster| Subject {
        cluster: Some(cluster),
        node: Some("n1".into()),
        ..Subject::default()
    };
    let found = complete(&index, &racks, &of(Key::local()));
    assert_eq!(found.host.as_deref(), Some("r1/u42"));
    assert_eq!(found.machine, by_machine().machine);
    let far = of(Key::new("ns", "c"));
    assert_eq!(complete(&index, &racks, &far), far);
}
