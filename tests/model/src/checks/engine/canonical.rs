//! Time, and the form in which states are compared.

use std::time::Duration;

use super::{Engine, Task};

impl Engine {
    /// When there is something to do although nothing happens.
    pub fn next_due(&self) -> Option<Duration> {
        let examine = self.examine_at.first().map(|(at, _, _)| *at);
        let all = [self.queue.next_retry(), self.settled_at, examine];
        all.into_iter().flatten().min()
    }

    /// Lets time pass, and numbers the live reads anew.
    #[must_use]
    pub fn shifted(mut self, passed: Duration) -> Self {
        let shift = |t: Duration| t.saturating_sub(passed);
        self.queue = self.queue.map_times(shift);
        self.examine_at = self
            .examine_at
            .into_iter()
            .map(|(at, name, uid)| (shift(at), name, uid))
            .collect();
        self.settled_at = self.settled_at.map(shift);
        for since in self.due_since.values_mut() {
            *since = shift(*since);
        }
        for state in self.checks.values_mut() {
            let handover = std::mem::take(&mut state.handover);
            state.handover = handover.map(shift, |read| read);
        }
        self
    }

    /// The same without what cannot matter any more.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        let reading: Vec<u64> = self
            .tasks
            .iter()
            .filter_map(|task| match task {
                Task::Read(_, read, _) => Some(*read),
                _ => None,
            })
            .collect();
        if reading.is_empty() && self.reads == 0 {
            return self;
        }
        let rank = |read: u64| {
            let place = reading.iter().position(|known| *known == read);
            place.map_or(0, |place| place as u64 + 1)
        };
        for state in self.checks.values_mut() {
            let handover = std::mem::take(&mut state.handover);
            state.handover = handover.map(|t| t, rank);
        }
        for task in &mut self.tasks {
            if let Task::Read(_, read, _) = task {
                *read = rank(*read);
            }
        }
        self.reads = reading.len() as u64;
        self
    }
}
