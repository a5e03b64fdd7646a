//! The one task through which everything goes that changes a cluster.
//!
//! Owns the check of leadership immediately before each write, its deadline and its count (F7), and
//! what may be on its way at one time. Must never retry: who asked decides again with fresh eyes.

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

/// What a write is for. Each lane has its own places, so that in a storm of a whole rack the requests
/// do not stand behind the words about them, and remediations behind neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Remediation requests come and go.
    Requests,
    /// What remediations keep and do.
    Remediation,
    /// Events, conditions and statuses that nobody acts upon.
    Words,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Requests, Self::Remediation, Self::Words];

    /// Writes on their way at one time. Each waits for the API server's disk.
    fn places(self) -> usize {
        match self {
            Self::Requests => 32,
            Self::Remediation => 16,
            Self::Words => 8,
        }
    }
}

type Job = Box<dyn FnOnce(Leader) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A handle to the writer, on one of its lanes.
#[derive(Clone)]
pub(crate) struct Writer {
    lanes: Arc<[mpsc::Sender<Job>]>,
    lane: Lane,
    metrics: LeaderMetrics,
}

impl Writer {
    /// The handle, and the task to be run by whoever owns the tasks.
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

    /// The same on another lane.
    pub(crate) fn on(&self, lane: Lane) -> Self {
        Self {
            lane,
            ..self.clone()
        }
    }

    /// Carries out a write, if this process still leads when its turn comes.
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
