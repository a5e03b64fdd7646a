//! How long the search for shared causes in a large fleet keeps other tasks from running. `hack/bench stalls` runs this
//! in a release build.

use std::time::Duration;

use kube::api::DynamicObject;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;
use crate::{
    agents::connection_fixture,
    leader::fixture::Leading,
    store::{
        fake_api::Objects,
        large_fleet::fill,
        metrics::ReasonCounter,
        stall_meter::{Stall, StallMeter, hosts},
    },
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn causes_of_a_large_fleet_are_searched_in_short_slices_or_beside_the_tasks() {
    let stall = tokio::spawn(measure(hosts(500))).await.unwrap();
    assert!(stall.cpu < MOST, "{stall:?}");
}

async fn measure(hosts: usize) -> Stall {
    let changes = Arc::<ChangeQueue>::default();
    let index = Arc::new(Index::new(vec![changes.clone()]));
    fill(&index, hosts);
    let policy: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
        "metadata": { "name": "p", "uid": "u", "resourceVersion": "1" },
        "spec": { "sharedCauses": {} },
    }))
    .unwrap();
    index.apply(Kind::PowerPolicy, policy);
    let client = Objects::default().client();
    let leading = Leading::start(&client).await;
    let agents = Arc::new(connection_fixture::with_rack(index.clone()).await);
    let mut registry = Registry::default();
    let watch = Arc::new(CauseWatch {
        client,
        index,
        queries: connection_fixture::queries(&agents),
        agents,
        events: leading.events.clone(),
        metrics: Arc::new(SharedCauseMetrics::register(
            &mut registry,
            ReasonCounter::default(),
        )),
        active: Arc::default(),
        causes: Arc::default(),
        topologies: Arc::default(),
    });
    let cancel = CancellationToken::new();
    let meter = StallMeter::start();
    let running = run(watch.clone(), changes, Arc::default(), cancel.clone());
    let running = tokio::spawn(running);
    while watch.causes.status("p", Timestamp::now()).is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let what = format!("{hosts} hosts are placed for shared causes");
    let stall = meter.end(&what).await;
    cancel.cancel();
    running.await.unwrap();
    stall
}
