//! How far an agent may raise the term of a leader.
//!
//! An agent refuses a term because it knows a higher one. That is correct after the Lease was deleted
//! and created again: its terms start from 1 again. It is wrong if the agent is broken or hostile:
//! following it would use up the terms of the election, or change the term so often that no other agent
//! keeps up with the claims. So two bounds hold for each process.

use std::collections::BTreeMap;

/// How far above its first term a process follows the terms of agents. An election uses one term for
/// each change of the leader, so a correct agent is not that far ahead.
pub const LONGEST_JUMP: u64 = 10_000;

/// How often one process follows refusals of the same agent. After a claim above the term that the agent
/// knows, only another leader of the same election raises that term again.
pub const RAISES_PER_AGENT: u32 = 3;

/// Why the refusal of a claimed term by an agent is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TermOutlier {
    /// The term that the agent knows is too far ahead.
    #[error(
        "term outlier: this agent has accepted term {highest} of this election, and a leader does not \
         raise its term above {limit} because of an agent. If the agent is wrong, set its term back on \
         its machine (rackhand-agent term set-back); if the Lease was deleted and {highest} was reached \
         before, set spec.leaseTransitions of the Lease to {highest}"
    )]
    TooHigh {
        /// The term that the agent reported as its highest.
        highest: u64,
        /// The highest term that is followed.
        limit: u64,
    },
    /// The agent has refused again after each raise.
    #[error(
        "term outlier: this agent has refused {times} terms one after the other, now for term \
         {highest}, and the leader no longer raises its term for it. Look for a second controller with \
         the same election, or set the agent's term back on its machine (rackhand-agent term set-back)"
    )]
    TooOften {
        /// The term that the agent reported as its highest.
        highest: u64,
        /// How many refusals of the agent were followed.
        times: u32,
    },
    /// The agent refused a term although the highest term that it reports is lower.
    #[error(
        "term outlier: this agent refuses term {claimed} although the highest term that it knows is \
         {highest}. Restart or replace it"
    )]
    Contradictory {
        /// The term that was claimed.
        claimed: u64,
        /// The term that the agent reported as its highest.
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
    /// Records the first term in which this process leads.
    pub(super) fn lead(&mut self, term: u64) {
        self.base.get_or_insert(term);
    }

    /// Decides whether to follow an agent that refused `claimed`, and counts it if so. `lowest`: the
    /// lowest term that may be written next.
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
