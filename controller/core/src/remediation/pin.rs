//! What is known of a pinned operation, and what follows for the agent that serves the rack (F6, F12).
//!
//! An operation is pinned in the state, with the agent and its journal, before it is begun there. "Unknown operation"
//! means "never begun" only if that journal answers so. From another journal it proves nothing.

use jiff::Timestamp;

use super::{AgentId, AgentPin, PinnedOperation};

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

    /// Whether this operation may be begun at the agent that serves the rack, and command the BMC until then.
    pub fn allows(&self, here: &AgentId, operation: &str, until: Timestamp) -> bool {
        self.operation == operation
            && self.agent == *here
            && self.until.is_some_and(|pinned| pinned >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
