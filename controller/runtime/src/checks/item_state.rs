//! What is under way for one member of a check.

use std::{collections::BTreeMap, sync::Arc};

use super::{queue::Item, requests::Outcome, template::Unusable};
use crate::store::object::Key;

/// Why nothing new is begun for a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing keeps it back.
    #[default]
    Ready,
    /// Waits for the template of its check.
    AwaitingTemplate,
    /// Its request is being created, or was created and is not seen yet.
    Creating,
    /// Waits for its retry. `may_exist`: the call that creates its request had no answer.
    Backoff { may_exist: bool },
}

/// State of one member of a check.
#[derive(Debug, Default)]
pub(super) struct ItemState {
    pub(super) phase: Phase,
    /// The outcome of the last effect, until the conditions of the Machine show it.
    pub(super) unreported: Option<Outcome>,
    /// Why its request, which is due, was not created. The status of the check shows it.
    pub(super) not_created: Option<Unusable>,
}

/// All members for which something is under way.
#[derive(Debug, Default)]
pub(super) struct Items(BTreeMap<Item, ItemState>);

// === impl Phase ===

impl Phase {
    /// The request counts as there although the index does not show it (F10).
    pub(super) fn request_may_exist(self) -> bool {
        matches!(self, Self::Creating | Self::Backoff { may_exist: true })
    }
}

// === impl ItemState ===

impl ItemState {
    /// Nothing new is begun before its retry, or before its outcome is shown.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Backoff { .. })
    }

    fn is_idle(&self) -> bool {
        self.phase == Phase::Ready && self.unreported.is_none() && self.not_created.is_none()
    }
}

// === impl Items ===

impl Items {
    pub(super) fn get(&self, item: &Item) -> Option<&ItemState> {
        self.0.get(item)
    }

    /// Changes the state of a member.
    pub(super) fn change<T>(&mut self, item: &Item, change: impl FnOnce(&mut ItemState) -> T) -> T {
        let state = self.0.entry(item.clone()).or_default();
        let result = change(state);
        if state.is_idle() {
            self.0.remove(item);
        }
        result
    }

    pub(super) fn set_phase(&mut self, item: &Item, phase: Phase) {
        self.change(item, |state| state.phase = phase);
    }

    pub(super) fn phase(&self, item: &Item) -> Phase {
        self.get(item).map_or(Phase::Ready, |state| state.phase)
    }

    /// The states of a check.
    fn of_check(&self, check: &Key) -> impl Iterator<Item = (&Item, &ItemState)> {
        let check = check.clone();
        let from = Item::new(&check, &Arc::from(""));
        self.0
            .range(from..)
            .take_while(move |(item, _)| item.check == check)
    }

    /// The members whose request is being created.
    pub(super) fn creating(&self) -> impl Iterator<Item = &Item> {
        let creating = self.0.iter().filter(|(_, s)| s.phase == Phase::Creating);
        creating.map(|(item, _)| item)
    }

    /// The members of a check in a phase.
    pub(super) fn in_phase(&self, check: &Key, fits: impl Fn(Phase) -> bool) -> Vec<Item> {
        let members = self.of_check(check).filter(|(_, state)| fits(state.phase));
        members.map(|(item, _)| item.clone()).collect()
    }

    /// Why a request of a check that is due was not created: the first by name.
    pub(super) fn not_created(&self, check: &Key) -> Option<Unusable> {
        let mut states = self.of_check(check);
        states.find_map(|(_, state)| state.not_created.clone())
    }

    /// A check is not evaluated any more. Requests that may exist still count if it comes back.
    pub(super) fn forget(&mut self, check: &Key) {
        self.0.retain(|item, state| {
            if item.check != *check {
                return true;
            }
            state.unreported = None;
            state.not_created = None;
            if state.phase.request_may_exist() {
                state.phase = Phase::Creating;
            }
            state.phase == Phase::Creating
        });
    }
}
