//! How long changes of a large fleet keep other tasks from running while many remediations wait. `hack/bench stalls` runs
//! this in a release build.

use super::*;
use crate::store::{
    large_fleet::{CLUSTER, name},
    object::Key,
    stall_meter::{StallMeter, hosts},
};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn changes_of_a_large_fleet_are_compared_in_short_slices_or_beside_the_tasks() {
    let hosts = hosts(500);
    let remediations = hosts / 50;
    let cluster = Key::new("ns", CLUSTER);
    let task = |i: usize| {
        let key = Key::new("ns", name(i));
        let interest = WatchInterest {
            cluster: Some(cluster.clone()),
            node: Some(name(i)),
            machine: Some(key.clone()),
            host: Some(key.clone()),
            rack: Some("r1".to_owned()),
            settled: false,
        };
        let task = Task {
            uid: name(i),
            wake: Arc::default(),
            interest: Arc::new(Mutex::new(interest)),
            stop: CancellationToken::new(),
        };
        (RemediationId::new(Kind::PowerRemediation, key), task)
    };
    let tasks: BTreeMap<_, _> = (0..remediations).map(task).collect();
    let changes = (0..hosts).flat_map(|i| {
        let key = Key::new("ns", name(i));
        let object = |kind| Change::Object(kind, key.clone());
        let node = Change::Node(cluster.clone(), name(i));
        [object(Kind::Machine), object(Kind::BareMetalHost), node]
    });
    let changes: BTreeSet<Change> = changes.collect();
    let meter = StallMeter::start();
    let comparing = async move {
        tokio::task::yield_now().await;
        compare(&tasks, changes, |_| RecordChange::None)
    };
    let (now, later) = tokio::spawn(comparing).await.unwrap();
    let what = format!("changes of {hosts} hosts are compared with {remediations} remediations");
    let stall = meter.end(&what).await;
    assert_eq!((now.len(), later.len()), (remediations, 0));
    assert!(stall.cpu < MOST, "{stall:?}");
}
