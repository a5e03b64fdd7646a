//! How far the remediation of a maintenance is, and the phase that people see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::remediation::{Reason, State, Step};

/// The phase of a maintenance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "", rename = "MaintenancePhase")]
pub enum MaintenancePhase {
    /// Nothing has begun: a policy, another remediation or another check is waited for.
    #[default]
    Pending,
    /// The Node is cordoned, and its pods leave.
    Evicting,
    /// The host is switched off, and what is left on its Node moves.
    PoweringOff,
    /// The host is ready to be worked on.
    Parked,
    /// The host comes back, and what was set is taken back.
    Ending,
    /// Nothing of the maintenance is left.
    Ended,
    /// The maintenance could not be carried out. Nothing of it is left.
    Failed,
}

impl MaintenancePhase {
    /// Whether health checks leave the host alone: from the first change of the Node until nothing is left.
    pub fn spares_host(self) -> bool {
        matches!(
            self,
            Self::Evicting | Self::PoweringOff | Self::Parked | Self::Ending
        )
    }

    /// Whether the maintenance is over and nothing of it is left.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Failed)
    }
}

/// How far the remediation of a maintenance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Nothing is recorded of it: it is new, or its record is lost.
    Unrecorded,
    /// It waits to begin, for the first time or again. Nothing of it is left on the Node or the host.
    Waiting,
    /// It could begin, and waits for the marks of the maintenance.
    Ready,
    /// The Node is cordoned, and its pods leave.
    Evicting,
    /// It switches the host off, or moves what is left.
    Working,
    /// The host is ready to be worked on: it is confirmed off, and kept off.
    Parked,
    /// The host is ready to be worked on: its Node is cordoned, and nothing was switched.
    Emptied,
    /// The host is being brought back.
    Returning,
    /// It has ended because the Node came back before anything was switched.
    Recovered,
    /// It has ended without success.
    Failed,
}

/// The stage of a remediation by its recorded state, `None` if it has none yet, and by the reason that it shows.
pub fn stage(state: Option<&State>, reason: &str) -> Stage {
    let waits_for_marks = Reason::of_marks().contains(&reason);
    let Some(state) = state else {
        return match waits_for_marks {
            true => Stage::Ready,
            false => Stage::Unrecorded,
        };
    };
    // After an attempt the host is on, and what was set on it and on its Node is removed, unless it is to be kept off.
    let waits = match state.step {
        Step::Pending => true,
        Step::Retrying => state.keep_off.is_none() && !state.outlets_may_be_off(),
        _ => false,
    };
    match state.step {
        _ if waits && waits_for_marks => Stage::Ready,
        _ if waits => Stage::Waiting,
        Step::Evicting => Stage::Evicting,
        Step::Pending
        | Step::Holding
        | Step::ShuttingDown
        | Step::PoweringOff
        | Step::AwaitingConfirmation
        | Step::ConfirmingOff
        | Step::Tainting
        | Step::Draining
        | Step::Retrying => Stage::Working,
        Step::Evicted => Stage::Emptied,
        // The strategy Evict gets there as well, if the host fails.
        Step::Fenced => Stage::Parked,
        Step::PoweringOn | Step::Booting | Step::Restoring | Step::Aborting => Stage::Returning,
        Step::Succeeded => Stage::Recovered,
        Step::Escalated | Step::Blocked => Stage::Failed,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn remediation_whose_record_is_lost_is_not_taken_for_one_that_waits_again() {
        let mut state = State::new(Timestamp::UNIX_EPOCH);
        assert_eq!(stage(Some(&state), "HeldByPolicy"), Stage::Waiting);
        for reason in Reason::of_marks() {
            assert_eq!(stage(Some(&state), reason), Stage::Ready, "{reason}");
        }
        assert_eq!(stage(None, "Started"), Stage::Unrecorded);
        assert_eq!(stage(None, "StateLost"), Stage::Unrecorded);
        state.step = Step::Evicting;
        assert_eq!(stage(Some(&state), "WaitingForMarks"), Stage::Evicting);
    }

    #[test]
    fn further_attempt_that_waits_is_not_shown_as_a_power_off() {
        let mut state = State::new(Timestamp::UNIX_EPOCH);
        state.step = Step::Retrying;
        assert_eq!(stage(Some(&state), "HeldByPolicy"), Stage::Waiting);
        for reason in Reason::of_marks() {
            assert_eq!(stage(Some(&state), reason), Stage::Ready, "{reason}");
        }
        state.keep_off = Some(Reason::ExhaustedKeptOff(2));
        assert_eq!(stage(Some(&state), "HeldByPolicy"), Stage::Working);
    }
}
