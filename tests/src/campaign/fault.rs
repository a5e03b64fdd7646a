//! The faults of a campaign: which there are, how often each is chosen, and on what it acts.

use std::fmt;

/// A fault. It ends after some time; what it leaves behind is for Rackhand to deal with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The operating system of a host hangs, with its pods running on.
    HostHangs,
    /// The remediation of a host is deleted.
    RemediationDeleted,
    /// `kill -9` of a controller.
    ControllerKilled,
    /// SIGSTOP of a controller, later SIGCONT.
    ControllerStopped,
    /// The controllers' connections to the API server are reset.
    ApiCut,
    /// Nothing comes through between the controllers and the API server.
    ApiSilent,
    /// What passes between the controllers and the API server is late.
    ApiSlow,
    /// SIGSTOP of kube-apiserver.
    ApiServerStopped,
    /// SIGSTOP of etcd.
    EtcdStopped,
    /// `kill -9` of an agent.
    AgentKilled,
    /// `kill -9` of an agent, and its journal is lost.
    JournalLost,
    /// SIGSTOP of an agent.
    AgentStopped,
    /// The controllers' connections to an agent are reset.
    AgentCut,
    /// Nothing comes through between the controllers and an agent.
    AgentSilent,
    /// What passes between the controllers and an agent is late.
    AgentSlow,
    /// A BMC takes connections and never answers.
    BmcSilent,
    /// A BMC reports off, whatever the host does, until it takes a power-off.
    BmcReportsOff,
    /// A BMC carries out the next command and loses the answer.
    BmcLosesAnswer,
    /// A BMC takes commands and does nothing.
    BmcIgnoresCommands,
    /// A BMC restarts.
    BmcRestarts,
}

/// What a fault acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A host.
    Host,
    /// A controller.
    Controller,
    /// The way from the controllers to the API server, or the API server.
    Api,
    /// The agent of a rack, or the way to it.
    Agent,
}

impl Fault {
    /// Every fault, with its share among the faults that are chosen.
    pub const SHARES: [(Self, u32); 20] = [
        (Self::HostHangs, 40),
        (Self::RemediationDeleted, 4),
        (Self::ControllerKilled, 6),
        (Self::ControllerStopped, 6),
        (Self::ApiCut, 3),
        (Self::ApiSilent, 3),
        (Self::ApiSlow, 3),
        (Self::ApiServerStopped, 2),
        (Self::EtcdStopped, 2),
        (Self::AgentKilled, 6),
        (Self::JournalLost, 2),
        (Self::AgentStopped, 4),
        (Self::AgentCut, 4),
        (Self::AgentSilent, 4),
        (Self::AgentSlow, 3),
        (Self::BmcSilent, 6),
        (Self::BmcReportsOff, 4),
        (Self::BmcLosesAnswer, 6),
        (Self::BmcIgnoresCommands, 4),
        (Self::BmcRestarts, 4),
    ];

    /// What it acts on.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Self::HostHangs
            | Self::RemediationDeleted
            | Self::BmcSilent
            | Self::BmcReportsOff
            | Self::BmcLosesAnswer
            | Self::BmcIgnoresCommands
            | Self::BmcRestarts => Part::Host,
            Self::ControllerKilled | Self::ControllerStopped => Part::Controller,
            Self::ApiCut
            | Self::ApiSilent
            | Self::ApiSlow
            | Self::ApiServerStopped
            | Self::EtcdStopped => Part::Api,
            Self::AgentKilled
            | Self::JournalLost
            | Self::AgentStopped
            | Self::AgentCut
            | Self::AgentSilent
            | Self::AgentSlow => Part::Agent,
        }
    }

    /// Milliseconds that it may last; `None` for what happens at one moment.
    #[must_use]
    pub fn lasts(self) -> Option<std::ops::Range<u64>> {
        match self {
            Self::HostHangs
            | Self::RemediationDeleted
            | Self::ControllerKilled
            | Self::AgentKilled
            | Self::JournalLost
            | Self::BmcLosesAnswer
            | Self::BmcRestarts => None,
            Self::ApiServerStopped | Self::EtcdStopped => Some(300..3_000),
            Self::ControllerStopped => Some(500..10_000),
            Self::BmcReportsOff => Some(5_000..20_000),
            _ => Some(500..8_000),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostHangs => "host hangs",
            Self::RemediationDeleted => "remediation deleted",
            Self::ControllerKilled => "controller killed",
            Self::ControllerStopped => "controller stopped",
            Self::ApiCut => "connections to the API cut",
            Self::ApiSilent => "connections to the API silent",
            Self::ApiSlow => "connections to the API slow",
            Self::ApiServerStopped => "kube-apiserver stopped",
            Self::EtcdStopped => "etcd stopped",
            Self::AgentKilled => "agent killed",
            Self::JournalLost => "agent killed and its journal lost",
            Self::AgentStopped => "agent stopped",
            Self::AgentCut => "connections to an agent cut",
            Self::AgentSilent => "connections to an agent silent",
            Self::AgentSlow => "connections to an agent slow",
            Self::BmcSilent => "BMC silent",
            Self::BmcReportsOff => "BMC reports off",
            Self::BmcLosesAnswer => "BMC loses an answer",
            Self::BmcIgnoresCommands => "BMC ignores commands",
            Self::BmcRestarts => "BMC restarts",
        })
    }
}
