//! How long hardware signals of a large fleet keep other tasks from running: their hosts are placed and looked at each
//! second, and Leases are listed. `hack/bench stalls` runs this in a release build.

use std::sync::atomic::Ordering;

use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;
use crate::{
    agents::connection_fixture,
    leader::fixture::Leading,
    store::{
        large_fleet::{CLUSTER, PagedServer, mk_index, name},
        metrics::render,
        object::Key,
        stall_meter::{Stall, StallMeter, hosts},
    },
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);
/// Leases in one page of a list.
const PAGE: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn signals_of_a_large_fleet_are_decided_in_short_slices_or_beside_the_tasks() {
    let stall = tokio::spawn(measure(hosts(100))).await.unwrap();
    assert!(stall.cpu < MOST, "{stall:?}");
}

async fn measure(hosts: usize) -> Stall {
    let lease = |i: usize| {
        json!({
            "metadata": { "name": name(i), "namespace": "kube-node-lease", "uid": name(i), "resourceVersion": "1" },
            "spec": {
                "holderIdentity": name(i), "leaseDurationSeconds": 40,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        })
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let server = PagedServer::default().list(leases, PAGE, (0..hosts).map(lease));
    let (begun, client) = (server.begun.clone(), server.client());
    let index = mk_index(hosts);
    let cluster = Key::new("ns", CLUSTER);
    // The Leases of a cluster with a signal are listed.
    let lost = json!({
        "metadata": { "name": name(0), "uid": format!("node-{}", name(0)) },
        "status": { "conditions": [
            { "type": Signal::PowerLost.condition_type(), "status": "True", "reason": "PowerOff" },
        ]},
    });
    index.apply_node(&cluster, serde_json::from_value(lost).unwrap());
    let workloads = Arc::new(Workloads::default());
    workloads.connect(&cluster, client.clone());
    let leading = Leading::start(&crate::store::fake_api::Objects::default().client()).await;
    let agents = Arc::new(connection_fixture::with_rack(index.clone()).await);
    let mut registry = Registry::default();
    let watch = SignalWatch {
        client,
        served: Arc::default(),
        index,
        workloads,
        queries: connection_fixture::queries(&agents),
        agents,
        writer: leading.writer.clone(),
        metrics: Arc::new(SignalMetrics::register(&mut registry)),
        active: Arc::default(),
        leases: Arc::default(),
        signals: Signal::ALL.into(),
    };
    let cancel = CancellationToken::new();
    let meter = StallMeter::start();
    let running = tokio::spawn(run(watch, cancel.clone()));
    let line = format!("rackhand_hardware_signal_unwatched_hosts {hosts}");
    // A list begins once the one before was applied.
    while !render(&registry).lines().any(|known| known == line) || begun.load(Ordering::Relaxed) < 2
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let what = format!("{hosts} hosts are watched for signals, and their Leases listed");
    let stall = meter.end(&what).await;
    cancel.cancel();
    running.await.unwrap();
    stall
}
