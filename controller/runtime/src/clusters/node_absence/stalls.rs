//! How long the first changes of a large fleet keep other tasks from running. `hack/bench stalls` runs this in a release
//! build.

use serde_json::json;

use super::*;
use crate::store::{
    large_fleet::{CLUSTER, PagedServer, fill, name},
    stall_meter::{StallMeter, hosts},
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_of_a_large_fleet_are_searched_in_short_slices_or_beside_the_tasks() {
    let hosts = hosts(500);
    let inbox = Arc::new(ChangeQueue::only(concerns));
    let index = Arc::new(Index::new(vec![inbox.clone()]));
    fill(&index, hosts);
    let (machine, cluster) = (name(hosts), Key::new("ns", CLUSTER));
    let unseen = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": { "name": machine, "namespace": "ns", "uid": machine },
        "spec": { "clusterName": CLUSTER }, "status": { "nodeRef": { "name": machine } },
    });
    index.apply(Kind::Machine, serde_json::from_value(unseen).unwrap());
    let workloads = Arc::new(Workloads::default());
    workloads.connect(&cluster, PagedServer::default().client());
    let cancel = CancellationToken::new();
    let meter = StallMeter::start();
    let running = tokio::spawn(run(workloads, index.clone(), inbox, cancel.clone()));
    while !index.is_absent(&cluster, &machine) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let what = format!("a new leader looks which of {hosts} Machines have a Node");
    let stall = meter.end(&what).await;
    assert!(stall.cpu < MOST, "{stall:?}");
    cancel.cancel();
    running.await.unwrap();
}
