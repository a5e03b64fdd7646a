//! What is under way for one member of a check.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::Item;
use crate::health::RequestView;

/// What an effect came to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request was created, or exists already.
    RequestCreated,
    /// The request was not created, and why.
    RequestNotCreated(Unusable),
    /// The request was deleted, or does not exist.
    RequestDeleted,
    /// The owner of the Machine shall remediate it.
    OwnerMarked,
    /// The owner need not remediate it any more.
    OwnerUnmarked,
    /// An effect that only one dialect has.
    Done,
    /// Another controller carries it out.
    LeftToOthers,
}

/// Why no request can be made: the reason of `ExternallyRemediated`, and in words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unusable {
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub why: String,
}

impl Unusable {
    /// A request of the same name belongs to somebody else.
    pub fn foreign(owner: &str) -> Self {
        Self {
            reason: "RemediationRequestCreationFailed",
            why: format!("a request of this name exists and belongs to {owner}; delete it"),
        }
    }
}

/// When a request that was created and is not seen yet is looked for again.
pub const SEE_AGAIN: Duration = Duration::from_secs(1);
/// When something that could not be requested is tried again: a missing template sends no event when it
/// is created.
pub const TRY_AGAIN: Duration = Duration::from_secs(10);
/// When something that is left to another controller is looked at again.
pub const LEFT_FOR: Duration = Duration::from_secs(60);

/// Why nothing new is begun for a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing keeps it back.
    #[default]
    Ready,
    /// Waits for the template of its check.
    AwaitingTemplate,
    /// Its request is being created, or was created and is not seen yet.
    Creating,
    /// Waits for its retry. `may_exist`: the call that creates its request had no answer.
    Backoff {
        /// Whether its request may exist.
        may_exist: bool,
    },
}

/// State of one member of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ItemState {
    /// Why nothing new is begun for it.
    pub phase: Phase,
    /// The outcome of the last effect, until the conditions of the Machine show it.
    pub unreported: Option<Outcome>,
    /// Why its request, which is due, was not created. The status of the check shows it.
    pub not_created: Option<Unusable>,
}

/// All members for which something is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Items<K: Ord>(BTreeMap<Item<K>, ItemState>);

impl<K: Ord> Default for Items<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

// === impl Phase ===

impl Phase {
    /// The request counts as there although the index does not show it (F10).
    pub fn request_may_exist(self) -> bool {
        matches!(self, Self::Creating | Self::Backoff { may_exist: true })
    }
}

impl Phase {
    /// The request of a member, as the index shows it, or as it counts (F10).
    pub fn counted(self, seen: RequestView) -> RequestView {
        if seen == RequestView::None && self.request_may_exist() {
            RequestView::Open
        } else {
            seen
        }
    }
}

// === impl ItemState ===

impl ItemState {
    /// Nothing new is begun before its retry, or before its outcome is shown.
    pub fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Backoff { .. })
    }

    fn is_idle(&self) -> bool {
        self.phase == Phase::Ready && self.unreported.is_none() && self.not_created.is_none()
    }
}

// === impl Items ===

impl<K: Ord + Clone> Items<K> {
    /// The state of a member for which something is under way.
    pub fn get(&self, item: &Item<K>) -> Option<&ItemState> {
        self.0.get(item)
    }

    /// Changes the state of a member.
    pub fn change<T>(&mut self, item: &Item<K>, change: impl FnOnce(&mut ItemState) -> T) -> T {
        let state = self.0.entry(item.clone()).or_default();
        let result = change(state);
        if state.is_idle() {
            self.0.remove(item);
        }
        result
    }

    /// Sets the phase of a member.
    pub fn set_phase(&mut self, item: &Item<K>, phase: Phase) {
        self.change(item, |state| state.phase = phase);
    }

    /// The phase of a member.
    pub fn phase(&self, item: &Item<K>) -> Phase {
        self.get(item).map_or(Phase::Ready, |state| state.phase)
    }

    /// The states of a check.
    fn of_check(&self, check: &K) -> impl Iterator<Item = (&Item<K>, &ItemState)> {
        let check = check.clone();
        let from = Item::new(&check, &Arc::from(""));
        self.0
            .range(from..)
            .take_while(move |(item, _)| item.check == check)
    }

    /// The members whose request is being created.
    pub fn creating(&self) -> impl Iterator<Item = &Item<K>> {
        let creating = self.0.iter().filter(|(_, s)| s.phase == Phase::Creating);
        creating.map(|(item, _)| item)
    }

    /// The members of a check in a phase.
    pub fn in_phase(&self, check: &K, fits: impl Fn(Phase) -> bool) -> Vec<Item<K>> {
        let members = self.of_check(check).filter(|(_, state)| fits(state.phase));
        members.map(|(item, _)| item.clone()).collect()
    }

    /// Why a request of a check that is due was not created: the first by name.
    pub fn not_created(&self, check: &K) -> Option<Unusable> {
        let mut states = self.of_check(check);
        states.find_map(|(_, state)| state.not_created.clone())
    }

    /// An effect has ended. `is_seen`: the index shows the request. `shown`: outcomes are shown on the
    /// Machine. Returns when the member is looked at again although nothing happens.
    pub fn effect_ended(
        &mut self,
        item: &Item<K>,
        outcome: Outcome,
        is_seen: bool,
        shown: bool,
    ) -> Option<Duration> {
        let held = Phase::Backoff { may_exist: false };
        let (phase, again) = match &outcome {
            Outcome::RequestCreated if !is_seen => (Phase::Creating, Some(SEE_AGAIN)),
            Outcome::RequestNotCreated(_) => (held, Some(TRY_AGAIN)),
            Outcome::LeftToOthers => (held, Some(LEFT_FOR)),
            _ => (Phase::Ready, None),
        };
        self.change(item, |state| {
            state.phase = phase;
            state.unreported = Some(outcome).filter(|_| shown);
        });
        again
    }

    /// An effect has failed: nothing new is begun before the retry, and a request that may have been
    /// created counts.
    pub fn effect_failed(&mut self, item: &Item<K>) {
        let may_exist = self.phase(item).request_may_exist();
        self.set_phase(item, Phase::Backoff { may_exist });
    }

    /// The retry of a member is due, and nothing is being done for it.
    pub fn retry_due(&mut self, item: &Item<K>) {
        if self.phase(item) != Phase::AwaitingTemplate {
            self.set_phase(item, Phase::Ready);
        }
    }

    /// A check is not evaluated any more. Requests that may exist still count if it comes back.
    pub fn forget(&mut self, check: &K) {
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
