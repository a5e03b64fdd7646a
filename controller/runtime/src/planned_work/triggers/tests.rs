//! Passes over triggers, against a minimal API server.

use kube::{
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use prometheus_client::registry::Registry;
use rackhand_core::triggers::remediation_name;
use serde_json::{Value, json};

use super::*;
use crate::{
    leader::fixture::Leading,
    store::{fake_api::Objects, index::Connection},
};

const OURS: &str = "/apis/rackhand.dev/v1alpha1";
const LABEL: &str = "node-restriction.kubernetes.io/reboot";

struct World {
    objects: Objects,
    triggers: Arc<Triggers>,
    _leading: Leading,
}

fn node(name: &str, label: Option<&str>) -> Value {
    let labels = label.map_or(json!({}), |value| json!({ (LABEL): value }));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "labels": labels },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

impl World {
    /// A trigger of Nodes of the controller's own cluster, with its template.
    async fn new(enabled: bool) -> Self {
        let objects = Objects::default();
        let kinds = [
            "PowerRemediation",
            "PowerRemediationTemplate",
            "RemediationTrigger",
        ];
        let resources: Vec<Value> = kinds
            .iter()
            .map(|kind| {
                let name = format!("{}s", kind.to_lowercase());
                json!({ "name": name, "kind": kind, "namespaced": true, "singularName": "", "verbs": ["get"] })
            })
            .collect();
        let list = json!({
            "kind": "APIResourceList", "groupVersion": "rackhand.dev/v1alpha1", "resources": resources,
        });
        objects.put(OURS, list);
        objects.put(
            &format!("{OURS}/namespaces/ns/powerremediationtemplates/reboot"),
            json!({
                "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
                "metadata": { "name": "reboot", "namespace": "ns" },
                "spec": { "template": { "spec": { "strategy": { "type": "Reboot" } } } },
            }),
        );
        let trigger = objects.put(
            &format!("{OURS}/namespaces/ns/remediationtriggers/t"),
            json!({
                "apiVersion": "rackhand.dev/v1alpha1", "kind": "RemediationTrigger",
                "metadata": { "name": "t", "namespace": "ns", "uid": "trigger" },
                "spec": { "label": LABEL, "value": "now", "templateRef": { "name": "reboot" } },
            }),
        );
        let client = objects.client();
        let served = Arc::new(Served::default());
        for kind in [Kind::PowerRemediation, Kind::RemediationTrigger] {
            let gvk = GroupVersionKind::gvk(kind.group(), "v1alpha1", kind.kind());
            served.put(kind, ApiResource::from_gvk(&gvk));
        }
        let index = Arc::new(Index::new(Vec::new()));
        index.apply(
            Kind::RemediationTrigger,
            serde_json::from_value(trigger).unwrap(),
        );
        index.set_connection(&Key::local(), Connection::Up);
        let workloads = Arc::new(Workloads::default());
        workloads.connect(&Key::local(), client.clone());
        let leading = Leading::start(&client).await;
        let triggers = Arc::new(Triggers {
            client,
            served,
            index,
            workloads,
            writer: leading.writer.clone(),
            reports: leading.writer.clone(),
            events: leading.events.clone(),
            metrics: Arc::new(TriggerMetrics::register(&mut Registry::default())),
            enabled,
            watch_filter: None,
            memory: Mutex::default(),
        });
        Self {
            objects,
            triggers,
            _leading: leading,
        }
    }

    /// Adds a Node; the index shows it with its label, which it may have lost meanwhile.
    fn add(&self, name: &str, live_label: Option<&str>) {
        let live = self
            .objects
            .put(&format!("/api/v1/nodes/{name}"), node(name, live_label));
        let mut seen = node(name, Some("now"));
        seen["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let seen = serde_json::from_value(seen).unwrap();
        self.triggers.index.apply_seen_node(&Key::local(), seen);
    }

    fn made(&self, node: &str) -> Option<Value> {
        let name = remediation_name("t", node, &format!("uid-{node}"));
        self.objects
            .get(&format!("{OURS}/namespaces/ns/powerremediations/{name}"))
    }

    fn status(&self) -> Value {
        let path = format!("{OURS}/namespaces/ns/remediationtriggers/t");
        self.objects.get(&path).unwrap()["status"].clone()
    }
}

fn condition(status: &Value, name: &str) -> (String, String) {
    let list = status["conditions"].as_array().unwrap();
    let found = list.iter().find(|c| c["type"] == name).unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

#[tokio::test]
async fn five_hundred_labels_at_once_make_one_remediation_each_in_limited_passes() {
    let world = World::new(true).await;
    let nodes: Vec<String> = (0..500).map(|i| format!("n{i:03}")).collect();
    for node in &nodes {
        world.add(node, Some("now"));
    }
    let count = || {
        nodes
            .iter()
            .filter(|node| world.made(node).is_some())
            .count()
    };
    let mut passes = Vec::new();
    while count() < nodes.len() && passes.len() < 20 {
        pass(&world.triggers).await;
        passes.push(count());
    }
    let expected: Vec<usize> = (1..=10).map(|pass| pass * PER_PASS).collect();
    assert_eq!(passes, expected);
    let first = world.made("n000").unwrap();
    let annotations = &first["metadata"]["annotations"];
    assert_eq!(
        annotations["rackhand.dev/made-by"],
        "RemediationTrigger/t/trigger"
    );
    assert_eq!(annotations["rackhand.dev/node-uid"], "uid-n000");
    // Each Node was read once, and a process that starts anew makes none.
    let reads = || {
        let reads = world.objects.reads.lock();
        reads
            .iter()
            .filter(|path| path.starts_with("/api/v1/nodes/"))
            .count()
    };
    assert_eq!(reads(), nodes.len());
    *world.triggers.memory.lock() = Memory::default();
    pass(&world.triggers).await;
    assert_eq!(reads(), nodes.len());
    let status = world.status();
    assert_eq!(status["running"], 500);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 32);
}

#[tokio::test]
async fn f12_label_that_is_gone_makes_no_remediation_although_the_index_shows_it() {
    let world = World::new(true).await;
    world.add("late", None);
    world.add("set", Some("now"));
    for _ in 0..3 {
        pass(&world.triggers).await;
    }
    assert!(world.made("late").is_none());
    assert!(world.made("set").is_some());
}

#[tokio::test]
async fn trigger_that_is_not_enabled_makes_nothing_and_says_so() {
    let world = World::new(false).await;
    world.add("a", Some("now"));
    pass(&world.triggers).await;
    assert!(world.made("a").is_none());
    let status = world.status();
    assert_eq!(
        condition(&status, "Active"),
        ("False".into(), "Disabled".into())
    );
    assert_eq!(status["waiting"], 1);
    assert_eq!(status["nodes"][0]["reason"], "Disabled");
}

#[tokio::test]
async fn missing_template_is_said_and_nothing_is_made() {
    let world = World::new(true).await;
    world.objects.remove(&format!(
        "{OURS}/namespaces/ns/powerremediationtemplates/reboot"
    ));
    world.add("a", Some("now"));
    pass(&world.triggers).await;
    assert!(world.made("a").is_none());
    let expected = ("False".to_owned(), "TemplateUnusable".to_owned());
    assert_eq!(condition(&world.status(), "Active"), expected);
}

/// A Machine that runs as a Node of the cluster of the controller.
fn machine(node: &str, annotations: &Value) -> DynamicObject {
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "name": format!("m-{node}"), "namespace": "fleet", "uid": format!("uid-m-{node}"),
            "annotations": annotations, "labels": { "cluster.x-k8s.io/cluster-name": "self" },
        },
        "spec": { "clusterName": "self", "providerID": format!("metal3://{node}") },
        "status": { "nodeRef": { "name": node } },
    });
    serde_json::from_value(machine).unwrap()
}

#[tokio::test]
async fn node_whose_machine_is_left_alone_is_left_alone_without_a_cluster_name() {
    let world = World::new(true).await;
    let index = &world.triggers.index;
    for (name, annotations) in [
        (
            "skipped",
            json!({ "cluster.x-k8s.io/skip-remediation": "" }),
        ),
        ("paused", json!({ "cluster.x-k8s.io/paused": "" })),
        ("free", json!({})),
    ] {
        world.add(name, Some("now"));
        let mut seen = node(name, Some("now"));
        seen["spec"] = json!({ "providerID": format!("metal3://{name}") });
        index.apply_node(&Key::local(), serde_json::from_value(seen).unwrap());
        index.apply(Kind::Machine, machine(name, &annotations));
    }
    world.add("maintained", Some("now"));
    let maintenance = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
        "metadata": { "name": "dimm", "namespace": "ns", "uid": "u" },
        "spec": { "node": "maintained", "reason": "DIMM" },
        "status": { "phase": "Parked", "nodeName": "maintained", "marked": true },
    });
    index.apply(
        Kind::HostMaintenance,
        serde_json::from_value(maintenance).unwrap(),
    );
    for _ in 0..2 {
        pass(&world.triggers).await;
    }
    assert!(world.made("free").is_some());
    let status = world.status();
    for (name, reason, part) in [
        ("skipped", "Excluded", "skip-remediation"),
        ("paused", "Paused", "m-paused"),
        ("maintained", "Excluded", "HostMaintenance ns/dimm"),
    ] {
        assert!(world.made(name).is_none(), "{name}");
        let nodes = status["nodes"].as_array().unwrap();
        let shown = nodes.iter().find(|of| of["node"] == name);
        let shown = shown.unwrap_or_else(|| panic!("{name} is missing in {status}"));
        assert_eq!(shown["reason"], reason, "{shown}");
        assert!(shown["message"].as_str().unwrap().contains(part), "{shown}");
    }
}

/// Those of Nodes of workload clusters are dropped, unless a trigger names them.
#[tokio::test]
async fn labels_of_triggers_are_kept_of_nodes_of_workload_clusters() {
    let index = Index::new(Vec::new());
    let cluster = Key::new("ns", "c");
    let apply = || {
        let node = serde_json::from_value(node("a", Some("now"))).unwrap();
        index.apply_seen_node(&cluster, node);
    };
    apply();
    assert!(index.nodes_with_label(&cluster, LABEL).is_empty());
    index.keep_labels(BTreeSet::from([LABEL.to_owned()]));
    apply();
    let labelled = index.nodes_with_label(&cluster, LABEL);
    assert_eq!(labelled[0].value.as_deref(), Some("now"));
    assert!(labelled[0].ready);
}
