//! Measures for tests how long one task keeps the others from running.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;

/// How often the meter wakes.
const TICK: Duration = Duration::from_millis(1);

/// The largest stretch in which the meter did not run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stall {
    /// By the clock: how late the meter woke. Other programs of this machine delay it too.
    pub(crate) late: Duration,
    /// Processor time of the thread between two wakes.
    pub(crate) cpu: Duration,
}

/// A task that wakes each millisecond, in a runtime with one worker thread.
pub(crate) struct StallMeter {
    task: JoinHandle<Stall>,
    stop: Arc<AtomicBool>,
}

impl StallMeter {
    /// Begins to measure.
    pub(crate) fn start() -> Self {
        let stop = Arc::<AtomicBool>::default();
        let is_over = stop.clone();
        let task = tokio::spawn(async move {
            let mut largest = Stall::default();
            while !is_over.load(Ordering::Relaxed) {
                let (began, cpu) = (Instant::now(), thread_cpu());
                tokio::time::sleep(TICK).await;
                let late = began.elapsed().saturating_sub(TICK);
                largest.late = largest.late.max(late);
                largest.cpu = largest.cpu.max(thread_cpu().saturating_sub(cpu));
            }
            largest
        });
        Self { task, stop }
    }

    /// Ends the measurement of `what`, and prints it.
    pub(crate) async fn end(self, what: &str) -> Stall {
        self.stop.store(true, Ordering::Relaxed);
        let stall = self.task.await.unwrap();
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "stall: {what}: {:.1} ms of processor time, {:.1} ms late",
            millis(stall.cpu),
            millis(stall.late)
        );
        stall
    }
}

/// Processor time of this thread. The runtime has one worker thread, on which every task runs.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// The number of hosts to measure with; `few` unless a benchmark asks for another.
pub(crate) fn hosts(few: usize) -> usize {
    let asked = std::env::var("RACKHAND_STALL_HOSTS").ok();
    asked.and_then(|hosts| hosts.parse().ok()).unwrap_or(few)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stall_meter_notices_a_task_that_does_not_yield() {
    let meter = StallMeter::start();
    let works = async {
        tokio::task::yield_now().await;
        let began = thread_cpu();
        while thread_cpu().saturating_sub(began) < TICK * 20 {}
    };
    tokio::spawn(works).await.unwrap();
    let stall = meter.end("a loop").await;
    assert!(
        stall.cpu >= TICK * 20 && stall.late >= TICK * 15,
        "{stall:?}"
    );
}
