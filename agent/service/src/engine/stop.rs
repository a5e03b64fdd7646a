//! The end of the agent.

use std::time::Duration;

use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::Engine;

impl Engine {
    /// Ends when the agent is stopping.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Takes nothing new, gives running operations the grace, and ends what is left as
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
        // A command that is under way is waited for; it has its own limit of time.
        loop {
            let mut tasks = std::mem::take(&mut *self.tasks.lock());
            if tasks.is_empty() {
                break;
            }
            while tasks.join_next().await.is_some() {}
        }
        self.shared.clients.sweep(true).await;
        self.close_journal().await;
    }

    /// Connections may outlive the agent for a moment; its journal must not.
    async fn close_journal(&self) {
        let journal = self.shared.journal.clone();
        tokio::task::spawn_blocking(move || journal.close())
            .await
            .ok();
    }

    /// Ends everything at once, as a crash would.
    pub(crate) async fn abort(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        self.close_journal().await;
    }
}
