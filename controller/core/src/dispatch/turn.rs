//! What is done when it is the turn of a member.

use super::ItemState;

/// What the turn of a member comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn<E> {
    /// Another check acts for the member and shows that.
    Yield,
    /// The check changes nothing. What it would do.
    DryRun(Option<E>),
    /// Nothing but what is shown on the Machine.
    Show,
    /// The effect is begun.
    Begin(E),
}

/// A member as its check sees it now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted<'a, E> {
    /// What is to be done about it.
    pub effect: Option<E>,
    /// That hands it over to remediation.
    pub hands_over: bool,
    /// What is under way for it.
    pub state: Option<&'a ItemState>,
}

impl<E> Wanted<'_, E> {
    /// Whether the member is put into the queue, and whether it acts, rather than only shows something.
    /// `shows`: a condition is to be written.
    pub fn queued(&self, shows: bool) -> Option<bool> {
        let acts = self.effect.is_some() && !self.state.is_some_and(ItemState::is_held);
        let unreported = self.state.is_some_and(|state| state.unreported.is_some());
        (acts || shows || unreported).then_some(acts)
    }

    /// Decides when it is its turn, and not when it was queued, so that a limit that was reached
    /// meanwhile holds (F10). `yields`: another check acts. `is_cleared`: whether it may be handed over
    /// now (F13); only called where that is due.
    pub fn turn(self, yields: bool, dry_run: bool, is_cleared: impl FnOnce() -> bool) -> Turn<E> {
        if yields {
            return Turn::Yield;
        }
        let is_idle = |state: &ItemState| state.is_held() || state.unreported.is_some();
        let effect = self.effect.filter(|_| !self.state.is_some_and(is_idle));
        if dry_run {
            return Turn::DryRun(effect);
        }
        match effect {
            Some(effect) if !self.hands_over || is_cleared() => Turn::Begin(effect),
            _ => Turn::Show,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Outcome, Phase};

    fn mk_wanted(state: Option<&ItemState>) -> Wanted<'_, &'static str> {
        Wanted {
            effect: Some("create"),
            hands_over: true,
            state,
        }
    }

    #[test]
    fn f13_a_member_that_is_handed_over_waits_until_it_is_cleared() {
        assert_eq!(mk_wanted(None).turn(false, false, || false), Turn::Show);
        let begun = mk_wanted(None).turn(false, false, || true);
        assert_eq!(begun, Turn::Begin("create"));
        let deletes = Wanted {
            hands_over: false,
            ..mk_wanted(None)
        };
        let begun = deletes.turn(false, false, || panic!("not due"));
        assert_eq!(begun, Turn::Begin("create"));
    }

    #[test]
    fn a_check_that_yields_or_runs_dry_begins_nothing() {
        let asks = || panic!("nothing is handed over");
        assert_eq!(mk_wanted(None).turn(true, false, asks), Turn::Yield);
        let dry = mk_wanted(None).turn(false, true, asks);
        assert_eq!(dry, Turn::DryRun(Some("create")));
    }

    #[test]
    fn nothing_is_begun_before_the_retry_or_before_the_last_outcome_is_shown() {
        let held = ItemState {
            phase: Phase::Backoff { may_exist: true },
            ..ItemState::default()
        };
        let unreported = ItemState {
            unreported: Some(Outcome::RequestCreated),
            ..ItemState::default()
        };
        for (state, queued) in [(held, None), (unreported, Some(true))] {
            let wanted = mk_wanted(Some(&state));
            assert_eq!(wanted.queued(false), queued);
            assert_eq!(wanted.turn(false, false, || true), Turn::Show);
        }
        assert_eq!(mk_wanted(None).queued(false), Some(true));
    }
}
