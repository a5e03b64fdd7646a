//! A set of tasks in which a panic is reported as a failure.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// Tasks with result `T`.
pub(super) struct Tasks<T> {
    running: JoinSet<T>,
    /// The result of each task if it panics.
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
    /// Starts a task. `panicked` is its result if it panics.
    pub(super) fn spawn(&mut self, panicked: T, task: impl Future<Output = T> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.panicked.insert(id, panicked);
    }

    /// The result of the next task that ends; `None` if none runs.
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

    /// Waits until all tasks have ended.
    pub(super) async fn end(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}
