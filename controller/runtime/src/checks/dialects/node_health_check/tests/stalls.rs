//! How long the evaluation of a large check keeps other tasks from running. `hack/bench stalls` runs this in a release
//! build with the Nodes of a large cluster.

use std::time::Instant;

use super::*;
use crate::store::stall_meter::{Stall, StallMeter, nodes};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_node_health_check_is_evaluated_in_short_slices_or_beside_the_tasks() {
    let nodes = nodes(1_000);
    // On the worker thread, where the meter and all tasks of the controller run.
    let stalls = tokio::spawn(measure(nodes)).await.unwrap();
    for stall in stalls {
        assert!(stall.cpu < MOST, "{stall:?}");
    }
}

async fn measure(nodes: usize) -> [Stall; 3] {
    let mut rig = Fixture::new(&[]).await;
    let name = |i: usize| format!("n{i:05}");
    (0..nodes).for_each(|i| rig.put_node(&name(i), "True"));
    // So many Nodes were put at once for this test only.
    tokio::task::yield_now().await;

    let meter = StallMeter::start();
    tokio::task::yield_now().await;
    rig.put_check("c", &json!({ "minHealthy": "51%" }));
    until_healthy(&mut rig, nodes).await;
    let read = meter
        .end(&format!(
            "a NodeHealthCheck of {nodes} Nodes is read for the first time"
        ))
        .await;

    for i in 0..nodes {
        rig.put_node(&name(i), "False");
        if i % 20 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let meter = StallMeter::start();
    tokio::task::yield_now().await;
    until_healthy(&mut rig, 0).await;
    let failed = meter
        .end(&format!(
            "all of {nodes} Nodes fail, and the status names them"
        ))
        .await;

    for i in 0..nodes {
        rig.put_node(&name(i), "True");
        if i % 20 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let meter = StallMeter::start();
    tokio::task::yield_now().await;
    until_healthy(&mut rig, nodes).await;
    let recovered = meter.end("all of them recover").await;
    assert_eq!(rig.server.created(), 0, "the limit is closed");
    [read, failed, recovered]
}

/// Waits until the status has this number of healthy Nodes.
async fn until_healthy(rig: &mut Fixture, healthy: usize) {
    let began = Instant::now();
    let is_told = |rig: &Fixture| {
        let told = rig.server.0.lock();
        told.statuses
            .last()
            .is_some_and(|s| s["healthyNodes"] == healthy)
    };
    while !is_told(rig) {
        assert!(began.elapsed() < ENOUGH * 10, "not {healthy} healthy Nodes");
        timeout(QUIET / 20, rig.turn()).await.ok();
    }
}
