//! The one task through which everything goes that changes a cluster.
//!
//! Owns the check of leadership immediately before each write, its deadline and its count (F7). Must
//! never retry: who asked decides again with fresh eyes.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    api::{ApiError, call},
    leader::Leader,
    metrics::Metrics,
};

/// Writes on their way at one time. Each waits for the API server's disk, so that a storm of a
/// whole rack must not queue behind one another; the API server's own fairness caps it anyway.
const CONCURRENT: usize = 32;

type Job = Box<dyn FnOnce(Leader) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A handle to the writer.
#[derive(Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    metrics: Arc<Metrics>,
}

impl Writer {
    /// The handle, and the task to be run by whoever owns the tasks.
    pub(crate) fn new(
        leader: Leader,
        metrics: Arc<Metrics>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (jobs, waiting) = mpsc::channel(CONCURRENT);
        (Self { jobs, metrics }, run(leader, waiting))
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
        let result = if self.jobs.send(job).await.is_err() {
            Err(ApiError::NotLeader { what })
        } else {
            answer.await.unwrap_or(Err(ApiError::NotLeader { what }))
        };
        self.metrics.write_done(
            operation,
            result.as_ref().err().map_or("ok", ApiError::label),
        );
        result
    }
}

async fn run(leader: Leader, mut waiting: mpsc::Receiver<Job>) {
    let places = Arc::new(Semaphore::new(CONCURRENT));
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
