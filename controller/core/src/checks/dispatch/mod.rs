//! The bookkeeping of the health-check engine: the queue, what is under way for which member, which of
//! several checks acts, what is done for a member that was taken from the queue, what is withdrawn, and what is due
//! when.
//!
//! Must never decide a verdict: [`health`](crate::checks::machines) does. Everything here is plain data with an
//! explicit time, so that the engine and the model checker run the same code.

mod backlog;
mod handovers;
mod items;
mod members;
mod overlaps;
mod queue;
mod schedule;
mod status_schedule;
mod turn;
mod withdrawals;

use std::sync::Arc;

pub use backlog::{Backlog, Visit, Work};
pub use handovers::{LiveRead, renumbered};
use items::ItemState;
pub use items::{EffectOutcome, Phase, TRY_AGAIN, Unusable};
pub use members::{Members, Unwritten};
pub use overlaps::Overlaps;
pub use queue::{IN_FLIGHT, Window};
pub use schedule::Schedule;
pub use status_schedule::StatusSchedule;
pub use turn::{Role, Turn, Wanted};
pub use withdrawals::Withdrawals;

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
