//! The single task that sends all writes to Kubernetes.
//!
//! Checks leadership immediately before each write, applies a timeout, counts it (F7), and limits the writes
//! in flight. Never retries: the caller observes and decides again.

use std::{future::Future, pin::Pin, sync::Arc};

use futures::{FutureExt, future::join_all};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    leader::{Leader, LeaderMetrics},
    store::api::{ApiError, call},
};

/// Priority class of a write. Each class has its own limit, so that in a failure of a whole rack status and
/// Events do not delay the creation of remediations, and neither delays running remediations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Creation and deletion of remediations.
    Checks,
    /// State and actions of running remediations.
    Remediation,
    /// Events, and conditions and statuses that no controller acts on.
    Reports,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Checks, Self::Remediation, Self::Reports];

    /// Maximum number of writes in flight. Each waits for the disk of the API server.
    fn places(self) -> usize {
        match self {
            Self::Checks => 32,
            Self::Remediation => 16,
            Self::Reports => 8,
        }
    }
}

type Job = Box<dyn FnOnce(Leader) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A handle to the writer for one class of writes.
#[derive(Clone)]
pub(crate) struct Writer {
    lanes: Arc<[mpsc::Sender<Job>]>,
    lane: Lane,
    metrics: LeaderMetrics,
}

impl Writer {
    /// Returns the handle and the task that writes, which the caller must run.
    pub(crate) fn new(
        leader: &Leader,
        metrics: LeaderMetrics,
        lane: Lane,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (lanes, running): (Vec<_>, Vec<_>) = Lane::ALL
            .map(|lane| {
                let (jobs, waiting) = mpsc::channel(lane.places());
                (jobs, run(leader.clone(), waiting, lane.places()))
            })
            .into_iter()
            .unzip();
        let writer = Self {
            lanes: lanes.into(),
            lane,
            metrics,
        };
        (writer, join_all(running).map(drop))
    }

    /// A handle to the same writer for another class of writes.
    pub(crate) fn on(&self, lane: Lane) -> Self {
        Self {
            lane,
            ..self.clone()
        }
    }

    /// Sends a write, if this process still leads when the write reaches the front of the queue.
    pub(crate) async fn write<T, F, Fut>(
        &self,
        operation: &'static str,
        what: impl Into<String>,
        write: F,
    ) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, kube::Error>> + Send + 'static,
    {
        let what = what.into();
        let (reply, answer) = oneshot::channel();
        let asked = what.clone();
        let job: Job = Box::new(move |leader| {
            Box::pin(async move {
                let result = if leader.leads() {
                    call(asked, write()).await
                } else {
                    Err(ApiError::NotLeader { what: asked })
                };
                reply.send(result).ok();
            })
        });
        let result = match self.lanes.get(self.lane as usize) {
            Some(jobs) if jobs.send(job).await.is_ok() => {
                answer.await.unwrap_or(Err(ApiError::NotLeader { what }))
            }
            _ => Err(ApiError::NotLeader { what }),
        };
        self.metrics.count_write(
            operation,
            result.as_ref().err().map_or("ok", ApiError::label),
        );
        result
    }
}

async fn run(leader: Leader, mut waiting: mpsc::Receiver<Job>, places: usize) {
    let places = Arc::new(Semaphore::new(places));
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            job = waiting.recv() => {
                let Some(job) = job else { break };
                let Ok(place) = places.clone().acquire_owned().await else { break };
                let leader = leader.clone();
                running.spawn(async move {
                    job(leader).await;
                    drop(place);
                });
            }
            Some(_) = running.join_next() => {}
        }
    }
    while running.join_next().await.is_some() {}
}
