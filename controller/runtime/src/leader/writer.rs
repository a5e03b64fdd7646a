//! The single task that sends all writes to Kubernetes.
//!
//! Checks leadership immediately before each write, applies a timeout, counts it (F7), and limits the writes
//! in flight. Never retries: the caller observes and decides again.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};

use crate::{
    leader::{Leader, LeaderMetrics},
    store::api::{ApiError, call},
};

/// Priority class of a write. Each class has its own limit, so that in a failure of a whole rack status and
/// Events do not delay the creation of remediations, and neither delays running remediations. While remediations are
/// created or deleted, or are about to be, or more of their writes wait than are in flight, reports are written one at a
/// time: those of thousands of Machines would take a large part of what a small API server can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Creation and deletion of remediations, and conditions on which checks and owners act.
    Checks,
    /// State and actions of running remediations.
    Remediation,
    /// Histories of hosts, by which another leader limits attempts.
    Histories,
    /// Events, and conditions and statuses that no controller acts on.
    Reports,
}

impl Lane {
    const ALL: [Self; 4] = [
        Self::Checks,
        Self::Remediation,
        Self::Histories,
        Self::Reports,
    ];

    /// Maximum number of writes in flight. Each waits for the disk of the API server.
    fn places(self) -> usize {
        match self {
            Self::Checks => 32,
            Self::Remediation => 16,
            Self::Histories => 4,
            Self::Reports => 8,
        }
    }
}

/// How long there must be no creation or deletion until they are over: a storm comes in batches.
const LULL: Duration = Duration::from_millis(200);

/// Writes that wait or are in flight, of the lanes before which reports give way.
#[derive(Default)]
struct Urgent {
    checks: AtomicUsize,
    remediation: AtomicUsize,
    /// None of them waits any more.
    over: Notify,
}

/// One of them, until it is dropped.
pub(crate) struct UrgentWrite {
    urgent: Arc<Urgent>,
    lane: Lane,
}

impl Urgent {
    fn writes(&self, lane: Lane) -> Option<&AtomicUsize> {
        match lane {
            Lane::Checks => Some(&self.checks),
            Lane::Remediation => Some(&self.remediation),
            Lane::Histories | Lane::Reports => None,
        }
    }

    fn begin(self: &Arc<Self>, lane: Lane) -> Option<UrgentWrite> {
        self.writes(lane)?.fetch_add(1, Ordering::Relaxed);
        let urgent = self.clone();
        Some(UrgentWrite { urgent, lane })
    }

    /// Whether reports give way.
    fn goes_first(&self) -> bool {
        let many = 2 * Lane::Remediation.places();
        self.has_checks() || self.remediation.load(Ordering::Relaxed) > many
    }

    /// Waits until reports need not give way.
    async fn over(&self) {
        self.until(|urgent| !urgent.goes_first()).await;
    }

    fn has_checks(&self) -> bool {
        self.checks.load(Ordering::Relaxed) > 0
    }

    async fn until(&self, is_over: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.over.notified();
            if is_over(self) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for UrgentWrite {
    fn drop(&mut self) {
        let writes = self.urgent.writes(self.lane);
        let was_last = writes.is_some_and(|writes| writes.fetch_sub(1, Ordering::Relaxed) == 1);
        if was_last || !self.urgent.goes_first() {
            self.urgent.over.notify_waiters();
        }
    }
}

type Job = Box<dyn FnOnce(Leader) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A handle to the writer for one class of writes.
#[derive(Clone)]
pub(crate) struct Writer {
    lanes: Arc<[mpsc::Sender<Job>]>,
    lane: Lane,
    urgent: Arc<Urgent>,
    metrics: LeaderMetrics,
}

impl Writer {
    /// Returns the handle and the task that writes, which the caller must run.
    pub(crate) fn new(
        leader: &Leader,
        metrics: LeaderMetrics,
        lane: Lane,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let urgent = Arc::<Urgent>::default();
        let (lanes, running): (Vec<_>, Vec<_>) = Lane::ALL
            .map(|lane| {
                let (jobs, waiting) = mpsc::channel(lane.places());
                let before = (lane == Lane::Reports).then(|| urgent.clone());
                (jobs, run(leader.clone(), waiting, lane.places(), before))
            })
            .into_iter()
            .unzip();
        let writer = Self {
            lanes: lanes.into(),
            lane,
            urgent,
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

    /// Announces that remediations may be created soon: until the result is dropped, reports are written one at a time.
    pub(crate) fn announce_checks(&self) -> Option<UrgentWrite> {
        self.urgent.begin(Lane::Checks)
    }

    /// Whether remediations are being created or deleted, or are about to be.
    pub(crate) fn writes_checks(&self) -> bool {
        self.urgent.has_checks()
    }

    /// Waits until no remediation was created or deleted for a moment, nor is about to be.
    pub(crate) async fn checks_written(&self) {
        loop {
            self.urgent.until(|urgent| !urgent.has_checks()).await;
            sleep(LULL).await;
            if !self.urgent.has_checks() {
                return;
            }
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
        let _urgent = self.urgent.begin(self.lane);
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

/// Carries out writes, `places` at a time; one at a time while others go `before` them.
async fn run(
    leader: Leader,
    mut waiting: mpsc::Receiver<Job>,
    places: usize,
    before: Option<Arc<Urgent>>,
) {
    let places = Arc::new(Semaphore::new(places));
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            job = waiting.recv() => {
                let Some(job) = job else { break };
                if let Some(before) = &before {
                    give_way(before, &mut running).await;
                }
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

/// Waits until no write goes `before`, or none of those that run is left.
async fn give_way(before: &Urgent, running: &mut JoinSet<()>) {
    let done = async { while running.join_next().await.is_some() {} };
    tokio::select! {
        () = before.over() => {}
        () = done => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{leader::fixture::Leading, store::fake_api::Objects};

    /// How many writes are in flight, and the most that were.
    #[derive(Default)]
    struct InFlight {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl InFlight {
        /// A write that takes a second.
        async fn write(self: Arc<Self>) -> Result<(), kube::Error> {
            let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            self.now.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }
    }

    fn send(writer: &Writer, lane: Lane, writes: usize, counted: &Arc<InFlight>) -> JoinSet<()> {
        let mut sent = JoinSet::new();
        for _ in 0..writes {
            let (writer, counted) = (writer.on(lane), counted.clone());
            sent.spawn(async move {
                let written = writer.write("test", "a write", || counted.write()).await;
                written.unwrap();
            });
        }
        sent
    }

    /// Writes of a lane that take some seconds, beside reports without end.
    async fn give_way_to(lane: Lane, writes: usize) {
        let leading = Leading::start(&Objects::default().client()).await;
        let writer = &leading.writer;
        let [before, reports] = [(); 2].map(|()| Arc::<InFlight>::default());
        let begun = tokio::time::Instant::now();
        let first = send(writer, lane, writes, &before);
        tokio::task::yield_now().await;
        let shown = send(
            writer,
            Lane::Reports,
            2 + 4 * Lane::Reports.places(),
            &reports,
        );
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(reports.most.load(Ordering::Relaxed), 1);
        first.join_all().await;
        let took = begun.elapsed();
        let undelayed = u64::try_from(writes.div_ceil(lane.places())).unwrap();
        assert_eq!(took, Duration::from_secs(undelayed));
        // None starves, and all of them use all places afterwards.
        shown.join_all().await;
        assert_eq!(reports.most.load(Ordering::Relaxed), Lane::Reports.places());
        let all = begun.elapsed();
        assert!(all <= took + Duration::from_secs(5), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn reports_are_written_one_at_a_time_while_remediations_are_created() {
        give_way_to(Lane::Checks, 2 * Lane::Checks.places()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn reports_are_written_one_at_a_time_while_writes_of_remediations_wait() {
        give_way_to(Lane::Remediation, 5 * Lane::Remediation.places()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn reports_do_not_give_way_to_a_few_remediations() {
        let leading = Leading::start(&Objects::default().client()).await;
        let [before, reports] = [(); 2].map(|()| Arc::<InFlight>::default());
        let places = Lane::Remediation.places();
        let first = send(&leading.writer, Lane::Remediation, places, &before);
        tokio::task::yield_now().await;
        let shown = send(
            &leading.writer,
            Lane::Reports,
            Lane::Reports.places(),
            &reports,
        );
        first.join_all().await;
        shown.join_all().await;
        assert_eq!(reports.most.load(Ordering::Relaxed), Lane::Reports.places());
    }

    #[tokio::test(start_paused = true)]
    async fn reports_are_written_one_at_a_time_while_creations_are_announced() {
        let leading = Leading::start(&Objects::default().client()).await;
        let (writer, reports) = (&leading.writer, Arc::<InFlight>::default());
        let announced = writer.announce_checks();
        assert!(writer.writes_checks());
        let shown = send(writer, Lane::Reports, 20, &reports);
        sleep(Duration::from_millis(2_500)).await;
        assert_eq!(reports.most.load(Ordering::Relaxed), 1);
        drop(announced);
        assert!(!writer.writes_checks());
        shown.join_all().await;
        assert_eq!(reports.most.load(Ordering::Relaxed), Lane::Reports.places());
    }

    #[tokio::test(start_paused = true)]
    async fn creations_are_over_once_no_further_one_begins_for_a_moment() {
        let leading = Leading::start(&Objects::default().client()).await;
        let writer = leading.writer.clone();
        let begun = tokio::time::Instant::now();
        let first = writer.announce_checks();
        let waiting = tokio::spawn({
            let writer = writer.clone();
            async move { writer.checks_written().await }
        });
        sleep(Duration::from_secs(1)).await;
        drop(first);
        sleep(LULL / 2).await;
        let second = writer.announce_checks();
        sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(2) + LULL / 2 + LULL);
    }
}
