//! Synchronization of a view that is fed by watches with the state of the API server (F13).
//!
//! One round reads a kind live: names, UIDs and resourceVersions only, by a list without a resourceVersion,
//! which is a quorum read. It then waits until the view shows each listed object in that version or a newer
//! one, and no object that the list lacks. Requests for one kind that arrive during a round share the next
//! one, because a list that began before a request proves nothing about the time of the request.

mod feeds;
mod listing;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kube::Client;
use rackhand_core::watches::freshness::{Catchup, Listing};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub(crate) use feeds::Feed;
use feeds::Feeds;
pub(crate) use listing::{live_listing, object_name};

use crate::{
    clusters::Workloads,
    store::{index::Index, object::Served, time_slice::beside_all},
};

/// Time for a view to reach what a list showed.
const REACH: Duration = Duration::from_secs(5);
/// Timeout of one request, including the previous round, the list and the view.
const REQUEST: Duration = Duration::from_secs(30);

/// Why a view is not known to be whole.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("the API server was not read: {0}")]
    Read(String),
    #[error("the watch of {what} is behind by {behind} objects")]
    Behind { what: String, behind: usize },
    #[error("the live read of {0} did not end in time")]
    Timeout(String),
}

/// A view of one kind that is fed by a watch.
pub(crate) trait View: Send + Sync {
    /// The names of all objects in the view.
    fn names(&self) -> Vec<String>;
    /// The resourceVersion of an object in the view.
    fn version(&self, name: &str) -> Option<u64>;
    /// Whether the watch has reported the deletion of the object with this UID.
    fn is_deleted(&self, uid: &str) -> bool;
    /// Notified after each change of the view.
    fn moved(&self) -> &Notify;
}

/// Waits until `view` has reached `listing`.
pub(crate) async fn reach(what: &str, listing: Listing, view: &dyn View) -> Result<(), SyncError> {
    let mut catchup = beside_all(|| Catchup::new(listing, view.names()));
    let reached = timeout(REACH, async {
        loop {
            // Subscribed before the comparison, so that no change in between is missed.
            let moved = view.moved().notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let compare = || catchup.advance(|name| view.version(name), |uid| view.is_deleted(uid));
            if beside_all(compare) {
                return;
            }
            moved.await;
        }
    })
    .await;
    reached.map_err(|_| SyncError::Behind {
        what: what.to_owned(),
        behind: catchup.behind(),
    })
}

type Answer = oneshot::Sender<Result<(), SyncError>>;

/// Requests sync rounds from the task that runs them.
#[derive(Clone)]
pub(crate) struct Syncs(mpsc::UnboundedSender<(Feed, Answer)>);

/// Runs one round for a feed.
type Round = Arc<dyn Fn(Feed) -> BoxFuture<'static, Result<(), SyncError>> + Send + Sync>;

// === impl Syncs ===

impl Syncs {
    /// Creates the handle for the kinds of the index. The future runs the rounds until `cancel`.
    pub(crate) fn new(
        client: Client,
        served: Arc<Served>,
        workloads: Arc<Workloads>,
        index: Arc<Index>,
        cancel: CancellationToken,
    ) -> (Self, impl Future<Output = ()>) {
        let feeds = Arc::new(Feeds {
            client,
            served,
            workloads,
            index,
        });
        let round = move |feed| -> BoxFuture<'static, _> {
            let feeds = feeds.clone();
            Box::pin(async move { feeds.round(&feed).await })
        };
        Self::with(Arc::new(round), cancel)
    }

    fn with(round: Round, cancel: CancellationToken) -> (Self, impl Future<Output = ()>) {
        let (sender, requests) = mpsc::unbounded_channel();
        (Self(sender), run(round, requests, cancel))
    }

    /// A handle whose rounds end at once with this result and are counted.
    #[cfg(test)]
    pub(crate) fn fixed(rounds: Arc<parking_lot::Mutex<(Result<(), SyncError>, usize)>>) -> Self {
        let round = move |_| -> BoxFuture<'static, _> {
            let mut rounds = rounds.lock();
            rounds.1 += 1;
            let result = rounds.0.clone();
            Box::pin(async move { result })
        };
        let (syncs, running) = Self::with(Arc::new(round), CancellationToken::new());
        tokio::spawn(running);
        syncs
    }

    /// Waits until the view has reached, in each of these feeds, a state that is not older than this
    /// call.
    pub(crate) async fn reach(&self, feeds: Vec<Feed>) -> Result<(), SyncError> {
        let mut answers = Vec::new();
        for feed in feeds {
            let (answer, answered) = oneshot::channel();
            let what = feed.to_string();
            self.0.send((feed, answer)).ok();
            answers.push((what, answered));
        }
        for (what, answered) in answers {
            match timeout(REQUEST, answered).await {
                Ok(Ok(result)) => result?,
                Ok(Err(_)) => return Err(SyncError::Read("the controller is stopping".into())),
                Err(_) => return Err(SyncError::Timeout(what)),
            }
        }
        Ok(())
    }
}

/// Runs rounds, one at a time for each feed.
async fn run(
    round: Round,
    mut requests: mpsc::UnboundedReceiver<(Feed, Answer)>,
    cancel: CancellationToken,
) {
    let mut running: BTreeMap<Feed, Vec<Answer>> = BTreeMap::new();
    let mut next: BTreeMap<Feed, Vec<Answer>> = BTreeMap::new();
    let mut rounds: JoinSet<(Feed, Result<(), SyncError>)> = JoinSet::new();
    loop {
        let free: Vec<Feed> = next
            .keys()
            .filter(|feed| !running.contains_key(*feed))
            .cloned()
            .collect();
        for feed in free {
            if let Some(answers) = next.remove(&feed) {
                running.insert(feed.clone(), answers);
                let work = round(feed.clone());
                rounds.spawn(async move { (feed, work.await) });
            }
        }
        tokio::select! {
            () = cancel.cancelled() => break,
            request = requests.recv() => match request {
                Some((feed, answer)) => next.entry(feed).or_default().push(answer),
                None => break,
            },
            Some(done) = rounds.join_next() => match done {
                Ok((feed, result)) => {
                    for answer in running.remove(&feed).unwrap_or_default() {
                        answer.send(result.clone()).ok();
                    }
                }
                Err(error) => {
                    // The waiting callers get an error because their channel is closed.
                    tracing::error!(%error, "a live read ended unexpectedly");
                    running.clear();
                    rounds.abort_all();
                }
            },
        }
    }
    rounds.shutdown().await;
}

#[cfg(test)]
mod stalls;
#[cfg(test)]
mod tests;
