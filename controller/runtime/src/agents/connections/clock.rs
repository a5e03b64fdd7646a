//! The clock of an agent, as known from its responses.
//!
//! A request to begin an operation carries the latest time at which it may begin, by the clock of the agent.
//! A request that is in flight for longer would command a host after a newer decision about that host (F6).
//! Wall clocks are not compared.

use std::time::{Duration, Instant};

use rackhand_proto::{
    convert::{duration_if_set, duration_to_proto},
    v1,
};

/// A time since the start of an agent, and when this process received it.
#[derive(Debug, Clone)]
pub(in crate::agents) struct AgentClock {
    instance: String,
    since_start: Duration,
    answered: Instant,
}

impl AgentClock {
    /// The clock from a response; `None` if the version of the agent does not report it.
    pub(in crate::agents) fn of(claimed: &v1::ClaimTermResponse) -> Option<Self> {
        let since_start = duration_if_set(claimed.since_start.as_ref());
        Some(Self {
            instance: claimed.instance.clone(),
            since_start: since_start.ok()??,
            answered: Instant::now(),
        })
    }

    /// The latest time at which a request that is sent now, and may be on its way `within` this time, may begin its
    /// operation. The agent's clock is ahead of this estimate by the latency of its response, so the estimate is never too
    /// late.
    pub(in crate::agents) fn latest(&self, within: Duration) -> v1::AgentTime {
        let now = self.since_start.saturating_add(self.answered.elapsed());
        v1::AgentTime {
            instance: self.instance.clone(),
            since_start: Some(duration_to_proto(now.saturating_add(within))),
        }
    }
}
