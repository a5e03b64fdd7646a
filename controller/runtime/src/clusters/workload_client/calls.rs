//! The limit of concurrent calls to one cluster, and how quickly its API answers.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use rackhand_core::limits::beginnings::ApiLoad;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::store::{api::ApiError, clock};

/// Maximum number of concurrent calls of observations to one cluster.
pub(super) const MAX_CALLS: usize = 48;

/// The calls to one cluster.
pub(super) struct Calls {
    permits: Semaphore,
    /// Consecutive calls without a response.
    unanswered: AtomicUsize,
    pub(super) load: Mutex<ApiLoad>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(MAX_CALLS),
            unanswered: AtomicUsize::new(0),
            load: Mutex::default(),
        }
    }
}

impl Calls {
    /// Waits for a permit, which is returned when the result is dropped.
    ///
    /// # Errors
    /// The API did not answer the previous calls; waiting would take as long as all of them
    /// together.
    pub(super) async fn acquire(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|e| ApiError::other("turn", e))?;
        match self.unanswered.load(Ordering::Relaxed) {
            0..MAX_CALLS => Ok(permit),
            calls => Err(ApiError::other(
                "its API",
                format!("the last {calls} calls were not answered"),
            )),
        }
    }

    pub(super) fn record_answer<T>(&self, result: &Result<T, ApiError>) {
        match result {
            Err(error) if !error.is_answer() => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.unanswered.store(0, Ordering::Relaxed),
        }
    }

    /// Records how long a reading of a Node took, the call that every remediation makes.
    pub(super) fn record_load<T>(&self, result: &Result<T, ApiError>, took: Duration) {
        let (mut load, now) = (self.load.lock(), clock::monotonic_now());
        match result {
            Err(error) if error.put_off().is_some() => load.refused(now),
            _ => load.answered(took, now),
        }
    }
}
