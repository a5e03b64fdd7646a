//! How long remediations of hosts whose boards report one system UUID keep other tasks from running. `hack/bench stalls`
//! runs this in a release build.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    agents::{self, AgentConnections},
    store::{
        large_fleet::{CLUSTER, mk_index, name},
        stall_meter::{StallMeter, nodes},
    },
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);
const UUID: &str = "4c4c4544-5345-5249-8553-626f61726473";
/// Remediations that compare themselves at one time.
const REMEDIATIONS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_of_boards_with_one_system_uuid_are_compared_in_short_slices() {
    tokio::spawn(compare_all()).await.unwrap();
}

async fn compare_all() {
    let hosts = nodes(1_000);
    let (index, cluster) = (mk_index(hosts), Key::new("ns", CLUSTER));
    for i in 0..hosts {
        let name = name(i);
        let node = json!({
            "metadata": { "name": name, "uid": format!("node-{name}") },
            "spec": { "providerID": format!("metal3://ns/{name}/{name}") },
            "status": { "nodeInfo": { "systemUUID": UUID } },
        });
        index.apply_seen_node(&cluster, serde_json::from_value(node).unwrap());
    }
    // One that no reference names.
    let stray = json!({
        "metadata": { "name": "stray", "uid": "stray" }, "status": { "nodeInfo": { "systemUUID": UUID } },
    });
    index.apply_seen_node(&cluster, serde_json::from_value(stray).unwrap());
    let agents = Arc::new(agents::connection_fixture::with_rack(index.clone()).await);
    let named_hosts = Arc::<NamedHosts>::default();
    let meter = StallMeter::start();
    let tasks = (0..REMEDIATIONS).map(|i| {
        let (index, agents, named_hosts) = (index.clone(), agents.clone(), named_hosts.clone());
        tokio::spawn(async move { compared_by(i, &index, &agents, &named_hosts).await })
    });
    for found in futures::future::join_all(tasks).await {
        assert_eq!(found.unwrap(), ["stray"]);
    }
    let what =
        format!("{REMEDIATIONS} remediations are compared with {hosts} Nodes of one system UUID");
    let stall = meter.end(&what).await;
    assert!(stall.cpu < MOST, "{stall:?}");
}

/// The Nodes that may run on the host of a Machine.
async fn compared_by(
    i: usize,
    index: &Index,
    agents: &AgentConnections,
    named: &NamedHosts,
) -> Vec<String> {
    let (name, cluster) = (name(i), Key::new("ns", CLUSTER));
    let target = Target {
        machine: index.machine(&Key::new("ns", name.clone())),
        cluster: Some(cluster.clone()),
        node: Some(name.clone()),
        by_node: false,
        openshift: None,
    };
    let key = Key::new("ns", name.clone());
    let host = HostRef {
        rack: "r1".into(),
        host: name.clone(),
        bmh: Some(key.to_string()),
        bmc: format!("redfish://{name}"),
    };
    let subject = Subject {
        target: &target,
        host: Some(&host),
        bmh: Some(&key),
        workload: &WorkloadView::NotJoined,
        state: None,
        power: None,
    };
    let lookup = NodeLookup {
        index,
        racks: || agents.racks(),
        named,
    };
    let (_, found) = candidates(&lookup, &cluster, &subject).await;
    found.into_iter().map(|node| node.identity.name).collect()
}
