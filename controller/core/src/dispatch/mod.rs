//! The bookkeeping of the health-check engine: whose turn it is, what is under way for whom, which of
//! several checks acts, and what a turn comes to.
//!
//! Owns nothing of a verdict: [`health`](crate::health) judges. Everything here is plain data with an
//! explicit time, so that the engine and the model checker run the same code.

mod handover_state;
mod items;
mod overlaps;
mod queue;
mod turn;

use std::sync::Arc;

pub use handover_state::HandoverState;
pub use items::{ItemState, Items, LEFT_FOR, Outcome, Phase, SEE_AGAIN, TRY_AGAIN, Unusable};
pub use overlaps::Overlaps;
pub use queue::{IN_FLIGHT, Queue, Window};
pub use turn::{Turn, Wanted};

/// A member of a check.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item<K> {
    /// The check.
    pub check: K,
    /// Name of the member.
    pub member: Arc<str>,
}

impl<K: Clone> Item<K> {
    /// The member of this name.
    pub fn new(check: &K, member: &Arc<str>) -> Self {
        Self {
            check: check.clone(),
            member: member.clone(),
        }
    }
}
