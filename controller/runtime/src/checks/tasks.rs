//! Tasks, and what each is for: one that panics is told of like one that fails.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// Tasks for pieces of work `W` that come to `T`.
pub(super) struct Tasks<W, T> {
    running: JoinSet<T>,
    work: HashMap<Id, W>,
}

impl<W, T> Default for Tasks<W, T>
where
    T: 'static,
{
    fn default() -> Self {
        Self {
            running: JoinSet::new(),
            work: HashMap::new(),
        }
    }
}

// === impl Tasks ===

impl<W, T: Send + 'static> Tasks<W, T> {
    pub(super) fn spawn(&mut self, work: W, task: impl Future<Output = T> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.work.insert(id, work);
    }

    /// The next one that ends: its result, or what it was for if it panicked. `None`: none runs.
    pub(super) async fn join_next(&mut self) -> Option<Result<T, W>> {
        loop {
            match self.running.join_next_with_id().await? {
                Ok((id, done)) => {
                    self.work.remove(&id);
                    return Some(Ok(done));
                }
                Err(error) => {
                    tracing::error!(%error, "a task of the health checks panicked");
                    if let Some(work) = self.work.remove(&error.id()) {
                        return Some(Err(work));
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
