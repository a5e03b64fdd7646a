//! The tasks of the agent, and the signals that end them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, warn};

/// The tasks of the agent. Clones share them; the tasks end with the last clone, so a task without an end of its own
/// must not hold one.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    /// Cancelled when no new operation may begin.
    closing: CancellationToken,
    /// Cancelled when running operations must end.
    stop: CancellationToken,
    running: Arc<Mutex<JoinSet<()>>>,
}

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock();
        while let Some(ended) = running.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                warn!(%error, "a task of the agent panicked");
            }
        }
        // The lines of an operation carry the trace of the call that began it.
        running.spawn(task.in_current_span());
    }

    /// Cancelled when no new operation may begin.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Accepts nothing new from now on.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Cancelled when running operations must end.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Ends running operations, and waits for all tasks. A command in flight is awaited; it has its own time limit.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        loop {
            let mut running = std::mem::take(&mut *self.running.lock());
            if running.is_empty() {
                break;
            }
            while running.join_next().await.is_some() {}
        }
    }

    /// Ends every task at once.
    pub(super) async fn abort(&self) {
        let mut running = std::mem::take(&mut *self.running.lock());
        running.shutdown().await;
    }
}
