//! How long a live read of a large fleet keeps other tasks from running. `hack/bench stalls` runs this in a release
//! build.

use kube::core::ApiResource;
use serde_json::json;

use super::*;
use crate::store::{
    large_fleet::{CLUSTER, PagedServer, mk_index, name},
    object::{Key, Kind},
    stall_meter::{StallMeter, hosts},
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);
/// Objects in one page of the list.
const LISTED_AT_ONCE: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn live_read_of_a_large_fleet_is_compared_in_short_slices_or_beside_the_tasks() {
    let hosts = hosts(500);
    let index = mk_index(hosts);
    let metadata = |namespace: Option<&str>, uid: &str, i: usize| {
        let field = |i: usize| json!({ "manager": format!("manager-{i}"), "operation": "Update", "fieldsV1": { "f:status": {} } });
        json!({ "metadata": {
            "name": name(i), "namespace": namespace, "uid": format!("{uid}-{}", name(i)),
            "resourceVersion": "0", "managedFields": (0..10).map(field).collect::<Vec<_>>(),
        }})
    };
    let kind = Kind::Machine;
    let version = "v1beta2";
    let machines = format!("/apis/{}/{version}/namespaces/ns/machines", kind.group());
    let listed = (0..hosts).map(|i| metadata(Some("ns"), "uid", i));
    let client = PagedServer::default()
        .list(&machines, LISTED_AT_ONCE, listed)
        .client();
    let served = Arc::new(Served::default());
    let resource = kube::core::GroupVersionKind::gvk(kind.group(), version, kind.kind());
    served.put(kind, ApiResource::from_gvk(&resource));
    // Versions of the index, as a watch would have filled it.
    for i in 0..hosts {
        let key = Key::new("ns", name(i));
        let mut object = (*index.machine(&key).unwrap().object).clone();
        object.metadata.resource_version = Some("1".to_owned());
        index.apply(kind, object);
    }
    let cluster = Key::new("ns", CLUSTER);
    assert!(!index.is_connecting(&cluster));
    let cancel = CancellationToken::new();
    let workloads = Arc::new(Workloads::default());
    // Not freed on the thread that is measured.
    let _index = index.clone();
    let (syncs, reading) = Syncs::new(client, served, workloads, index, cancel.clone());
    tokio::spawn(reading);
    let meter = StallMeter::start();
    let reach = async move {
        syncs
            .reach(vec![Feed::Objects(kind, "ns".to_owned())])
            .await
    };
    tokio::spawn(reach).await.unwrap().unwrap();
    let stall = meter
        .end(&format!("a live list of {hosts} Machines is compared"))
        .await;
    assert!(stall.cpu < MOST, "{stall:?}");
    cancel.cancel();
}
