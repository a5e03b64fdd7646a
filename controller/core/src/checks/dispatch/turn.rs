//! What is done for a member that was taken from the queue.

use super::ItemState;

/// The decision for a member that was taken from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn<E> {
    /// Another check acts for the member and writes its conditions.
    Yield,
    /// The check only evaluates; the value is the effect that it would begin.
    DryRun(Option<E>),
    /// Begin no effect; only write the conditions of the Machine.
    Show,
    /// Begin the effect, and keep it as under way.
    Begin(E),
}

/// A member as its check evaluates it now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted<'a, E> {
    /// The effect that is due, if any.
    pub effect: Option<E>,
    /// Whether the effect hands the member over to remediation.
    pub hands_over: bool,
    /// The stored state of the member, if anything is under way.
    pub state: Option<&'a ItemState>,
}

impl<E> Wanted<'_, E> {
    /// `None`: the member need not be queued. Otherwise whether an effect is due, rather than only
    /// conditions. `shows`: a condition has to be written.
    pub fn queued(&self, shows: bool) -> Option<bool> {
        let acts = self.effect.is_some() && !self.state.is_some_and(ItemState::is_held);
        let unreported = self.state.is_some_and(|state| state.unreported.is_some());
        (acts || shows || unreported).then_some(acts)
    }

    /// Decides when the member is taken from the queue, not when it is queued, so that a limit that was
    /// exceeded meanwhile holds (F10). `yields`: another check acts. `is_cleared`: whether the member may
    /// be handed over now (F13); only called where that is due.
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
    use crate::checks::dispatch::{EffectOutcome, Phase};

    fn mk_wanted(state: Option<&ItemState>) -> Wanted<'_, &'static str> {
        Wanted {
            effect: Some("create"),
            hands_over: true,
            state,
        }
    }

    #[test]
    fn f13_handed_over_member_begins_only_after_clearance() {
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
    fn yielding_or_dry_run_check_begins_no_effect() {
        let asks = || panic!("nothing is handed over");
        assert_eq!(mk_wanted(None).turn(true, false, asks), Turn::Yield);
        let dry = mk_wanted(None).turn(false, true, asks);
        assert_eq!(dry, Turn::DryRun(Some("create")));
    }

    #[test]
    fn no_effect_begins_during_backoff_or_with_an_unreported_outcome() {
        let held = ItemState {
            phase: Phase::Backoff { may_exist: true },
            ..ItemState::default()
        };
        let unreported = ItemState {
            unreported: Some(EffectOutcome::RequestCreated),
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
