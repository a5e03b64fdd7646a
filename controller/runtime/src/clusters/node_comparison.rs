//! Comparison of indexed objects with a live list, shared by the remediations that need it (F13, F14).

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::sync::{Feed, SyncError, Syncs};
use crate::store::object::{Key, Kind};

/// How long a comparison serves later callers. A Node takes longer to register and to become Ready.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Compares the Nodes of clusters, and the PowerPolicies, at most one list of each at a time.
pub(crate) struct NodeComparisons {
    syncs: Syncs,
    /// The start of the latest complete comparison.
    compared: Mutex<BTreeMap<Feed, Instant>>,
}

impl NodeComparisons {
    pub(crate) fn new(syncs: Syncs) -> Self {
        Self {
            syncs,
            compared: Mutex::default(),
        }
    }

    /// Waits until the index has the Nodes of the cluster as they were at most a second ago.
    pub(crate) async fn reach(&self, cluster: &Key) -> Result<(), SyncError> {
        self.reach_feed(Feed::Nodes(cluster.clone())).await
    }

    /// Waits until the index has the PowerPolicies as they were at most a second ago.
    pub(crate) async fn reach_policies(&self) -> Result<(), SyncError> {
        let policies = Feed::Objects(Kind::PowerPolicy, String::new());
        self.reach_feed(policies).await
    }

    async fn reach_feed(&self, feed: Feed) -> Result<(), SyncError> {
        let asked = Instant::now();
        let compared = self.compared.lock().get(&feed).copied();
        if compared.is_some_and(|at| asked.duration_since(at) < SHARED_FOR) {
            return Ok(());
        }
        self.syncs.reach(vec![feed.clone()]).await?;
        let mut compared = self.compared.lock();
        let at = compared.entry(feed).or_insert(asked);
        *at = asked.max(*at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn f14_remediations_that_ask_within_a_second_share_a_comparison() {
        let rounds = Arc::new(Mutex::new((Ok(()), 0)));
        let comparisons = NodeComparisons::new(Syncs::fixed(rounds.clone()));
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        for _ in 0..500 {
            comparisons.reach(&a).await.unwrap();
        }
        assert_eq!(rounds.lock().1, 1);
        comparisons.reach(&b).await.unwrap();
        assert_eq!(rounds.lock().1, 2, "of another cluster");
        advance(SHARED_FOR).await;
        comparisons.reach(&a).await.unwrap();
        assert_eq!(rounds.lock().1, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn f14_failed_comparison_serves_nobody() {
        let failed = Err(SyncError::Read("403".into()));
        let rounds = Arc::new(Mutex::new((failed, 0)));
        let comparisons = NodeComparisons::new(Syncs::fixed(rounds.clone()));
        let cluster = Key::new("ns", "a");
        assert!(comparisons.reach(&cluster).await.is_err());
        rounds.lock().0 = Ok(());
        assert!(comparisons.reach(&cluster).await.is_ok());
        assert_eq!(rounds.lock().1, 2);
    }
}
