//! Shutdown of the agent.

use std::time::Duration;

use futures::StreamExt;
use tracing::info;

use super::Engine;

impl Engine {
    /// Accepts nothing new, waits for running operations for the grace period, and ends the rest as
    /// interrupted.
    pub(crate) async fn shutdown(&self, grace: Duration) {
        self.tasks.close();
        let running = self.operations.running();
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
        self.tasks.stop().await;
        self.clients.sweep(true).await;
        self.pdus.sweep(true).await;
        self.close_journal().await;
    }

    /// Closes the journal, because connections may outlive the agent for a moment.
    async fn close_journal(&self) {
        let journal = self.journal.clone();
        crate::blocking::run(move || journal.close()).await.ok();
    }

    /// Ends everything at once, like a crash.
    pub(crate) async fn abort(&self) {
        self.tasks.abort().await;
        self.close_journal().await;
    }
}
