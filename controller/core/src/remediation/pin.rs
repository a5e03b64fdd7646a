//! What is known of a pinned operation, and what follows for the agent that serves the rack (F6, F12).
//!
//! An operation is pinned in the state, with the agent and its journal, before it is begun there. "Unknown operation"
//! means "never begun" only if that journal answers so. From another journal it proves nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{AgentId, AgentPin, PinnedOperation};

/// How long a request to begin an operation may be on its way. A later one begins nothing, so that no operation goes on
/// after the time that its pin says.
pub const BEGIN_WITHIN: Duration = Duration::from_secs(15);

/// Time for the last call of an operation to the BMC.
const LAST_CALL: Duration = Duration::from_secs(5);

/// What is observed of a pinned operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinView<'a> {
    /// The agent that serves the rack.
    pub here: &'a AgentId,
    /// Id of the operation of the present step.
    pub operation: Option<&'a str>,
    /// Whether an agent has reported that operation.
    pub is_reported: bool,
    /// The agent that does not know that operation, by an answer that [`proves_absence`].
    pub unknown_to: Option<&'a AgentId>,
    /// The state of the pinned operation, by its agent.
    pub pinned: PinnedOperation,
    /// Now, on the clock of the pin.
    pub now: Timestamp,
}

/// Whether the answer of an agent that it does not know an operation means that it does not begin it later either,
/// unless the controller that leads tells it to. An agent that neither serves the rack nor stands by may still take a
/// call that is on its way.
pub fn proves_absence(serves: bool, stands_by: bool) -> bool {
    serves || stands_by
}

// === impl PinnedOperation ===

impl PinnedOperation {
    /// The state of an operation by the record of an agent that does not serve the rack. `is_over`: whether the record
    /// has an outcome; `None`: there is no record.
    pub fn recorded(is_over: Option<bool>, stands_by: bool) -> Self {
        match is_over {
            Some(false) => Self::Running,
            None if !proves_absence(false, stands_by) => Self::Unknown,
            Some(true) | None => Self::Ended,
        }
    }
}

// === impl AgentPin ===

impl AgentPin {
    /// Until when another agent than the one that serves the rack may still carry out the operation (F6); `None`: none
    /// may.
    pub fn busy_elsewhere(&self, seen: &PinView<'_>) -> Option<Timestamp> {
        let until = self.until.filter(|until| *until > seen.now)?;
        if seen.pinned == PinnedOperation::Ended {
            return None;
        }
        if seen.here.agent == self.agent.agent {
            // One RackAgent is one process: if it has another journal, the earlier process has ended.
            return None;
        }
        let was_never_begun =
            self.is_unreported(seen) && seen.unknown_to.is_some_and(|by| self.agent.is_same(by));
        (!was_never_begun).then_some(until)
    }

    /// Whether it is unknown what became of the operation of the present step: the agent that answered does not know
    /// it, but it was to be begun at another agent or in another journal.
    pub fn is_lost(&self, seen: &PinView<'_>) -> bool {
        self.is_unreported(seen) && seen.unknown_to.is_some_and(|by| !self.agent.is_same(by))
    }

    /// Whether it is the operation of the present step, and no agent has reported it.
    fn is_unreported(&self, seen: &PinView<'_>) -> bool {
        seen.operation == Some(self.operation.as_str()) && !seen.is_reported
    }

    /// Whether it pins this operation at this agent.
    pub fn is_of(&self, here: &AgentId, operation: &str) -> bool {
        self.operation == operation && self.agent == *here
    }

    /// How long what begins the operation may be on its way if it is sent now, so that the operation, which lasts for
    /// `limit` at most, ends within its pin (F6). Zero: it may not be sent.
    pub fn begin_within(&self, limit: Duration, now: Timestamp) -> Duration {
        let spare = self.spare(limit, now).map(Duration::try_from);
        let spare = spare.and_then(Result::ok).unwrap_or_default();
        spare.min(BEGIN_WITHIN)
    }

    /// By how much the pin is too short for an operation that is sent to its agent now.
    pub fn lacks(&self, limit: Duration, now: Timestamp) -> Duration {
        let within = SignedDuration::try_from(BEGIN_WITHIN).unwrap_or_default();
        let spare = self.spare(limit, now);
        let lacks = spare.map(|spare| Duration::try_from(within.saturating_sub(spare)));
        lacks.and_then(Result::ok).unwrap_or_default()
    }

    /// The time of the pin that an operation which begins now leaves.
    fn spare(&self, limit: Duration, now: Timestamp) -> Option<SignedDuration> {
        let longest = SignedDuration::try_from(limit.saturating_add(LAST_CALL)).ok()?;
        Some(self.until?.duration_since(now).saturating_sub(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_operation_ends_within_its_pin_however_late_it_is_sent() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (limit, pinned) = (Duration::from_secs(30), Duration::from_secs(90));
        let pin = AgentPin {
            agent: AgentId {
                agent: "a".into(),
                journal: "j".into(),
            },
            operation: "o".into(),
            until: now.checked_add(pinned).ok(),
        };
        for late in 0..200 {
            let sent = Duration::from_secs(late);
            let within = pin.begin_within(limit, now.checked_add(sent).unwrap());
            assert!(within <= BEGIN_WITHIN);
            let end = sent + within + limit + LAST_CALL;
            assert!(within.is_zero() || end <= pinned, "{late}: {within:?}");
            assert_eq!(within < BEGIN_WITHIN, late > 40, "{late}: {within:?}");
            let lacks = pin.lacks(limit, now.checked_add(sent).unwrap());
            assert_eq!(lacks, Duration::from_secs(late.saturating_sub(40)));
        }
        let over = AgentPin { until: None, ..pin };
        assert_eq!(over.begin_within(limit, now), Duration::ZERO);
        assert_eq!(over.lacks(limit, now), Duration::ZERO);
    }

    #[test]
    fn f6_missing_operation_counts_as_ended_only_at_standby_agent() {
        for stands_by in [true, false] {
            let running = PinnedOperation::recorded(Some(false), stands_by);
            assert_eq!(running, PinnedOperation::Running);
            let over = PinnedOperation::recorded(Some(true), stands_by);
            assert_eq!(over, PinnedOperation::Ended);
        }
        let of = |stands_by| PinnedOperation::recorded(None, stands_by);
        assert_eq!(of(false), PinnedOperation::Unknown);
        assert_eq!(of(true), PinnedOperation::Ended);
    }
}
