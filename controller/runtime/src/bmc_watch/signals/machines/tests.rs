//! Conditions of Machines, against a minimal API server.

use kube::core::{ApiResource, GroupVersionKind};
use rackhand_api::views::ConditionList;
use serde_json::json;

use super::*;
use crate::{
    leader::fixture::Leading,
    store::{conditions::conditions, fake_api::Objects},
};

const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m";
const LOST: &str = "rackhand.dev/PowerLost";

struct World {
    objects: Objects,
    machines: Machines,
    _leading: Leading,
}

impl World {
    /// A Machine with this status, whose Node is `n` of Cluster `c`.
    async fn new(status: Value) -> Self {
        let objects = Objects::default();
        let client = objects.client();
        let leading = Leading::start(&client).await;
        let served = Arc::new(Served::default());
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine");
        served.put(Kind::Machine, ApiResource::from_gvk(&kind));
        let mut machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": { "name": "m", "namespace": "ns", "uid": "u", "generation": 3 },
            "spec": { "clusterName": "c" },
            "status": status,
        });
        machine["status"]["nodeRef"] = json!({ "name": "n" });
        let machine = objects.put(MACHINE, machine);
        let index = Arc::new(Index::new(Vec::new()));
        index.apply(Kind::Machine, serde_json::from_value(machine).unwrap());
        let machines = Machines {
            client,
            served,
            index,
            writer: leading.writer.clone(),
            signals: BTreeSet::from([Signal::PowerLost]),
        };
        Self {
            objects,
            machines,
            _leading: leading,
        }
    }

    /// The Node of the Machine shows this of PowerLost.
    fn node(&self, version: u64, status: &str, reason: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "n", "uid": "nu", "resourceVersion": version.to_string() },
            "status": { "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": LOST, "status": status, "reason": reason },
            ]},
        });
        let node = serde_json::from_value(node).unwrap();
        self.machines.index.apply_node(&Key::new("ns", "c"), node);
    }

    async fn pass(&self) {
        let nodes = BTreeSet::from(["n".to_owned()]);
        self.machines.follow_all(nodes).await;
    }

    fn machine(&self) -> DynamicObject {
        serde_json::from_value(self.objects.get(MACHINE).unwrap()).unwrap()
    }

    /// A condition of the Machine in the list of v1beta2.
    fn shown(&self, of: &str) -> Option<Value> {
        let machine = self.machine();
        let shape = MachineView::from_dynamic(&machine).unwrap().shape;
        let list = conditions(&machine, shape, ConditionList::V1Beta2);
        list.into_iter().find(|condition| condition["type"] == of)
    }

    /// Status and reason of PowerLost.
    fn lost(&self) -> Option<(String, String)> {
        let shown = self.shown(LOST)?;
        let text = |field: &str| shown[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason")))
    }
}

fn is(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

fn other() -> Value {
    json!({
        "type": "NodeHealthy", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test]
async fn machine_follows_its_node_is_written_only_on_change_and_keeps_other_conditions() {
    let world = World::new(json!({ "conditions": [other()] })).await;
    world.pass().await;
    assert_eq!(world.lost(), None);
    world.node(1, "True", "PowerOff");
    world.pass().await;
    assert_eq!(world.lost(), is("True", "PowerOff"));
    let version = world.machine().metadata.resource_version;
    world.pass().await;
    assert_eq!(world.machine().metadata.resource_version, version);
    world.node(2, "False", "PowerOn");
    world.pass().await;
    assert_eq!(world.lost(), is("False", "PowerOn"));
    assert_eq!(world.shown("NodeHealthy"), Some(other()));
}

#[tokio::test]
async fn message_is_that_of_the_decision_and_transition_time_is_kept_with_the_status() {
    let since = "2026-01-01T00:00:00Z";
    let unknown = json!({
        "type": LOST, "status": "Unknown", "reason": "LeaseUnknown", "message": "old",
        "lastTransitionTime": since,
    });
    let world = World::new(json!({ "conditions": [unknown] })).await;
    world.node(1, "Unknown", "SharedCause");
    let decided = SignalCondition {
        status: ConditionStatus::Unknown,
        reason: "SharedCause",
        message: "see to the power of the rack".to_owned(),
    };
    let machines = &world.machines;
    machines.follow("n", Signal::PowerLost, &decided).await;
    let shown = world.shown(LOST).unwrap();
    assert_eq!(shown["reason"], "SharedCause");
    assert_eq!(shown["message"], decided.message);
    assert_eq!(shown["lastTransitionTime"], since);
    assert_eq!(shown["observedGeneration"], 3);
}

#[tokio::test]
async fn machine_in_the_shape_of_v1beta1_gets_the_condition_in_the_list_of_v1beta2_only() {
    let old = json!({
        "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "conditions": [old], "v1beta2": { "conditions": [other()] } });
    let world = World::new(status).await;
    world.node(1, "True", "PowerOff");
    world.pass().await;
    let status = &world.machine().data["status"];
    assert_eq!(status["conditions"], json!([old]));
    let list = status["v1beta2"]["conditions"].as_array().unwrap();
    let types: Vec<&Value> = list.iter().map(|condition| &condition["type"]).collect();
    assert_eq!(types, ["NodeHealthy", LOST]);
}

#[tokio::test]
async fn conflict_is_tried_again_with_what_the_other_controller_has_written() {
    let world = World::new(json!({ "conditions": [] })).await;
    // The index does not know this yet.
    let theirs = json!({ "status": { "conditions": [other()] } });
    world.objects.change(MACHINE, &theirs);
    world.node(1, "True", "PowerOff");
    world.pass().await;
    assert_eq!(world.lost(), is("True", "PowerOff"));
    assert_eq!(world.shown("NodeHealthy"), Some(other()));
}

#[tokio::test]
async fn machine_that_is_gone_is_no_failure_and_does_not_stop_the_others() {
    let world = World::new(json!({ "conditions": [] })).await;
    world.node(1, "True", "PowerOff");
    let mut other = world.objects.get(MACHINE).unwrap();
    (other["metadata"]["name"], other["metadata"]["uid"]) = ("a".into(), "ua".into());
    let other = serde_json::from_value(other).unwrap();
    world.machines.index.apply(Kind::Machine, other);
    world.pass().await;
    assert_eq!(world.lost(), is("True", "PowerOff"));
}

#[tokio::test]
async fn signal_of_a_node_that_is_not_known_stays_until_it_is_switched_off() {
    let lost = json!({
        "type": LOST, "status": "True", "reason": "PowerOff", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut world = World::new(json!({ "conditions": [lost] })).await;
    // The Node is not in the index.
    world.machines.follow_all(BTreeSet::new()).await;
    assert_eq!(world.lost(), is("True", "PowerOff"));
    world.machines.signals.clear();
    world.machines.follow_all(BTreeSet::new()).await;
    assert_eq!(world.lost(), is("False", "SignalDisabled"));
}

#[tokio::test]
async fn paused_machine_and_machine_of_a_paused_cluster_are_left_as_they_are() {
    let world = World::new(json!({ "conditions": [] })).await;
    world.node(1, "True", "PowerOff");
    let cluster = |version: &str, paused: bool| {
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": { "name": "c", "namespace": "ns", "uid": "c", "resourceVersion": version },
            "spec": { "paused": paused },
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        world.machines.index.apply(Kind::Cluster, cluster);
    };
    cluster("1", true);
    world.pass().await;
    assert_eq!(world.lost(), None);
    cluster("2", false);
    let pause = json!({ "metadata": { "annotations": { CAPI_PAUSED_ANNOTATION: "" } } });
    let paused = world.objects.change(MACHINE, &pause);
    let index = &world.machines.index;
    index.apply(Kind::Machine, serde_json::from_value(paused).unwrap());
    world.pass().await;
    assert_eq!(world.lost(), None);
    let resume = json!({ "metadata": { "annotations": { CAPI_PAUSED_ANNOTATION: null } } });
    let resumed = world.objects.change(MACHINE, &resume);
    index.apply(Kind::Machine, serde_json::from_value(resumed).unwrap());
    world.pass().await;
    assert_eq!(world.lost(), is("True", "PowerOff"));
}

#[tokio::test]
async fn uninstallation_removes_conditions_of_signals_and_no_other() {
    let world = World::new(json!({ "conditions": [other()] })).await;
    assert_eq!(without_signals(&world.machine()), None);
    world.node(1, "True", "PowerOff");
    world.pass().await;
    let patch = without_signals(&world.machine()).unwrap();
    world.objects.change(MACHINE, &patch);
    assert_eq!(world.lost(), None);
    assert_eq!(world.shown("NodeHealthy"), Some(other()));
}
