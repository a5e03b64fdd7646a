//! Tasks; one that panics is reported like one that fails.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// Tasks that come to `T`.
pub(super) struct Tasks<T> {
    running: JoinSet<T>,
    /// What each comes to if it panics.
    panicked: HashMap<Id, T>,
}

impl<T: 'static> Default for Tasks<T> {
    fn default() -> Self {
        Self {
            running: JoinSet::new(),
            panicked: HashMap::new(),
        }
    }
}

// === impl Tasks ===

impl<T: Send + 'static> Tasks<T> {
    /// Begins a task. `panicked`: what it comes to if it panics.
    pub(super) fn spawn(&mut self, panicked: T, task: impl Future<Output = T> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.panicked.insert(id, panicked);
    }

    /// What the next one that ends comes to. `None`: none runs.
    pub(super) async fn join_next(&mut self) -> Option<T> {
        loop {
            match self.running.join_next_with_id().await? {
                Ok((id, done)) => {
                    self.panicked.remove(&id);
                    return Some(done);
                }
                Err(error) => {
                    tracing::error!(%error, "a task of the health checks panicked");
                    if let Some(done) = self.panicked.remove(&error.id()) {
                        return Some(done);
                    }
                }
            }
        }
    }

    /// Waits until all of them have ended.
    pub(super) async fn end(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}
