//! What is under way for one member of a check.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::Item;
use crate::checks::machines::MachineRemediation;

/// The result of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectOutcome {
    /// The remediation was created, or exists already.
    RemediationCreated,
    /// The remediation was not created, and why.
    RemediationNotCreated(Unusable),
    /// The remediation was deleted, or does not exist.
    RemediationDeleted,
    /// `OwnerRemediated=False` was set: the owner of the Machine remediates it.
    OwnerMarked,
    /// `OwnerRemediated` was removed: the owner does not remediate the Machine.
    OwnerUnmarked,
    /// An effect of one dialect, without a condition of its own.
    Done,
    /// Another controller carries out the effect.
    LeftToOthers,
}

/// Why no remediation can be created: reason and message of the condition `ExternallyRemediated`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unusable {
    /// CamelCase reason of the condition.
    pub reason: &'static str,
    /// Message of the condition.
    pub why: String,
}

impl Unusable {
    /// A remediation of the same name belongs to another object, `owner`.
    pub fn foreign(owner: &str) -> Self {
        Self {
            reason: "RemediationRequestCreationFailed",
            why: format!("a remediation of this name exists and belongs to {owner}; delete it"),
        }
    }
}

/// Time until a member is evaluated again whose remediation was created and is not in the index yet.
pub(super) const SEE_AGAIN: Duration = Duration::from_secs(1);
/// Time until a remediation that could not be created is tried again: a template that was missing sends no
/// event when it is created.
pub const TRY_AGAIN: Duration = Duration::from_secs(10);
/// Time until a member that was left to another controller is evaluated again.
const LEFT_FOR: Duration = Duration::from_secs(60);

/// Whether a new effect may begin for a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// An effect may begin.
    #[default]
    Ready,
    /// The template of the check is being read.
    AwaitingTemplate,
    /// The remediation is being created, or was created and is not in the index yet.
    Creating,
    /// The backoff after a failure has not passed.
    Backoff {
        /// The call that creates the remediation had no answer, so it may exist.
        may_exist: bool,
    },
}

/// State of one member of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ItemState {
    /// Whether a new effect may begin.
    pub(super) phase: Phase,
    /// The outcome of the last effect, until the conditions of the Machine show it.
    pub(super) unreported: Option<EffectOutcome>,
    /// Why the remediation that is due was not created, for the status of the check.
    pub(super) not_created: Option<Unusable>,
}

/// The members with a state other than the default.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Items<K: Ord>(BTreeMap<Item<K>, ItemState>);

impl<K: Ord> Default for Items<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

// === impl Phase ===

impl Phase {
    /// Whether the remediation counts as existing although the index does not show it (F10).
    pub(super) fn remediation_may_exist(self) -> bool {
        matches!(self, Self::Creating | Self::Backoff { may_exist: true })
    }

    /// The remediation of a member as it counts against the limit (F10); `seen`: as the index shows it.
    pub(super) fn counted(self, seen: MachineRemediation) -> MachineRemediation {
        if seen == MachineRemediation::None && self.remediation_may_exist() {
            MachineRemediation::Open
        } else {
            seen
        }
    }
}

// === impl EffectOutcome ===

impl EffectOutcome {
    /// Whether the outcome follows from the next verdict, so that it need not be kept until it is shown.
    pub(super) fn follows_from_verdict(&self) -> bool {
        matches!(self, Self::OwnerMarked | Self::OwnerUnmarked)
    }
}

// === impl ItemState ===

impl ItemState {
    /// Whether no new effect begins before the backoff has passed.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Backoff { .. })
    }

    fn is_idle(&self) -> bool {
        self.phase == Phase::Ready && self.unreported.is_none() && self.not_created.is_none()
    }
}

// === impl Items ===

impl<K: Ord + Clone> Items<K> {
    /// The state of a member; `None`: the default state.
    pub(super) fn get(&self, item: &Item<K>) -> Option<&ItemState> {
        self.0.get(item)
    }

    /// Changes the state of a member.
    pub(super) fn change<T>(
        &mut self,
        item: &Item<K>,
        change: impl FnOnce(&mut ItemState) -> T,
    ) -> T {
        let state = self.0.entry(item.clone()).or_default();
        let result = change(state);
        if state.is_idle() {
            self.0.remove(item);
        }
        result
    }

    /// Sets the phase of a member.
    pub(super) fn set_phase(&mut self, item: &Item<K>, phase: Phase) {
        self.change(item, |state| state.phase = phase);
    }

    /// The phase of a member.
    pub(super) fn phase(&self, item: &Item<K>) -> Phase {
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

    /// The members whose remediation is being created.
    pub(super) fn creating(&self) -> impl Iterator<Item = &Item<K>> {
        let creating = self.0.iter().filter(|(_, s)| s.phase == Phase::Creating);
        creating.map(|(item, _)| item)
    }

    /// The members of a check in a phase.
    pub(super) fn in_phase(&self, check: &K, fits: impl Fn(Phase) -> bool) -> Vec<Item<K>> {
        let members = self.of_check(check).filter(|(_, state)| fits(state.phase));
        members.map(|(item, _)| item.clone()).collect()
    }

    /// Why a due remediation of a check was not created; of several members, the first by name.
    pub(super) fn not_created(&self, check: &K) -> Option<Unusable> {
        let mut states = self.of_check(check);
        states.find_map(|(_, state)| state.not_created.clone())
    }

    /// Records the outcome of an effect. `is_seen`: the index shows the remediation. `shown`: the dialect
    /// writes outcomes as conditions of the Machine. Returns after what time the member is evaluated
    /// again although no object changes.
    pub(super) fn effect_ended(
        &mut self,
        item: &Item<K>,
        outcome: EffectOutcome,
        is_seen: bool,
        shown: bool,
    ) -> Option<Duration> {
        let held = Phase::Backoff { may_exist: false };
        let (phase, again) = match &outcome {
            EffectOutcome::RemediationCreated if !is_seen => (Phase::Creating, Some(SEE_AGAIN)),
            EffectOutcome::RemediationNotCreated(_) => (held, Some(TRY_AGAIN)),
            EffectOutcome::LeftToOthers => (held, Some(LEFT_FOR)),
            _ => (Phase::Ready, None),
        };
        self.change(item, |state| {
            state.phase = phase;
            state.unreported = Some(outcome).filter(|_| shown);
        });
        again
    }

    /// Records a failed effect: no new one begins before the backoff has passed, and a remediation that may
    /// have been created counts.
    pub(super) fn effect_failed(&mut self, item: &Item<K>) {
        let may_exist = self.phase(item).remediation_may_exist();
        self.set_phase(item, Phase::Backoff { may_exist });
    }

    /// The backoff of a member that is not in flight has passed.
    pub(super) fn retry_due(&mut self, item: &Item<K>) {
        if self.phase(item) != Phase::AwaitingTemplate {
            self.set_phase(item, Phase::Ready);
        }
    }

    /// Drops the states of a check that is no longer evaluated. Remediations that may exist are kept, so
    /// that they count if the check is evaluated again.
    pub(super) fn forget(&mut self, check: &K) {
        self.0.retain(|item, state| {
            if item.check != *check {
                return true;
            }
            state.unreported = None;
            state.not_created = None;
            if state.phase.remediation_may_exist() {
                state.phase = Phase::Creating;
            }
            state.phase == Phase::Creating
        });
    }
}
