use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
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
fn an_older_version_that_a_watch_brings_late_is_passed_over() {
    let (index, inbox) = index();
    index.apply(Kind::Machine, machine(12, "n2"));
    assert_eq!(waiting(&inbox).len(), 1);
    index.apply(Kind::Machine, machine(9, "n1"));
    assert!(waiting(&inbox).is_empty());
    let view = index.machine(&Key::new("ns", "m")).unwrap().view.unwrap();
    assert_eq!(view.node_name.as_deref(), Some("n2"));
}

#[test]
fn a_machine_is_found_by_its_node_also_after_it_has_another() {
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
fn the_answer_to_a_write_does_not_bring_back_what_a_watch_saw_deleted() {
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
fn an_object_that_does_not_read_is_kept_with_its_error_and_stops_nobody() {
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
fn a_list_that_does_not_name_an_object_any_more_deletes_it() {
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
fn a_heartbeat_wakes_nobody_and_a_condition_does() {
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
fn a_cluster_that_was_never_reached_is_down_and_says_so() {
    let (index, _) = index();
    assert!(matches!(
        index.connection(&Key::new("ns", "c")),
        Connection::Down(_)
    ));
}

#[test]
fn a_machine_is_read_back_as_it_came() {
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
fn a_late_heartbeat_takes_nothing_back_and_a_node_that_was_replaced_is_taken() {
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
fn labels_select_and_machines_of_the_control_plane_are_found() {
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
    assert_eq!(names(index.select_machines("ns", of_x)), ["a", "c"]);
    assert!(names(index.select_machines("other", of_x)).is_empty());
    assert_eq!(names(index.control_planes_in("ns")), ["c"]);
}

#[test]
fn a_cluster_that_is_forgotten_is_first_said_to_be_away() {
    let (index, inbox) = index();
    let cluster = Key::new("ns", "c");
    index.apply_node(&cluster, node("True", 1));
    index.set_connection(&cluster, Connection::Up);
    waiting(&inbox);
    index.forget_workload(&cluster);
    assert!(matches!(index.connection(&cluster), Connection::Down(_)));
    assert_eq!(waiting(&inbox).len(), 2);
}
