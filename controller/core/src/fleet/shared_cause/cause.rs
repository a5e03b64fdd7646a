//! One cause: its arithmetic, what is likely, and the sentence that says both.

use std::fmt;

use jiff::Timestamp;

use super::{
    CauseHold, CauseSummary, Domain, DomainKind, OnTimeout, SharedCauseRules, after,
    judge::min_hosts,
};
use crate::values::duration::time_span;

/// Separates the kernel version from the cluster in the name of a domain.
pub(super) const OF_CLUSTER: &str = " of cluster ";

/// What a BMC reported of a failed host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BmcReading {
    /// The BMC reports power on.
    On,
    /// The BMC reports power off.
    Off,
    /// The BMC does not answer its agent, which answers.
    NoResponse,
    /// The agent of the rack does not answer.
    AgentLost,
}

/// The readings of the failed hosts of a cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BmcCounts {
    /// BMCs that report power on.
    pub on: u32,
    /// BMCs that report power off.
    pub off: u32,
    /// BMCs that do not answer.
    pub no_response: u32,
    /// Hosts whose agent does not answer.
    pub agent_lost: u32,
}

/// What is likely behind a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Likely {
    /// The BMCs have not been read yet.
    Unknown,
    /// The hosts have no power.
    PowerLoss,
    /// The hosts are on, and their network is not.
    Network,
    /// Neither the hosts nor the agent of their rack can be reached.
    RackUnreachable,
    /// A kernel version.
    Kernel,
    /// The API server of the cluster, its network, or a change of all Nodes.
    ClusterWide,
}

/// A cause that several failed hosts share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cause {
    /// What the failed hosts share.
    pub domain: Domain,
    /// What exactly these hosts share as well.
    pub also: Vec<Domain>,
    /// Most hosts that have been failed at once.
    pub failed: u32,
    /// Hosts that are failed now.
    pub still_failed: u32,
    /// Hosts of the domain.
    pub total: u32,
    /// When the first of these hosts failed.
    pub first: Timestamp,
    /// When the last of these hosts failed.
    pub last: Timestamp,
    /// What the BMCs of the failed hosts report.
    pub bmcs: BmcCounts,
    /// When the cause was recognised.
    pub since: Timestamp,
    /// When it held the first remediation.
    pub held_since: Option<Timestamp>,
    /// Since when fewer hosts are failed than make a cause.
    pub few_since: Option<Timestamp>,
}

impl BmcCounts {
    /// Counts the reading of one BMC.
    pub fn add(&mut self, reading: BmcReading) {
        let count = match reading {
            BmcReading::On => &mut self.on,
            BmcReading::Off => &mut self.off,
            BmcReading::NoResponse => &mut self.no_response,
            BmcReading::AgentLost => &mut self.agent_lost,
        };
        *count = count.saturating_add(1);
    }

    /// Hosts with a reading.
    pub fn read(self) -> u32 {
        self.on + self.off + self.no_response + self.agent_lost
    }
}

impl Likely {
    /// Every value, for the series of a metric.
    pub const ALL: [Self; 6] = [
        Self::Unknown,
        Self::PowerLoss,
        Self::Network,
        Self::RackUnreachable,
        Self::Kernel,
        Self::ClusterWide,
    ];

    /// The CamelCase word of the status and the metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::PowerLoss => "PowerLoss",
            Self::Network => "Network",
            Self::RackUnreachable => "RackUnreachable",
            Self::Kernel => "Kernel",
            Self::ClusterWide => "ClusterWide",
        }
    }
}

impl Cause {
    /// What is likely, by what the hosts share and what most of their BMCs report.
    pub fn likely(&self) -> Likely {
        let BmcCounts {
            off,
            no_response,
            agent_lost,
            ..
        } = self.bmcs;
        let read = self.bmcs.read();
        let is_most = |count: u32| count.saturating_mul(2) > read;
        match self.domain.kind {
            _ if read == 0 => Likely::Unknown,
            _ if is_most(agent_lost) => Likely::RackUnreachable,
            // A switch may carry the BMCs as well.
            DomainKind::Switch if !is_most(off) => Likely::Network,
            _ if is_most(off + no_response) => Likely::PowerLoss,
            DomainKind::Rack | DomainKind::Pdu | DomainKind::Switch => Likely::Network,
            DomainKind::Kernel => Likely::Kernel,
            DomainKind::Cluster => Likely::ClusterWide,
        }
    }

    /// When the cause no longer holds remediations by itself; `None` if only a person or the recovery
    /// of hosts ends that.
    pub fn until(&self, rules: &SharedCauseRules, now: Timestamp) -> Option<Timestamp> {
        let until = after(self.held_since.unwrap_or(now), rules.hold);
        (rules.on_timeout == OnTimeout::Proceed).then_some(until)
    }

    /// What records of remediations keep of it.
    pub fn summary(&self) -> CauseSummary {
        CauseSummary {
            domain: self.domain.clone(),
            likely: self.likely(),
            message: self.to_string(),
        }
    }

    /// Hosts that must be failed for the cause to last: those of a new cause, and half of those that
    /// have failed.
    pub(super) fn enough(&self, rules: &SharedCauseRules) -> u32 {
        self.failed.div_ceil(2).max(min_hosts(rules, &self.domain))
    }

    /// The hold of a remediation of the domain, whose host failed at `failed`; `None` once its time is
    /// over. Of a host that fails later, as in a rollout, the time begins later.
    pub(super) fn hold(
        &self,
        rules: &SharedCauseRules,
        failed: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<CauseHold> {
        let begun = self.held_since.unwrap_or(now);
        let until = after(failed.map_or(begun, |failed| begun.max(failed)), rules.hold);
        let until = (rules.on_timeout == OnTimeout::Proceed).then_some(until);
        if until.is_some_and(|until| until <= now) {
            return None;
        }
        let most = until.map_or(String::new(), |_| {
            format!("for at most {}, ", time_span(rules.hold))
        });
        let detail = format!(
            "{self}; it is held {most}until fewer than {} of these hosts have been failed for {}, or until a \
             person begins it: kubectl rackhand approve",
            self.enough(rules),
            time_span(rules.recovery),
        );
        Some(CauseHold {
            cause: Some(self.summary()),
            detail,
            until,
        })
    }

    fn bmc_words(&self) -> String {
        let read = self.bmcs.read();
        let BmcCounts {
            on,
            off,
            no_response,
            agent_lost,
        } = self.bmcs;
        let of = |count: u32, what: &str| match count {
            0 => None,
            all if all == read => Some(format!("all {read} BMCs that were read {what}")),
            some => Some(format!("{some} of {read} BMCs {what}")),
        };
        let words = [
            of(on, "answer and report power on"),
            of(off, "report power off"),
            of(no_response, "do not answer"),
            of(
                agent_lost,
                "cannot be read because their agent does not answer",
            ),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Cause {
    /// The arithmetic and the conclusion, as one sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, total) = (self.failed, self.total);
        let took = self.last.duration_since(self.first);
        let took = std::time::Duration::try_from(took).unwrap_or_default();
        write!(f, "{failed} of {total} hosts of {} failed ", self.domain)?;
        match took.as_secs() {
            0 => write!(f, "in the same second")?,
            _ => write!(f, "within {}", time_span(took))?,
        }
        for domain in &self.also {
            write!(f, ", the same hosts share {domain}")?;
        }
        let bmcs = self.bmc_words();
        let than = format!("is likelier than {failed} failed hosts");
        match self.likely() {
            Likely::Unknown => write!(f, "; their BMCs have not been read yet"),
            Likely::PowerLoss => write!(f, "; {bmcs}: a loss of power {than}"),
            Likely::Network => write!(f, "; {bmcs}: the network {than}"),
            Likely::RackUnreachable => {
                write!(f, "; {bmcs}: the power or the uplink of the rack {than}")
            }
            Likely::Kernel => write!(f, "; {bmcs}: this kernel {than}"),
            Likely::ClusterWide => write!(
                f,
                "; {bmcs}: the API server, its network or a change of all Nodes {than}"
            ),
        }
    }
}
