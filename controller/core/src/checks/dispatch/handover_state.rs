//! The live reads after which the unhealthy members of a check are handed over (F13).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::checks::handover::{Handover, Step};

/// The members of one check that wait to be handed over, and the live read on which they wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HandoverState {
    handover: Handover,
    /// Number of the latest read of this check.
    read: u64,
}

impl HandoverState {
    /// Registers a member that is due. Returns whether it may be handed over now; otherwise it waits
    /// for the read of its batch.
    pub fn request(&mut self, member: &Arc<str>, now: Duration) -> bool {
        self.handover.request(member, now)
    }

    /// Removes a member that is no longer due.
    pub fn withdraw(&mut self, member: &str) {
        self.handover.withdraw(member);
    }

    /// Decides what to do now. `reads`: the number of the last read of any check; a new read increments
    /// it.
    pub fn step(&mut self, settles: bool, now: Duration, reads: &mut u64) -> Step {
        let step = self.handover.step(settles, now);
        if step == Step::Read {
            *reads += 1;
            self.read = *reads;
        }
        step
    }

    /// Ends a read. Returns the members that are cleared now; `None`: `read` is not the latest read of
    /// this check, so its result is ignored.
    pub fn finish(
        &mut self,
        read: u64,
        result: Result<(), String>,
        now: Duration,
    ) -> Option<BTreeSet<Arc<str>>> {
        (self.read == read).then(|| self.handover.finish_read(result, now))
    }

    /// Why due members are not handed over, if the last live read failed.
    pub fn failure(&self) -> Option<&str> {
        self.handover.failure()
    }

    /// Replaces every stored time and the number of the read, for a model checker that shifts time.
    #[must_use]
    pub fn map(self, time: impl Fn(Duration) -> Duration, read: impl Fn(u64) -> u64) -> Self {
        Self {
            handover: self.handover.map_times(time),
            read: read(self.read),
        }
    }
}
