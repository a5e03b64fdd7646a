//! How long work on a large fleet keeps other tasks from running: the hosts of all Machines are resolved, and the
//! status page is rendered. `hack/bench stalls` runs this in a release build with 50,000 hosts.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use kube::{Client, api::DynamicObject};
use serde_json::{Value, json};

use crate::{
    agents::{self, AgentConnections},
    bmc_watch::watched::{Fleet, resolve},
    leader::fixture::leader,
    serve::{
        explain::Explainer,
        page::{LeaderState, Page, ShownPage},
    },
    store::{
        fake_api::Objects,
        index::{Connection, Index},
        object::{Key, Kind},
        stall_meter::{StallMeter, hosts},
    },
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

const CLUSTER: &str = "c";

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// An index with so many Machines, their Nodes and BareMetalHosts, and one rack that serves all of them.
fn mk_index(hosts: usize) -> Arc<Index> {
    let index = Arc::new(Index::new(Vec::new()));
    let cluster = Key::new("ns", CLUSTER);
    let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta1";
    index.apply(
        Kind::Cluster,
        object(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": { "name": CLUSTER, "namespace": "ns", "uid": "cluster" },
        })),
    );
    for i in 0..hosts {
        let name = format!("m{i:05}");
        let uuid = format!("4c4c4544-0042-3510-8054-{i:012}");
        let meta =
            |name: &str| json!({ "name": name, "namespace": "ns", "uid": format!("uid-{name}") });
        let mut machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": meta(&name),
            "spec": {
                "clusterName": CLUSTER, "providerID": format!("metal3://ns/{name}/{name}"),
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name,
                },
            },
            "status": { "nodeRef": { "name": name }, "conditions": [
                { "type": "Ready", "status": "True", "reason": "Ready", "message": "" },
                { "type": "NodeReady", "status": "True", "reason": "NodeReady", "message": "" },
            ]},
        });
        machine["metadata"]["labels"] = json!({ "cluster.x-k8s.io/cluster-name": CLUSTER });
        index.apply(Kind::Machine, object(machine));
        let mut metal3 = json!({
            "apiVersion": infrastructure, "kind": "Metal3Machine", "metadata": meta(&name),
        });
        metal3["metadata"]["annotations"] =
            json!({ "metal3.io/BareMetalHost": format!("ns/{name}") });
        index.apply(Kind::Metal3Machine, object(metal3));
        index.apply(
            Kind::BareMetalHost,
            object(json!({
                "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": meta(&name),
                "spec": {
                    "online": true, "bmc": { "address": format!("redfish://{name}") },
                    "consumerRef": {
                        "apiVersion": infrastructure, "kind": "Metal3Machine", "name": name, "namespace": "ns",
                    },
                },
                "status": { "poweredOn": true },
            })),
        );
        let node = json!({
            "metadata": { "name": name, "uid": format!("node-{name}") },
            "spec": { "providerID": format!("metal3://ns/{name}/{name}") },
            "status": {
                "nodeInfo": { "systemUUID": uuid, "machineID": "", "bootID": "", "kernelVersion": "",
                    "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": "" },
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            },
        });
        index.apply_seen_node(&cluster, serde_json::from_value(node).unwrap());
    }
    index.set_connection(&cluster, Connection::Up);
    index
}

async fn page(index: &Arc<Index>, client: &Client, agents: &Arc<AgentConnections>) -> Page {
    let (leader, _) = leader(client).await;
    let state = Arc::<LeaderState>::default();
    state.leads(agents);
    Page {
        replica: "me".to_owned(),
        leader,
        index: index.clone(),
        state,
        shown: ShownPage::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn work_on_a_large_fleet_is_done_in_short_slices_or_beside_the_tasks() {
    let hosts = hosts(500);
    let index = mk_index(hosts);
    let measured = async move {
        resolve_all(index.clone(), hosts).await;
        render(index, hosts).await;
    };
    // On the worker thread, where the meter and all tasks of the controller run.
    tokio::spawn(measured).await.unwrap();
}

async fn resolve_all(index: Arc<Index>, hosts: usize) {
    let agents = agents::connection_fixture::with_rack(index.clone()).await;
    let meter = StallMeter::start();
    let mut fleet = Fleet::default();
    for _ in 0..2 {
        resolve(&index, &agents, &mut fleet).await;
    }
    let stall = meter.end("the hosts of all Machines are resolved").await;
    assert_eq!(fleet.hosts().count(), hosts);
    assert!(stall.cpu < MOST, "{stall:?}");
}

async fn render(index: Arc<Index>, hosts: usize) {
    let client = Objects::default().client();
    let agents = Arc::new(agents::connection_fixture::with_rack(index.clone()).await);
    let page = page(&index, &client, &agents).await;
    let explainer = Explainer::standby(client);
    let meter = StallMeter::start();
    // The index goes on.
    let changes = async {
        for i in 0..50 {
            let node = json!({ "metadata": { "name": format!("new-{i}"), "uid": "new" } });
            let node = serde_json::from_value(node).unwrap();
            index.apply_seen_node(&Key::new("ns", CLUSTER), node);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let pages = async { tokio::join!(page.page(&explainer), page.json(&explainer)) };
    let ((html, json), ()) = tokio::join!(pages, changes);
    let what = "the overview is computed and the page rendered";
    let stall = meter.end(what).await;
    let (Ok(html), Ok(json)) = (html, json) else {
        panic!("the page is not shown");
    };
    let html = text(html).await;
    assert_eq!(html.matches("<li class=\"ready\">").count(), hosts + 1);
    let json: Value = serde_json::from_str(&text(json).await).unwrap();
    assert_eq!(json["counts"]["all"], hosts);
    assert!(stall.cpu < MOST, "{stall:?}");
}

async fn text(response: Response) -> String {
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    String::from_utf8(body.unwrap().to_vec()).unwrap()
}
