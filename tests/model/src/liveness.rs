//! L1: once nothing fails any more, a remediation ends within a bound.

use crate::{actions::Action, breakage::Breakage, world::World};

/// Actions after the last fault within which the remediation must have ended. The longest run that was
/// seen takes less than half of them.
pub const BOUND: usize = 600;

/// The order of actions in a world without faults: every component acts as soon as it can.
const ORDER: [Action; 13] = [
    Action::Answers,
    Action::Claim,
    Action::Carry,
    Action::Decide,
    Action::Agent,
    Action::Power,
    Action::Boot,
    Action::Operator,
    Action::Evict,
    Action::ForceDelete,
    Action::Detach,
    Action::Unheard,
    Action::Time,
];

/// The path that follows when all faults are healed.
pub fn path(w: &World, breakage: Option<Breakage>) -> Vec<(World, Option<Action>)> {
    let mut w = w.clone();
    (w.budget, w.wrong) = (0, None);
    let mut all = Vec::new();
    while all.len() < BOUND && w.done.is_none() {
        let can = w.enabled(&[]);
        let Some(action) = ORDER.into_iter().find(|a| can.contains(a)) else {
            break;
        };
        let next = w.next(action, breakage);
        all.push((w, Some(action)));
        w = next;
    }
    all
}

/// Heals all faults and runs on, always with the first thing that can be done; whether it ends.
pub fn ends(w: &World, breakage: Option<Breakage>) -> bool {
    let mut w = w.clone();
    w.budget = 0;
    for _ in 0..BOUND {
        // A rule that is broken on the way is found by its own property.
        if w.done.is_some() || w.wrong.is_some() {
            return true;
        }
        let can = w.enabled(&[]);
        let Some(action) = ORDER.into_iter().find(|a| can.contains(a)) else {
            return false;
        };
        w = w.next(action, breakage);
    }
    false
}
