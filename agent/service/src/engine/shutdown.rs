//! Shutdown of the agent.

use std::time::Duration;

use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::Engine;

impl Engine {
    /// Completes when the agent is stopping.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Accepts nothing new, waits for running operations for the grace period, and ends the rest as
    /// interrupted.
    pub(crate) async fn shutdown(&self, grace: Duration) {
        self.closing.cancel();
        let running = self.running();
        if !running.is_empty() {
            info!(
                operations = running.len(),
                ?grace,
                "waiting for running operations"
            );
        }
        let ends = running.into_iter().map(|handle| async move {
            handle.follow().for_each(async |_| {}).await;
        });
        tokio::time::timeout(grace, futures::future::join_all(ends))
            .await
            .ok();
        self.shared.stop.cancel();
        // A command in flight is awaited; it has its own time limit.
        loop {
            let mut tasks = std::mem::take(&mut *self.tasks.lock());
            if tasks.is_empty() {
                break;
            }
            while tasks.join_next().await.is_some() {}
        }
        self.shared.clients.sweep(true).await;
        self.shared.pdus.sweep(true).await;
        self.close_journal().await;
    }

    /// Closes the journal, because connections may outlive the agent for a moment.
    async fn close_journal(&self) {
        let journal = self.shared.journal.clone();
        crate::blocking::run(move || journal.close()).await.ok();
    }

    /// Ends everything at once, like a crash.
    pub(crate) async fn abort(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        self.close_journal().await;
    }
}
