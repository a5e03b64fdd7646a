//! What a remediation counts against in the budgets and limits of policies, by its state.

use super::PastAttempt;
use crate::{
    fleet::placement::CountedFacts,
    remediation::{Progress, State, Step},
};

/// What a remediation counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting<'a> {
    /// Nothing: its host is kept off after its workload has moved, and would fill a budget for as long as it stays off.
    Nothing,
    /// The policies that select its host, where it is now.
    Now,
    /// Also what was recorded when an attempt began. The labels of a Node that is gone or cannot be read are those of
    /// that time.
    SinceBeginning(&'a CountedFacts),
}

impl<'a> Counting<'a> {
    /// Of a remediation with this state. `node_is_read`: its Node was read for this observation.
    #[must_use]
    pub fn of(state: Option<&'a State>, node_is_read: bool) -> Self {
        let Some(state) = state else {
            return Self::Now;
        };
        if state.step == Step::Fenced {
            return Self::Nothing;
        }
        let begun = Progress::of(Some(state)) == Progress::Begun;
        match state.counted.as_deref() {
            Some(counted) if begun || !node_is_read => Self::SinceBeginning(counted),
            _ => Self::Now,
        }
    }
}

impl PastAttempt {
    /// The finished attempts of a remediation that switched its host off.
    pub fn of_state(state: &State) -> impl Iterator<Item = Self> {
        let switched_off = state.attempts.iter().filter(|a| a.off.is_some());
        switched_off.map(|attempt| Self {
            begun: attempt.started,
            ended: attempt.ended,
            succeeded: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn state(step: Step) -> State {
        let mut state = State::new(Timestamp::UNIX_EPOCH);
        state.step = step;
        state.counted = Some(Box::default());
        state
    }

    #[test]
    fn host_that_is_kept_off_fills_no_budget() {
        assert_eq!(
            Counting::of(Some(&state(Step::Fenced)), true),
            Counting::Nothing
        );
    }

    #[test]
    fn beginning_counts_while_an_attempt_runs_and_where_the_node_is_not_read() {
        let recorded = CountedFacts::default();
        let since = Counting::SinceBeginning(&recorded);
        for (step, node_is_read, expected) in [
            (Step::Draining, true, since),
            (Step::Draining, false, since),
            (Step::Retrying, false, since),
            (Step::Retrying, true, Counting::Now),
        ] {
            let state = state(step);
            assert_eq!(
                Counting::of(Some(&state), node_is_read),
                expected,
                "{step:?}"
            );
        }
        let first = State::new(Timestamp::UNIX_EPOCH);
        assert_eq!(Counting::of(Some(&first), false), Counting::Now);
        assert_eq!(Counting::of(None, false), Counting::Now);
    }
}
