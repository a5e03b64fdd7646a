//! What authorises a command to an agent: the term that this process leads in, and the sequence of its commands.

use std::sync::atomic::{AtomicU64, Ordering};

use rackhand_core::lease::TermOutlier;
use rackhand_proto::v1;

use crate::leader::Leader;

/// The terms of this leader at agents, and the sequence numbers of its commands.
pub(super) struct Authority {
    leader: Leader,
    /// The name of the election, which agents keep apart from those of other clusters.
    election: String,
    counter: AtomicU64,
}

impl Authority {
    pub(super) fn new(leader: Leader, election: String) -> Self {
        Self {
            leader,
            election,
            counter: AtomicU64::new(0),
        }
    }

    /// The term in which this process leads now.
    pub(super) fn term(&self) -> Option<v1::Term> {
        let number = self.leader.term()?;
        Some(v1::Term {
            election: self.election.clone(),
            number,
            holder: self.leader.identity().to_owned(),
        })
    }

    /// Raises the term over that which an agent has accepted.
    ///
    /// # Errors
    /// The term of the agent is too high to be followed.
    pub(super) fn raise_term(
        &self,
        agent: &str,
        number: u64,
        highest: u64,
    ) -> Result<(), TermOutlier> {
        self.leader.raise_term(agent, number, highest)
    }

    /// Whether a hold of this election was requested by a controller of ours.
    pub(super) fn is_ours(&self, election: &str) -> bool {
        election == self.election
    }

    /// The next sequence number. One counter serves all hosts, so it also increases for each host.
    pub(super) fn sequence(&self) -> u64 {
        self.counter
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }
}
