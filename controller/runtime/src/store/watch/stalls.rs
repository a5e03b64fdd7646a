//! How long the lists of a large fleet keep other tasks from running. `hack/bench stalls` runs this in a release build.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::*;
use crate::store::{
    index::SeenNode,
    large_fleet::{CLUSTER, PagedServer, fill, name},
    stall_meter::{Stall, StallMeter, hosts},
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);
/// Objects of one list whose pages are measured: more pages are no larger.
const LISTED: usize = 400;

/// What API servers and controllers add to an object, so that it has about so many bytes.
fn padded(mut object: Value, bytes: usize) -> Value {
    let field = |i: usize| {
        let time = "2026-01-01T00:00:00Z";
        json!({
            "manager": format!("manager-{i}"), "operation": "Update", "time": time, "apiVersion": "v1",
            "fieldsV1": { "f:status": { "f:conditions": { ".": {}, "k:{\"type\":\"Ready\"}": { ".": {}, "f:status": {} } } } },
        })
    };
    let one = field(10).to_string().len();
    object["metadata"]["managedFields"] = (0..bytes / one).map(field).collect();
    object
}

fn object(kind: Kind, version: &str, i: usize) -> Value {
    json!({
        "apiVersion": format!("{}/{version}", kind.group()), "kind": kind.kind(),
        "metadata": {
            "name": name(i), "namespace": "ns", "uid": format!("uid-{}", name(i)),
            "resourceVersion": "2",
        },
        "spec": { "clusterName": CLUSTER },
    })
}

/// Watches a kind until its first list is complete.
async fn list(index: &Arc<Index>, kind: Kind, plural: &str, objects: Vec<Value>) -> Stall {
    let version = objects[0]["apiVersion"].as_str().unwrap();
    let version = version.rsplit('/').next().unwrap().to_owned();
    let path = format!("/apis/{}/{version}/{plural}", kind.group());
    let count = objects.len();
    let client = PagedServer::default()
        .list(&path, PAGE as usize, objects)
        .client();
    let served = Arc::new(Served::default());
    let resource = GroupVersionKind::gvk(kind.group(), &version, kind.kind());
    served.put(kind, ApiResource::from_gvk_with_plural(&resource, plural));
    let (sender, mut synced) = watch::channel(false);
    let cancel = CancellationToken::new();
    let meter = StallMeter::start();
    let watching = watch_kind(
        client,
        served,
        index.clone(),
        kind,
        None,
        sender,
        cancel.clone(),
    );
    let watching = tokio::spawn(watching);
    synced.wait_for(|synced| *synced).await.unwrap();
    let stall = meter
        .end(&format!("a list of {count} {plural} is read"))
        .await;
    cancel.cancel();
    watching.await.unwrap();
    stall
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lists_are_read_in_short_slices_or_beside_the_tasks() {
    let index = Arc::new(Index::new(vec![Arc::default()]));
    let machines = (0..LISTED).map(|i| padded(object(Kind::Machine, "v1beta1", i), 6_000));
    let machines = list(&index, Kind::Machine, "machines", machines.collect()).await;
    let kind = Kind::BareMetalHost;
    let hosts = (0..LISTED).map(|i| padded(object(kind, "v1alpha1", i), 16_000));
    let hosts = list(&index, kind, "baremetalhosts", hosts.collect()).await;
    let nodes = nodes(&index).await;
    for stall in [machines, hosts, nodes] {
        assert!(stall.cpu < MOST, "{stall:?}");
    }
}

async fn nodes(index: &Arc<Index>) -> Stall {
    let node = |i: usize| {
        let node =
            json!({ "metadata": { "name": name(i), "uid": name(i), "resourceVersion": "2" } });
        padded(node, 20_000)
    };
    let client = PagedServer::default()
        .list("/api/v1/nodes", PAGE as usize, (0..LISTED).map(node))
        .client();
    let index = index.clone();
    let meter = StallMeter::start();
    let reading = async move {
        let stream = events(Api::<SeenNode>::all(client));
        pin_mut!(stream);
        loop {
            match stream.next().await.unwrap().unwrap() {
                Event::InitApply(node) => index.apply_seen_node(&Key::local(), node),
                Event::InitDone => break,
                _ => {}
            }
        }
    };
    tokio::spawn(reading).await.unwrap();
    meter.end("a list of Nodes is read").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lost_watch_of_a_large_fleet_lists_anew_in_short_slices_or_beside_the_tasks() {
    let (hosts, kind) = (hosts(500), Kind::Metal3Machine);
    let index = Arc::new(Index::new(vec![Arc::default()]));
    fill(&index, hosts);
    let listed = (0..hosts).map(|i| object(kind, "v1beta1", i));
    let stall = list(&index, kind, "metal3machines", listed.collect()).await;
    assert_eq!(index.keys(kind).len(), hosts);
    assert!(stall.cpu < MOST, "{stall:?}");
}
