//! Requests that wait for readings: those that are served, and those that came meanwhile.
//!
//! Must never: let a later request put off an earlier one.

use std::time::Duration;

use super::READINGS;

/// Requests that are served together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    /// The latest of them: readings that began before do not count.
    at: Duration,
    /// Readings that it still needs.
    left: u8,
}

impl Batch {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            at: now,
            left: READINGS,
        }
    }

    /// Counts a reading.
    pub(super) fn read(&mut self, began: Duration) {
        if began >= self.at {
            self.left = self.left.saturating_sub(1);
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }
}

/// The batch that is served, and the one after it. The former takes up no request any more, so that it ends after
/// [`READINGS`] readings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Batches {
    served: Option<Batch>,
    next: Option<Batch>,
}

impl Batches {
    /// Adds a request.
    pub(super) fn request(&mut self, now: Duration) {
        let place = match &self.served {
            None => &mut self.served,
            Some(_) => &mut self.next,
        };
        *place = Some(Batch::new(now));
    }

    /// Whether a request waits.
    pub(super) fn are_open(&self) -> bool {
        self.served.is_some()
    }

    /// Whether the batch that is served has no reading yet.
    pub(super) fn is_unread(&self) -> bool {
        self.served
            .as_ref()
            .is_some_and(|batch| batch.left == READINGS)
    }

    /// Counts a reading that began at `began`. Returns whether it completes the batch that is served.
    pub(super) fn read(&mut self, began: Duration) -> bool {
        for batch in [&mut self.served, &mut self.next].into_iter().flatten() {
            batch.read(began);
        }
        let is_served = self.served.take_if(|batch| batch.is_complete()).is_some();
        if is_served {
            self.served = self.next.take_if(|batch| !batch.is_complete());
            self.next = None;
        }
        is_served
    }
}
