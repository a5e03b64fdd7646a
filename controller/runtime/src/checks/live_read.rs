//! The live reads after which the unhealthy members of a check are handed over (F13).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rackhand_core::handover::{Handover, Step};

use crate::clusters::sync::SyncError;

/// The members of one check that wait to be handed over, and the read that they wait for.
#[derive(Default)]
pub(super) struct HandoverState {
    handover: Handover,
    /// The number of the read that is under way.
    read: u64,
}

// === impl HandoverState ===

impl HandoverState {
    /// Whether a member may be handed over now. Otherwise it waits for the read of its batch.
    pub(super) fn request(&mut self, member: &Arc<str>, now: Duration) -> bool {
        self.handover.request(member, now)
    }

    /// A member is not due any more.
    pub(super) fn withdraw(&mut self, member: &str) {
        self.handover.withdraw(member);
    }

    /// What to do now. `reads`: the number of the last read, which is counted on with a new one.
    pub(super) fn step(&mut self, settles: bool, now: Duration, reads: &mut u64) -> Step {
        let step = self.handover.step(settles, now);
        if step == Step::Read {
            *reads += 1;
            self.read = *reads;
        }
        step
    }

    /// A read is over. Returns the members that are cleared now; `None`: it was an earlier read of a
    /// check that was read anew since, which proves nothing.
    pub(super) fn finish(
        &mut self,
        check: &str,
        read: u64,
        result: Result<(), SyncError>,
        now: Duration,
    ) -> Option<BTreeSet<Arc<str>>> {
        if self.read != read {
            return None;
        }
        let result = result.map_err(|error| error.to_string());
        if let Err(error) = &result
            && self.failure() != Some(error.as_str())
        {
            tracing::warn!(
                check,
                error,
                "cannot read the fleet live; unhealthy members are not handed over; trying again"
            );
        }
        Some(self.handover.finish_read(result, now))
    }

    /// Why members that are due are not handed over.
    pub(super) fn failure(&self) -> Option<&str> {
        self.handover.failure()
    }
}
