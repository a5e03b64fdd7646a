//! Time, and the form in which states are compared.

use std::time::Duration;

use rackhand_core::checks::dispatch::renumbered;

use super::{Engine, Task};

impl Engine {
    /// When there is something to do although nothing happens.
    pub fn next_due(&self) -> Option<Duration> {
        let all = [self.members.next_due(), self.withdrawals.next_due()];
        all.into_iter().flatten().min()
    }

    /// Lets time pass.
    #[must_use]
    pub fn shifted(mut self, passed: Duration) -> Self {
        let shift = |t: Duration| t.saturating_sub(passed);
        self.members = self.members.map_times(shift);
        self.withdrawals = self.withdrawals.map_times(shift);
        for since in self.due_since.values_mut() {
            *since = shift(*since);
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
                Task::Read(read, _) => Some(read.number),
                _ => None,
            })
            .collect();
        self.members.renumber_reads(&reading);
        for task in &mut self.tasks {
            if let Task::Read(read, _) = task {
                read.number = renumbered(read.number, &reading);
            }
        }
        self
    }
}
