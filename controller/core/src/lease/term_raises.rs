//! How far an agent may raise the term of a leader.
//!
//! An agent refuses a term because it knows a higher one. That is right after the Lease was deleted
//! and made anew: its terms start from 1 again. It is wrong where the agent is broken or hostile, and
//! following it would use up the terms of the election, or change the term so often that no other agent
//! keeps up with the claims. So two bounds hold for each process.

use std::collections::BTreeMap;

/// How far above its first term a process follows what agents answer. An election spends one term for
/// each change of the leader, so an honest agent is not that far ahead.
pub const LONGEST_JUMP: u64 = 10_000;

/// How often one process follows the same agent. After a claim that went above what the agent knows,
/// only another leader of the same election raises it again.
pub const RAISES_PER_AGENT: u32 = 3;

/// An agent whose answer to a claimed term is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TermOutlier {
    /// The term that it knows is too far ahead.
    #[error(
        "term outlier: this agent has promised itself to term {highest} of this election, and no \
         leader goes above {limit} at an agent's word. If the agent is wrong, set its term back on its \
         machine (rackhand-agent term set-back); if the Lease was deleted and {highest} was reached \
         before, set spec.leaseTransitions of the Lease to {highest}"
    )]
    TooHigh {
        /// What it answered.
        highest: u64,
        /// The highest term that is followed.
        limit: u64,
    },
    /// It has refused again after each raise.
    #[error(
        "term outlier: this agent has refused {times} terms one after the other, now for term \
         {highest}, and is not followed any more. Look for a second controller with the same election, \
         or set the agent's term back on its machine (rackhand-agent term set-back)"
    )]
    TooOften {
        /// What it answered.
        highest: u64,
        /// How many of its answers were followed.
        times: u32,
    },
    /// It refused a term for a lower one.
    #[error(
        "term outlier: this agent refuses term {claimed} although the highest term that it knows is \
         {highest}. Restart or replace it"
    )]
    Contradictory {
        /// What was claimed.
        claimed: u64,
        /// What it answered.
        highest: u64,
    },
}

/// Refusals that this process has followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct TermRaises {
    /// The term from which jumps are measured.
    base: Option<u64>,
    by_agent: BTreeMap<String, u32>,
}

impl TermRaises {
    /// The first term in which this process leads.
    pub(super) fn lead(&mut self, term: u64) {
        self.base.get_or_insert(term);
    }

    /// Judges the answer of an agent that refused `claimed`, and counts it where it is followed.
    /// `lowest`: the lowest term that may be written next.
    pub(super) fn judge(
        &mut self,
        agent: &str,
        claimed: u64,
        highest: u64,
        lowest: u64,
    ) -> Result<(), TermOutlier> {
        if highest < claimed {
            return Err(TermOutlier::Contradictory { claimed, highest });
        }
        if highest < lowest {
            // The next write is above it already.
            return Ok(());
        }
        let limit = self.base.unwrap_or(lowest).saturating_add(LONGEST_JUMP);
        if highest >= limit.min(super::MAX_TERM) {
            return Err(TermOutlier::TooHigh { highest, limit });
        }
        let times = self.by_agent.entry(agent.to_owned()).or_default();
        if *times >= RAISES_PER_AGENT {
            let times = *times;
            return Err(TermOutlier::TooOften { highest, times });
        }
        *times = times.saturating_add(1);
        Ok(())
    }
}
