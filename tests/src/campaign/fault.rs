//! The faults of a campaign, with frequency and target.

use std::fmt;

/// A fault. It ends after some time; Rackhand must recover from its effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The operating system of a host hangs while its pods keep running.
    HostHangs,
    /// The remediation of a host is deleted.
    RemediationDeleted,
    /// `kill -9` of a controller.
    ControllerKilled,
    /// SIGSTOP of a controller, later SIGCONT.
    ControllerStopped,
    /// The controllers' connections to the API server are reset.
    ApiCut,
    /// Connections between the controllers and the API server stay open without traffic.
    ApiSilent,
    /// Traffic between the controllers and the API server is delayed.
    ApiSlow,
    /// SIGSTOP of kube-apiserver.
    ApiServerStopped,
    /// SIGSTOP of etcd.
    EtcdStopped,
    /// `kill -9` of kube-apiserver, which is started again later.
    ApiServerKilled,
    /// `kill -9` of etcd, which is started again later.
    EtcdKilled,
    /// The wall clock of a controller is set, by at most 12 s: the clocks of two controllers agree
    /// within 30 s (docs/safety.md, What is assumed).
    ControllerClockSet,
    /// The wall clock of an agent is set, by at most ten minutes.
    AgentClockSet,
    /// The disk with the journal of an agent is full.
    DiskFull,
    /// `kill -9` of an agent.
    AgentKilled,
    /// `kill -9` of an agent, and its journal is lost.
    JournalLost,
    /// SIGSTOP of an agent.
    AgentStopped,
    /// The controllers' connections to an agent are reset.
    AgentCut,
    /// Connections between the controllers and an agent stay open without traffic.
    AgentSilent,
    /// Traffic between the controllers and an agent is delayed.
    AgentSlow,
    /// A BMC accepts connections and never answers.
    BmcSilent,
    /// The system of a BMC is answered with the name of another resource.
    BmcMisnames,
    /// A BMC rejects the credentials for its system, and accepts them for everything else.
    BmcRefusesSystem,
    /// A BMC reports off regardless of the host, until it accepts a power-off.
    BmcReportsOff,
    /// A BMC loses the state of a host that runs: it reports off, and refuses a power-off as already off.
    BmcForgets,
    /// A BMC carries out the next command and loses the response.
    BmcLosesAnswer,
    /// A BMC accepts commands and ignores them.
    BmcIgnoresCommands,
    /// A BMC restarts.
    BmcRestarts,
    /// Datagrams from and to an IPMI BMC are lost, doubled, late, reordered, cut and changed.
    DatagramsBad,
}

/// The target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A host.
    Host,
    /// A host with an IPMI BMC.
    IpmiHost,
    /// A controller.
    Controller,
    /// The API server, or the connection of the controllers to it.
    Api,
    /// The agent of a rack, or the connection to it.
    Agent,
}

impl Fault {
    /// Every fault with its relative frequency.
    pub const SHARES: [(Self, u32); 29] = [
        (Self::HostHangs, 40),
        (Self::RemediationDeleted, 4),
        (Self::ControllerKilled, 6),
        (Self::ControllerStopped, 6),
        (Self::ApiCut, 3),
        (Self::ApiSilent, 3),
        (Self::ApiSlow, 3),
        (Self::ApiServerStopped, 2),
        (Self::EtcdStopped, 2),
        (Self::ApiServerKilled, 1),
        (Self::EtcdKilled, 1),
        (Self::ControllerClockSet, 4),
        (Self::AgentClockSet, 4),
        (Self::DiskFull, 4),
        (Self::AgentKilled, 6),
        (Self::JournalLost, 2),
        (Self::AgentStopped, 4),
        (Self::AgentCut, 4),
        (Self::AgentSilent, 4),
        (Self::AgentSlow, 3),
        (Self::BmcSilent, 6),
        (Self::BmcMisnames, 4),
        (Self::BmcRefusesSystem, 4),
        (Self::BmcReportsOff, 4),
        (Self::BmcForgets, 0),
        (Self::BmcLosesAnswer, 6),
        (Self::BmcIgnoresCommands, 4),
        (Self::BmcRestarts, 4),
        (Self::DatagramsBad, 6),
    ];

    /// The target of the fault.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Self::HostHangs
            | Self::RemediationDeleted
            | Self::BmcSilent
            | Self::BmcMisnames
            | Self::BmcRefusesSystem
            | Self::BmcReportsOff
            | Self::BmcForgets
            | Self::BmcLosesAnswer
            | Self::BmcIgnoresCommands
            | Self::BmcRestarts => Part::Host,
            Self::DatagramsBad => Part::IpmiHost,
            Self::ControllerKilled | Self::ControllerStopped | Self::ControllerClockSet => {
                Part::Controller
            }
            Self::ApiCut
            | Self::ApiSilent
            | Self::ApiSlow
            | Self::ApiServerStopped
            | Self::EtcdStopped
            | Self::ApiServerKilled
            | Self::EtcdKilled => Part::Api,
            Self::AgentKilled
            | Self::JournalLost
            | Self::AgentStopped
            | Self::AgentCut
            | Self::AgentSilent
            | Self::AgentSlow
            | Self::AgentClockSet
            | Self::DiskFull => Part::Agent,
        }
    }

    /// Range of the duration in milliseconds; `None` for a momentary fault.
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
            Self::ApiServerKilled | Self::EtcdKilled => Some(100..1_000),
            Self::ControllerStopped => Some(500..10_000),
            Self::BmcReportsOff
            | Self::BmcForgets
            | Self::ControllerClockSet
            | Self::AgentClockSet => Some(5_000..20_000),
            _ => Some(500..8_000),
        }
    }
}

impl Fault {
    /// Whether the BMC reports off for a host that runs.
    pub(super) fn misreports_off(self) -> bool {
        matches!(self, Self::BmcReportsOff | Self::BmcForgets)
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
            Self::ApiServerKilled => "kube-apiserver killed",
            Self::EtcdKilled => "etcd killed",
            Self::ControllerClockSet => "clock of a controller set",
            Self::AgentClockSet => "clock of an agent set",
            Self::DiskFull => "disk of an agent full",
            Self::AgentKilled => "agent killed",
            Self::JournalLost => "agent killed and its journal lost",
            Self::AgentStopped => "agent stopped",
            Self::AgentCut => "connections to an agent cut",
            Self::AgentSilent => "connections to an agent silent",
            Self::AgentSlow => "connections to an agent slow",
            Self::BmcSilent => "BMC silent",
            Self::BmcMisnames => "BMC names another resource",
            Self::BmcRefusesSystem => "BMC refuses its system",
            Self::BmcReportsOff => "BMC reports off",
            Self::BmcForgets => "BMC forgets that its host is on",
            Self::BmcLosesAnswer => "BMC loses an answer",
            Self::BmcIgnoresCommands => "BMC ignores commands",
            Self::BmcRestarts => "BMC restarts",
            Self::DatagramsBad => "datagrams of a BMC lost and changed",
        })
    }
}
