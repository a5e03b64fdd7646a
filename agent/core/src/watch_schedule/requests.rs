//! The requests of one caller to read a host at once, and when they are answered.

use std::time::Duration;

use super::batches::Batch;

/// What is read after the power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Extras {
    /// The event log, for stops of the operating system.
    pub stops: bool,
    /// The health of the hardware.
    pub health: bool,
}

impl Extras {
    /// What either needs.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            stops: self.stops || other.stops,
            health: self.health || other.health,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Request {
    /// The highest number of the requests that it answers.
    number: u64,
    batch: Batch,
    extras: Extras,
}

/// The requests of one caller for one host.
///
/// One is served, and all that come meanwhile are served together after it: a caller that requests a reading each
/// second is answered all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ReadRequests {
    served: Option<Request>,
    next: Option<Request>,
    answered: u64,
}

impl ReadRequests {
    /// Adds a request at `now`. Its readings begin after that.
    pub fn request(&mut self, now: Duration, number: u64, extras: Extras) {
        let place = match &self.served {
            None => &mut self.served,
            Some(_) => &mut self.next,
        };
        let before = place.take();
        let (number, extras) = before.map_or((number, extras), |before| {
            (number.max(before.number), extras.or(before.extras))
        });
        *place = Some(Request {
            number,
            batch: Batch::new(now),
            extras,
        });
    }

    /// Counts a reading that began at `began`. Returns what is to be read besides, before
    /// [`complete`](Self::complete).
    pub fn read(&mut self, began: Duration) -> Extras {
        let mut extras = Extras::default();
        for request in [&mut self.served, &mut self.next].into_iter().flatten() {
            request.batch.read(began);
            if request.batch.is_complete() {
                extras = extras.or(request.extras);
            }
        }
        extras
    }

    /// Answers the requests that have all their readings. Returns whether there are any.
    pub fn complete(&mut self) -> bool {
        let is_complete = |request: &mut Request| request.batch.is_complete();
        let mut is_any = false;
        while let Some(request) = self.served.take_if(is_complete) {
            self.answered = self.answered.max(request.number);
            self.served = self.next.take();
            is_any = true;
        }
        is_any
    }

    /// The highest number that is answered; 0: none.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered
    }
}
