//! The bookkeeping of the health-check engine: the queue, what is under way for which member, which of
//! several checks acts, and what is done for a member that was taken from the queue.
//!
//! Must never decide a verdict: [`health`](crate::checks::machines) does. Everything here is plain data with an
//! explicit time, so that the engine and the model checker run the same code.

mod handover_state;
mod items;
mod overlaps;
mod queue;
mod turn;

use std::sync::Arc;

pub use handover_state::HandoverState;
pub use items::{EffectOutcome, ItemState, Items, LEFT_FOR, Phase, SEE_AGAIN, TRY_AGAIN, Unusable};
pub use overlaps::Overlaps;
pub use queue::{IN_FLIGHT, Queue, Window};
pub use turn::{Turn, Wanted};

/// A member of a check: a Machine or Node that the check selects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item<K> {
    /// Key of the check.
    pub check: K,
    /// Name of the Machine or Node.
    pub member: Arc<str>,
}

impl<K: Clone> Item<K> {
    /// Pairs a check with the name of a member.
    pub fn new(check: &K, member: &Arc<str>) -> Self {
        Self {
            check: check.clone(),
            member: member.clone(),
        }
    }
}
