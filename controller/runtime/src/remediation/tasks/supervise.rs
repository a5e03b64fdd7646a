//! Restarts the task of a remediation after a panic.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::{remediation::metrics::RemediationMetrics, store::watch::pause};

/// Pause before a task that panicked is restarted: first and longest.
const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs a task until it ends or `stop`. A panic is counted, and the task is restarted: everything
/// that it needs is in the cluster, as after a crash of the process. Other tasks are not affected.
pub(super) async fn supervise<F: Future<Output = ()>>(
    what: &str,
    metrics: &RemediationMetrics,
    stop: &CancellationToken,
    task: impl Fn() -> F,
) {
    let mut wait = RESTART.0;
    // State that the task shares with others is behind locks that a panic does not poison.
    while AssertUnwindSafe(task()).catch_unwind().await.is_err() {
        metrics.count_panic();
        tracing::error!(
            remediation = what,
            "the task of this remediation panicked; starting it again in {wait:?}. Please report \
             the panic that is printed above"
        );
        if pause(stop, wait).await {
            return;
        }
        wait = wait.saturating_mul(2).min(RESTART.1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::store::metrics::render;

    fn counted(registry: &Registry) -> String {
        let text = render(registry);
        let line = text
            .lines()
            .find(|line| line.contains("remediation_panics_total "));
        line.unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn panicked_remediation_task_is_restarted_and_counted() {
        let (mut registry, stop) = (Registry::default(), CancellationToken::new());
        let metrics = RemediationMetrics::register(&mut registry);
        let (runs, begun) = (AtomicU32::new(0), tokio::time::Instant::now());
        let task = || async {
            tokio::task::yield_now().await;
            assert!(runs.fetch_add(1, Ordering::Relaxed) == 2, "a bug");
        };
        supervise("m1", &metrics, &stop, task).await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        assert!(counted(&registry).ends_with(" 2"), "{}", counted(&registry));
        // A restart loop must not starve the process.
        assert_eq!(begun.elapsed(), RESTART.0 * 3);
    }

    #[tokio::test]
    async fn panicked_task_is_not_restarted_after_stop() {
        let (mut registry, stop) = (Registry::default(), CancellationToken::new());
        let metrics = RemediationMetrics::register(&mut registry);
        stop.cancel();
        let task = || async { panic!("a bug") };
        supervise("m1", &metrics, &stop, task).await;
        assert!(counted(&registry).ends_with(" 1"));
    }
}
