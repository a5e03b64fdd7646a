//! The times of a state as people read them.

use jiff::{SignedDuration, Timestamp};

use super::State;
use crate::{remediation::OffEvidence, values::time::whole_second};

/// A time of the clock of the decisions, moved to the wall clock, which is `ahead` of it, in whole seconds.
pub fn on_wall(at: Timestamp, ahead: SignedDuration) -> Timestamp {
    whole_second(at.checked_add(ahead).unwrap_or(at))
}

impl State {
    /// A copy to be displayed, whose times are of the wall clock, which is `ahead` of the clock of the decisions.
    /// It is never stored and nothing is decided with it, because ages are differences on one clock. Readings and
    /// records of the event log keep the times of the agent and of the BMC.
    #[must_use]
    pub fn on_wall(&self, ahead: SignedDuration) -> Self {
        let mut shown = self.clone();
        let moved = |at: &mut Timestamp| *at = on_wall(*at, ahead);
        let attempt = &mut shown.attempt;
        [&mut shown.since, &mut attempt.started]
            .into_iter()
            .chain(&mut attempt.drained)
            .chain(&mut attempt.on)
            .chain(attempt.off.as_mut().map(OffEvidence::at_mut))
            .chain(attempt.evidence.as_mut().map(|evidence| &mut evidence.at))
            .for_each(moved);
        if let Some(eviction) = &mut attempt.eviction {
            moved(&mut eviction.until);
            moved(&mut eviction.moved);
        }
        if let Some(watch) = &mut attempt.update {
            moved(&mut watch.first_seen);
            moved(&mut watch.last_moved);
        }
        for record in &mut shown.attempts {
            [&mut record.started, &mut record.ended]
                .into_iter()
                .chain(&mut record.off)
                .chain(&mut record.drained)
                .chain(&mut record.on)
                .for_each(moved);
        }
        shown
    }
}
