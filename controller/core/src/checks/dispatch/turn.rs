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
    /// As [`Self::Show`], until the live read of the member's batch has ended (F13).
    AwaitRead,
    /// Begin the effect, and keep it as under way.
    Begin(E),
}

/// What is due for a member, as its check evaluates it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wanted<E> {
    /// The effect that is due, if any.
    pub effect: Option<E>,
    /// Whether the effect hands the member over to remediation.
    pub hands_over: bool,
}

/// What a check may do for a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Role {
    /// Another check acts for the member.
    pub yields: bool,
    /// The check only evaluates.
    pub dry_run: bool,
}

impl<E> Wanted<E> {
    /// `None`: the member need not be queued. Otherwise whether an effect is due, rather than only
    /// conditions. `state`: what is under way. `shows`: a condition has to be written.
    pub(super) fn queued(&self, state: Option<&ItemState>, shows: bool) -> Option<bool> {
        let acts = self.effect.is_some() && !state.is_some_and(ItemState::is_held);
        let unreported = state.is_some_and(|state| state.unreported.is_some());
        (acts || shows || unreported).then_some(acts)
    }

    /// Decides when the member is taken from the queue, not when it is queued, so that a limit that was
    /// exceeded meanwhile holds (F10). `is_cleared`: whether the member may be handed over now (F13); only
    /// called where that is due.
    pub(super) fn turn(
        self,
        state: Option<&ItemState>,
        role: Role,
        is_cleared: impl FnOnce() -> bool,
    ) -> Turn<E> {
        if role.yields {
            return Turn::Yield;
        }
        // The deletion of a remediation makes its earlier outcome obsolete, so it does not wait until that is written:
        // in the recovery of a rack the conditions of all its Machines would come first.
        let is_unreported = |state: &ItemState| state.unreported.is_some() && self.hands_over;
        let waits = |state: &ItemState| state.is_held() || is_unreported(state);
        let effect = self.effect.filter(|_| !state.is_some_and(waits));
        if role.dry_run {
            return Turn::DryRun(effect);
        }
        match effect {
            Some(effect) if !self.hands_over || is_cleared() => Turn::Begin(effect),
            Some(_) => Turn::AwaitRead,
            None => Turn::Show,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::dispatch::{EffectOutcome, Phase};

    const ACTS: Role = Role {
        yields: false,
        dry_run: false,
    };

    fn mk_wanted() -> Wanted<&'static str> {
        Wanted {
            effect: Some("create"),
            hands_over: true,
        }
    }

    #[test]
    fn f13_handed_over_member_begins_only_after_clearance() {
        assert_eq!(mk_wanted().turn(None, ACTS, || false), Turn::AwaitRead);
        let begun = mk_wanted().turn(None, ACTS, || true);
        assert_eq!(begun, Turn::Begin("create"));
        let deletes = Wanted {
            hands_over: false,
            ..mk_wanted()
        };
        let begun = deletes.turn(None, ACTS, || panic!("not due"));
        assert_eq!(begun, Turn::Begin("create"));
    }

    #[test]
    fn yielding_or_dry_run_check_begins_no_effect() {
        let asks = || panic!("nothing is handed over");
        let yields = Role {
            yields: true,
            ..ACTS
        };
        assert_eq!(mk_wanted().turn(None, yields, asks), Turn::Yield);
        let dry_run = Role {
            dry_run: true,
            ..ACTS
        };
        let dry = mk_wanted().turn(None, dry_run, asks);
        assert_eq!(dry, Turn::DryRun(Some("create")));
    }

    #[test]
    fn no_effect_begins_during_backoff_and_no_handover_with_an_unreported_outcome() {
        let held = ItemState {
            phase: Phase::Backoff { may_exist: true },
            ..ItemState::default()
        };
        let unreported = ItemState {
            unreported: Some(EffectOutcome::RemediationCreated),
            ..ItemState::default()
        };
        for (state, queued) in [(&held, None), (&unreported, Some(true))] {
            let wanted = mk_wanted();
            assert_eq!(wanted.queued(Some(state), false), queued);
            assert_eq!(wanted.turn(Some(state), ACTS, || true), Turn::Show);
        }
        assert_eq!(mk_wanted().queued(None, false), Some(true));
        let deletes = Wanted {
            hands_over: false,
            ..mk_wanted()
        };
        assert_eq!(deletes.turn(Some(&held), ACTS, || true), Turn::Show);
        let begun = deletes.turn(Some(&unreported), ACTS, || true);
        assert_eq!(begun, Turn::Begin("create"), "nothing is handed over");
    }
}
