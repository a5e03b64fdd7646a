//! How long work on a large fleet keeps other tasks from running: the hosts of all Machines are resolved, and the
//! status page is rendered. `hack/bench stalls` runs this in a release build with 50,000 hosts.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use kube::Client;
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
        index::Index,
        large_fleet::{CLUSTER, mk_index},
        object::Key,
        stall_meter::{StallMeter, hosts},
    },
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

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
