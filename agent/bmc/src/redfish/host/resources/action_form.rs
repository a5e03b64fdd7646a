//! What a BMC has shown that an action needs to be taken.
//!
//! Pure; times are of one clock of the caller. An action is sent once in a call. What the next one needs is remembered
//! here, and whoever wants the action asks again, after a look at what may have changed meanwhile.

use std::time::Duration;

use reqwest::StatusCode;

/// For how long a second denial counts as one that lasts.
const MOMENT: Duration = Duration::from_secs(60);

/// Why an action was not taken, although the next one may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotYet {
    /// It needs a precondition (RFC 9110, 13.2.1; RFC 6585, 3).
    NeedsCondition,
    /// It had a precondition, which the BMC refuses.
    RefusesCondition,
    /// It was denied, which some BMCs do to a correct account for a moment.
    Denied,
}

/// The answer to an action.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActionAnswer {
    pub(super) status: StatusCode,
    /// Whether it is a denial that names no missing privilege.
    pub(super) is_denial: bool,
    /// Whether the action had a precondition.
    pub(super) had_condition: bool,
}

/// The form of the next action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ActionForm {
    needs_condition: bool,
    denied_at: Option<Duration>,
}

impl ActionForm {
    /// Whether the next action has a precondition. iDRAC10 rejects every one.
    pub(super) fn needs_condition(&self) -> bool {
        self.needs_condition
    }

    /// Records an answer. `Some`: the action was not carried out, and the next one may be taken.
    pub(super) fn answered(&mut self, now: Duration, answer: ActionAnswer) -> Option<NotYet> {
        let needs_condition = [
            StatusCode::PRECONDITION_FAILED,
            StatusCode::PRECONDITION_REQUIRED,
        ]
        .contains(&answer.status);
        if needs_condition {
            self.needs_condition = !answer.had_condition;
            return Some(match answer.had_condition {
                true => NotYet::RefusesCondition,
                false => NotYet::NeedsCondition,
            });
        }
        if !answer.is_denial {
            self.denied_at = None;
            return None;
        }
        let lasts = |at| now.saturating_sub(at) < MOMENT;
        let is_first = !self.denied_at.is_some_and(lasts);
        self.denied_at = is_first.then_some(now);
        is_first.then_some(NotYet::Denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn answer(status: StatusCode, had_condition: bool) -> ActionAnswer {
        ActionAnswer {
            status,
            is_denial: status == StatusCode::FORBIDDEN,
            had_condition,
        }
    }

    #[test]
    fn precondition_is_remembered_until_it_is_rejected() {
        for status in [
            StatusCode::PRECONDITION_FAILED,
            StatusCode::PRECONDITION_REQUIRED,
        ] {
            let mut form = ActionForm::default();
            assert!(!form.needs_condition());
            let first = form.answered(s(0), answer(status, false));
            assert_eq!(first, Some(NotYet::NeedsCondition));
            assert!(form.needs_condition());
            assert_eq!(form.answered(s(1), answer(StatusCode::OK, true)), None);
            assert!(form.needs_condition());
            let refused = form.answered(s(2), answer(status, true));
            assert_eq!(refused, Some(NotYet::RefusesCondition));
            assert!(!form.needs_condition(), "a BMC that rejects every one");
        }
    }

    #[test]
    fn second_denial_within_a_minute_is_final() {
        let denied = answer(StatusCode::FORBIDDEN, false);
        let mut form = ActionForm::default();
        assert_eq!(form.answered(s(0), denied), Some(NotYet::Denied));
        assert_eq!(form.answered(s(59), denied), None);
        assert_eq!(form.answered(s(60), denied), Some(NotYet::Denied));
        assert_eq!(form.answered(s(61), answer(StatusCode::OK, false)), None);
        assert_eq!(form.answered(s(62), denied), Some(NotYet::Denied));
        assert_eq!(form.answered(s(122), denied), Some(NotYet::Denied));
    }
}
