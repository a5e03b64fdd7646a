use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};

use super::*;
use crate::store::fake_api::{FakeRequest, client, failure};

/// An API server without a Lease that accepts any write.
fn no_lease() -> Client {
    client(|asked: FakeRequest| async move {
        match asked.method {
            Method::GET => failure(StatusCode::NOT_FOUND),
            _ => (StatusCode::OK, asked.body),
        }
    })
}

#[tokio::test]
async fn f7_suspended_leader_loses_leadership() {
    let client = no_lease();
    let seconds = Arc::new(AtomicU64::new(100));
    let read = seconds.clone();
    let clock = Box::new(move || Duration::from_secs(read.load(Ordering::Relaxed)));
    let config = LeaseConfig::default();
    let leader = Leader::with_clock("me".into(), config, &BTreeMap::new(), clock);
    let (leads, mut leading) = tokio::sync::watch::channel(false);
    let (campaign, cancel) = (leader.clone(), CancellationToken::new());
    let running =
        tokio::spawn(async move { campaign.run(&client, "ns", "l", leads, cancel).await });
    leading.wait_for(|leads| *leads).await.unwrap();
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
