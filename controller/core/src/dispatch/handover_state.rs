//! The live reads after which the unhealthy members of a check are handed over (F13).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::handover::{Handover, Step};

/// The members of one check that wait to be handed over, and the read that they wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HandoverState {
    handover: Handover,
    /// The number of the read that is under way.
    read: u64,
}

impl HandoverState {
    /// Whether a member may be handed over now. Otherwise it waits for the read of its batch.
    pub fn request(&mut self, member: &Arc<str>, now: Duration) -> bool {
        self.handover.request(member, now)
    }

    /// A member is not due any more.
    pub fn withdraw(&mut self, member: &str) {
        self.handover.withdraw(member);
    }

    /// What to do now. `reads`: the number of the last read, which is counted on with a new one.
    pub fn step(&mut self, settles: bool, now: Duration, reads: &mut u64) -> Step {
        let step = self.handover.step(settles, now);
        if step == Step::Read {
            *reads += 1;
            self.read = *reads;
        }
        step
    }

    /// A read is over. Returns the members that are cleared now; `None`: it was an earlier read of a
    /// check that was read anew since, which proves nothing.
    pub fn finish(
        &mut self,
        read: u64,
        result: Result<(), String>,
        now: Duration,
    ) -> Option<BTreeSet<Arc<str>>> {
        (self.read == read).then(|| self.handover.finish_read(result, now))
    }

    /// Why members that are due are not handed over.
    pub fn failure(&self) -> Option<&str> {
        self.handover.failure()
    }

    /// Replaces every time, and the number of the read, as where time is shifted.
    #[must_use]
    pub fn map(self, time: impl Fn(Duration) -> Duration, read: impl Fn(u64) -> u64) -> Self {
        Self {
            handover: self.handover.map_times(time),
            read: read(self.read),
        }
    }
}
