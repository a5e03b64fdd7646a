use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};
use serde_json::json;

use super::*;
use crate::store::fake_api::{FakeRequest, Objects, client, failure};

/// An API server without a Lease that accepts any write.
fn no_lease() -> Client {
    client(|asked: FakeRequest| async move {
        match asked.method {
            Method::GET => failure(StatusCode::NOT_FOUND),
            _ => (StatusCode::OK, asked.body),
        }
    })
}

/// Runs the election until the leader leads. Returns whether it still does, and its end.
async fn elect(
    leader: &Leader,
    client: Client,
) -> (
    tokio::sync::watch::Receiver<bool>,
    tokio::task::JoinHandle<Result<(), ElectionEnd>>,
) {
    let (leads, mut leading) = tokio::sync::watch::channel(false);
    let (leader, cancel) = (leader.clone(), CancellationToken::new());
    let running = tokio::spawn(async move { leader.run(&client, "ns", "l", leads, cancel).await });
    leading.wait_for(|leads| *leads).await.unwrap();
    (leading, running)
}

#[tokio::test]
async fn f7_suspended_leader_loses_leadership() {
    let client = no_lease();
    let seconds = Arc::new(AtomicU64::new(100));
    let read = seconds.clone();
    let clock = Box::new(move || Duration::from_secs(read.load(Ordering::Relaxed)));
    let config = LeaseConfig::default();
    let leader = Leader::with_clock("me".into(), config, &BTreeMap::new(), None, clock);
    let (leading, running) = elect(&leader, client).await;
    assert!(leader.leads());
    // The machine is suspended: time passes while no timer of this process runs.
    seconds.fetch_add(config.renew_deadline().as_secs(), Ordering::Relaxed);
    assert_eq!(leader.term(), None);
    leader.0.bell.notify_one();
    let end = running.await.unwrap();
    assert!(
        matches!(end, Err(ElectionEnd::Lost(LeadershipLost::Late))),
        "{end:?}"
    );
    assert!(!*leading.borrow());
}

#[tokio::test(start_paused = true)]
async fn leader_reads_its_lease_only_after_a_change_by_others_and_keeps_that() {
    const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l";
    let objects = Objects::default();
    let origin = tokio::time::Instant::now();
    let config = LeaseConfig::default();
    let clock = Box::new(move || origin.elapsed());
    let leader = Leader::with_clock("me".into(), config, &BTreeMap::new(), None, clock);
    let (_, running) = elect(&leader, objects.client()).await;
    objects.reads.lock().clear();
    let renewed = |lease: Option<serde_json::Value>| lease.unwrap()["spec"]["renewTime"].clone();
    let before = renewed(objects.get(PATH));

    tokio::time::sleep(3 * config.duration()).await;
    assert!(leader.leads());
    assert_ne!(renewed(objects.get(PATH)), before);
    assert_eq!(*objects.reads.lock(), [""; 0]);

    let by_others = json!({ "uid": "u", "labels": { "team": "b" } });
    objects.change(PATH, &json!({ "metadata": by_others }));
    tokio::time::sleep(3 * config.duration()).await;
    assert!(leader.leads());
    assert_eq!(*objects.reads.lock(), [PATH]);
    let kept = &objects.get(PATH).unwrap()["metadata"];
    assert_eq!(kept["uid"], "u");
    assert_eq!(kept["labels"]["team"], "b");
    running.abort();
}
