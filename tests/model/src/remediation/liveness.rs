//! L1: once nothing fails any more, a remediation ends within a bound.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use ahash::RandomState;

use crate::remediation::{
    actions::Action,
    breakage::Breakage,
    world::{Registration, World},
};

/// Hashes states; it always gives the same hash.
pub const HASHER: RandomState = RandomState::with_seeds(1, 2, 3, 4);

/// Locks, so that threads seldom wait for each other.
const SHARDS: usize = 64;

/// What happens next in a world in which nothing fails any more.
pub enum Next<S, A> {
    /// The run has ended, with nothing left.
    Ended,
    /// It has not ended, and nothing can happen.
    Stuck,
    /// This action, to this state.
    Does(A, S),
}

/// States that are known to end, with the number of actions until then. Most runs soon come to one of
/// them, so the end can be checked from every state.
pub struct Ends([Mutex<HashMap<u64, usize, RandomState>>; SHARDS]);

impl Default for Ends {
    fn default() -> Self {
        Self(std::array::from_fn(|_| {
            Mutex::new(HashMap::with_hasher(HASHER))
        }))
    }
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ends")
    }
}

impl Ends {
    fn shard(&self, hash: u64) -> std::sync::MutexGuard<'_, HashMap<u64, usize, RandomState>> {
        let place = usize::try_from(hash).unwrap_or_default() % SHARDS;
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs on from a state; whether it ends within so many actions.
    pub fn is_reached<S: Hash, A>(
        &self,
        state: S,
        bound: usize,
        next_of: impl Fn(&S) -> Next<S, A>,
    ) -> bool {
        let mut state = state;
        let mut passed = Vec::new();
        let rest = loop {
            let hash = HASHER.hash_one(&state);
            if let Some(rest) = self.shard(hash).get(&hash) {
                break *rest;
            }
            passed.push(hash);
            match next_of(&state) {
                _ if passed.len() > bound => return false,
                Next::Stuck => return false,
                Next::Ended => break 0,
                Next::Does(_, next) => state = next,
            }
        };
        for (before, hash) in passed.iter().rev().enumerate() {
            self.shard(*hash).insert(*hash, rest + before);
        }
        rest + passed.len() <= bound
    }
}

/// The path from a state until it ends, or for so many actions.
pub fn path<S, A>(
    state: S,
    bound: usize,
    next_of: impl Fn(&S) -> Next<S, A>,
) -> Vec<(S, Option<A>)> {
    let mut all = Vec::new();
    let mut state = state;
    while all.len() < bound
        && let Next::Does(action, next) = next_of(&state)
    {
        all.push((state, Some(action)));
        state = next;
    }
    all
}

/// Actions after the last fault within which the remediation must have ended. The longest run that was
/// seen takes less than half of them.
pub const BOUND: usize = 600;

/// The order of actions in a world without faults: every component acts as soon as it can.
const ORDER: [Action; 23] = [
    Action::Answers,
    Action::FlashEnds,
    Action::WorkloadAnswers,
    Action::Learns,
    Action::PduAnswers,
    Action::SiblingAnswers,
    Action::Claim,
    Action::LeftHold,
    Action::Watch,
    Action::Carry,
    Action::Decide,
    Action::Agent,
    Action::Power,
    Action::Boot,
    Action::Report,
    Action::Operator,
    Action::Force,
    Action::Evict,
    Action::PodEnds,
    Action::ForceDelete,
    Action::Detach,
    Action::Unheard,
    Action::Time,
];

/// The world without any more faults. The reason of a remediation that waits for the other host of its outlets
/// names it, and an operator switches it off. That of one whose host runs under another Node name names the stale
/// Node: a person deletes it, and the health check its remediation.
pub fn healed(w: &World) -> World {
    let mut w = w.clone();
    (w.budget, w.wrong) = (0, None);
    w.sibling_answers();
    w.switch_sibling(false);
    // A remediation that waits for another entry of the inventory is deleted with its wrong one.
    w.object.deleting |= w.has_wrong_bmc();
    w.object.deleting |= w.registration != Registration::Pinned;
    // Who works on a host that was left on has done so at some time.
    w.object.deleting |= w.leaving.is_some_and(|leaving| leaving.left_on);
    // Whoever has a budget that forbids the eviction of its pod starts another one.
    w.budget_permits();
    w
}

/// What happens next in a healed world: always the first thing that can be done.
pub fn next_of_healed(w: &World, breakage: Option<Breakage>) -> Next<World, Action> {
    // A rule that is broken on the way is found by its own property.
    if w.done.is_some() && !w.has_left_hold() || w.wrong.is_some() {
        return Next::Ended;
    }
    let can = w.enabled(&[]);
    match ORDER.into_iter().find(|action| can.contains(action)) {
        Some(action) => Next::Does(action, w.next(action, breakage)),
        None => Next::Stuck,
    }
}
