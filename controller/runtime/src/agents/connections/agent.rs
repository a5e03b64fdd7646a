//! The state of one agent.

use std::sync::Arc;

use rackhand_api::kinds::rack_agent::RackAgentSpec;
use rackhand_core::{
    lease::TermOutlier,
    remediation::{AgentId, ServingState},
};
use rackhand_proto::v1;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{clock::AgentClock, required::UpgradeRequired, serving::AgentConnection};
use crate::{
    agents::{Client, journals::SeenJournals},
    store::object::Key,
};

/// The connection state of an agent.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::agents) enum State {
    Silent { why: ConnectError },
    Ready { term: u64, standby: bool },
}

/// Why an agent is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The agent does not answer, or answers incorrectly.
    #[error("{0}")]
    Unreachable(String),
    /// The agent rejects the leader's term, and the leader does not raise its term to that of the agent.
    #[error(transparent)]
    TermOutlier(#[from] TermOutlier),
    /// The version of the agent lacks a feature that safety requires.
    #[error(transparent)]
    UpgradeRequired(#[from] UpgradeRequired),
}

impl ConnectError {
    /// The reason of the condition and of the Event.
    pub(in crate::agents) fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "NotConnected",
            Self::TermOutlier(_) => "TermOutlier",
            Self::UpgradeRequired(_) => "UpgradeRequired",
        }
    }
}

impl From<String> for ConnectError {
    fn from(why: String) -> Self {
        Self::Unreachable(why)
    }
}

/// One agent that a RackAgent names.
pub(in crate::agents) struct Agent {
    pub(super) spec: RackAgentSpec,
    pub(super) state: State,
    pub(super) client: Option<Client>,
    /// The agent's clock; `None` before its first response.
    pub(super) clock: Option<AgentClock>,
    pub(super) hosts: Vec<v1::Host>,
    /// The instance id of the agent's journal; empty if it does not report one.
    pub(super) journal: String,
    pub(super) seen_journals: SeenJournals,
    /// The journals in the status of the RackAgent.
    pub(super) reported_journals: SeenJournals,
    /// The holds in the agent's journal.
    pub(super) holds: Vec<v1::Hold>,
    pub(super) seen: bool,
    /// Whether the agent was probed, with or without success.
    pub(super) tried: bool,
    /// Ends the wait until the next probe.
    pub(super) probe_now: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

impl Agent {
    /// An agent that was not probed yet.
    pub(super) fn new(
        spec: RackAgentSpec,
        seen_journals: SeenJournals,
        stop: CancellationToken,
    ) -> Self {
        Self {
            spec,
            state: State::Silent {
                why: "not connected yet".to_owned().into(),
            },
            client: None,
            clock: None,
            hosts: Vec::new(),
            journal: String::new(),
            reported_journals: seen_journals.clone(),
            seen_journals,
            holds: Vec::new(),
            seen: false,
            tried: false,
            probe_now: Arc::default(),
            stop,
        }
    }

    /// The connection, if the agent answers.
    pub(super) fn connected(&self, key: &Key) -> Option<AgentConnection> {
        match (&self.state, &self.client, &self.clock) {
            (State::Ready { term, standby }, Some(client), Some(clock)) => Some(AgentConnection {
                client: client.clone(),
                term: *term,
                standby: *standby,
                clock: clock.clone(),
                id: AgentId {
                    agent: key.name.clone(),
                    journal: self.journal.clone(),
                },
            }),
            _ => None,
        }
    }
    /// What it says about whether it may go on serving a rack.
    pub(super) fn serving_state(&self, rack: &str) -> ServingState {
        if self.spec.rack != rack {
            ServingState::Silent
        } else if !self.tried {
            ServingState::Untried
        } else if matches!(self.state, State::Ready { .. }) {
            ServingState::Answers
        } else {
            ServingState::Silent
        }
    }
}
