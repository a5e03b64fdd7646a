use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use kube::ResourceExt;
use rackhand_api::{names::CONTROL_PLANE_LABEL, views::MachineView};
use serde_json::{Value, json};

use super::*;

fn machine(version: u64, node: &str) -> DynamicObject {
    let object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": "m", "namespace": "ns", "uid": "u", "resourceVersion": version.to_string(),
        },
        "spec": { "clusterName": "c" },
        "status": { "nodeRef": { "name": node } },
    });
    serde_json::from_value(object).unwrap()
}

fn index() -> (Index, Arc<ChangeQueue>) {
    let inbox = Arc::<ChangeQueue>::default();
    (Index::new(vec![inbox.clone()]), inbox)
}

fn waiting(inbox: &ChangeQueue) -> Vec<Change> {
    inbox.waiting()
}

#[test]
fn late_older_version_is_ignored() {
    let (index, inbox) = index();
    index.apply(Kind::Machine, machine(12, "n2"));
    assert_eq!(waiting(&inbox).len(), 1);
    index.apply(Kind::Machine, machine(9, "n1"));
    assert!(waiting(&inbox).is_empty());
    let view = index.machine(&Key::new("ns", "m")).unwrap().view.unwrap();
    assert_eq!(view.node_name.as_deref(), Some("n2"));
}

#[test]
fn machine_lookup_follows_changed_node_ref() {
    let (index, _) = index();
    let cluster = Key::new("ns", "c");
    index.apply(Kind::Machine, machine(1, "n1"));
    assert_eq!(index.machines_of_node(&cluster, "n1").len(), 1);
    assert_eq!(index.machines_with_node("n1").len(), 1);
    index.apply(Kind::Machine, machine(2, "n2"));
    assert!(index.machines_of_node(&cluster, "n1").is_empty());
    assert_eq!(index.machines_of_node(&cluster, "n2").len(), 1);
    index.delete(Kind::Machine, &Key::new("ns", "m"));
    assert!(index.machines_of_node(&cluster, "n2").is_empty());
}

#[test]
fn write_response_does_not_restore_deleted_object() {
    let (index, _) = index();
    let key = Key::new("ns", "m");
    index.apply(Kind::Machine, machine(1, "n1"));
    index.deleted(Kind::Machine, &machine(3, "n1"));
    index.apply(Kind::Machine, machine(2, "n1"));
    assert!(index.machine(&key).is_none());
    let mut another = machine(4, "n1");
    another.metadata.uid = Some("another".into());
    index.apply(Kind::Machine, another);
    assert!(index.machine(&key).is_some());
}

#[test]
fn malformed_object_is_kept_with_its_parse_error() {
    let (index, _) = index();
    let mut bad = machine(1, "n1");
    bad.data["spec"]["clusterName"] = Value::from(7);
    index.apply(Kind::Machine, bad);
    let entry = index.machine(&Key::new("ns", "m")).unwrap();
    assert!(
        entry
            .view
            .unwrap_err()
            .to_string()
            .contains("spec.clusterName")
    );
}

#[test]
fn relist_deletes_unlisted_objects() {
    let (index, inbox) = index();
    index.apply(Kind::Machine, machine(1, "n1"));
    waiting(&inbox);
    index.retain(Kind::Machine, &BTreeSet::new());
    assert!(index.machine(&Key::new("ns", "m")).is_none());
    assert_eq!(
        waiting(&inbox),
        vec![Change::Object(Kind::Machine, Key::new("ns", "m"))]
    );
}

fn node(status: &str, heartbeat: i64) -> Node {
    let at = |s| {
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            jiff::Timestamp::from_second(s).unwrap(),
        )
    };
    let mut node = Node::default();
    node.metadata.name = Some("n".into());
    node.status = Some(NodeStatus {
        conditions: Some(vec![NodeCondition {
            type_: "Ready".into(),
            status: status.into(),
            last_heartbeat_time: Some(at(heartbeat)),
            last_transition_time: Some(at(1)),
            ..NodeCondition::default()
        }]),
        ..NodeStatus::default()
    });
    node
}

#[test]
fn heartbeat_queues_no_change_and_condition_does() {
    let (index, inbox) = index();
    let cluster = Key::new("ns", "c");
    index.apply_node(&cluster, node("True", 1));
    waiting(&inbox);
    index.apply_node(&cluster, node("True", 2));
    assert!(waiting(&inbox).is_empty());
    index.apply_node(&cluster, node("False", 3));
    assert_eq!(waiting(&inbox), vec![Change::Node(cluster, "n".into())]);
}

#[test]
fn unknown_cluster_connection_is_down() {
    let (index, _) = index();
    assert!(matches!(
        index.connection(&Key::new("ns", "c")),
        Connection::Down(_)
    ));
}

#[test]
fn machine_object_round_trips_through_index() {
    let (index, _) = index();
    index.apply(Kind::Machine, machine(7, "n1"));
    let entry = index.machine(&Key::new("ns", "m")).unwrap();
    let whole = machine(7, "n1");
    assert_eq!(entry.object.metadata, whole.metadata);
    assert_eq!(entry.object.data, whole.data);
    assert_eq!(entry.object.types.as_ref().unwrap().kind, "Machine");
    assert!(index.machine_mentions(&Key::new("ns", "m"), "nodeRef"));
}

#[test]
fn late_heartbeat_is_ignored_and_replaced_node_is_stored() {
    let (index, inbox) = index();
    let cluster = Key::new("ns", "c");
    let version = |mut node: Node, version: &str, uid: &str| {
        node.metadata.resource_version = Some(version.into());
        node.metadata.uid = Some(uid.into());
        node
    };
    let ready = || index.node(&cluster, "n").unwrap();
    index.apply_node(&cluster, version(node("False", 1), "9", "a"));
    index.apply_node(&cluster, version(node("True", 1), "8", "a"));
    assert_eq!(ready().metadata.resource_version.as_deref(), Some("9"));
    waiting(&inbox);
    index.apply_node(&cluster, version(node("False", 2), "10", "a"));
    assert_eq!(ready().metadata.resource_version.as_deref(), Some("10"));
    assert!(waiting(&inbox).is_empty());
    index.apply_node(&cluster, version(node("False", 2), "3", "b"));
    assert_eq!(waiting(&inbox).len(), 1);
    assert_eq!(ready().metadata.uid.as_deref(), Some("b"));
}

#[test]
fn index_selects_machines_by_label_and_control_plane_role() {
    let (index, _) = index();
    for (name, pool) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = machine(1, name);
        object.metadata.name = Some(name.into());
        object.metadata.labels = Some(BTreeMap::from([("pool".into(), pool.into())]));
        if name == "c" {
            object
                .labels_mut()
                .insert(CONTROL_PLANE_LABEL.into(), String::new());
        }
        index.apply(Kind::Machine, object);
    }
    let names = |found: Vec<Entry<MachineView>>| -> Vec<String> {
        found.iter().map(|e| e.object.name_any()).collect()
    };
    let of_x = |labels: &BTreeMap<String, String>| labels.get("pool").is_some_and(|p| p == "x");
    let keys = index.keys_in_pages(Kind::Machine);
    let of_pool = keys.filter_map(|key| index.select_machine(&key, of_x));
    assert_eq!(names(of_pool.collect()), ["a", "c"]);
    assert_eq!(names(index.control_planes_in("ns")), ["c"]);
}

#[test]
fn objects_that_come_and_go_while_their_kind_is_read_in_pages_hide_no_other() {
    let (index, _) = index();
    let put = |i: usize| {
        let mut object = machine(1, "n");
        object.metadata.name = Some(format!("m{i:04}"));
        index.apply(Kind::Machine, object);
        let mut node = node("True", 1);
        node.metadata.name = Some(format!("m{i:04}"));
        index.apply_node(&Key::local(), node);
    };
    let all = 2 * PAGE + 2;
    (0..all).step_by(2).for_each(put);
    let mut names = Vec::new();
    for (i, key) in index.keys_in_pages(Kind::Machine).enumerate() {
        if i == 3 {
            index.delete(Kind::Machine, &key);
            put(all - 1);
        }
        names.push(key.name);
    }
    let mut expected: Vec<String> = (0..all).step_by(2).map(|i| format!("m{i:04}")).collect();
    expected.push(format!("m{:04}", all - 1));
    assert_eq!(names, expected);
    let local = Key::local();
    let nodes = index.nodes_in_pages(&local).map(|node| node.name_any());
    assert_eq!(nodes.collect::<Vec<_>>(), expected);
}

#[test]
fn forgotten_cluster_is_down_and_its_node_change_is_queued() {
    let (index, inbox) = index();
    let cluster = Key::new("ns", "c");
    index.apply_node(&cluster, node("True", 1));
    index.set_connection(&cluster, Connection::Up);
    waiting(&inbox);
    index.forget_workload(&cluster);
    assert!(matches!(index.connection(&cluster), Connection::Down(_)));
    assert_eq!(waiting(&inbox).len(), 2);
}

#[test]
fn f12_node_whose_deletion_was_seen_does_not_come_back_by_a_late_read() {
    let (index, cluster) = (Index::new(Vec::new()), Key::new("ns", "c"));
    let of = |uid: &str, version: &str| {
        let mut node = node("True", 1);
        node.metadata.name = Some("n1".into());
        node.metadata.uid = Some(uid.into());
        node.metadata.resource_version = Some(version.into());
        node
    };
    index.apply_node(&cluster, of("a", "1"));
    index.deleted_node(&cluster, &of("a", "1").into());
    index.apply_node(&cluster, of("a", "1"));
    assert!(index.node(&cluster, "n1").is_none());
    // Another Node of this name is another one.
    index.apply_node(&cluster, of("b", "2"));
    assert!(index.node(&cluster, "n1").is_some());
}
