//! Shared causes: whether hosts that failed together failed for one reason, and which one is likely.
//!
//! Owns: the failures of the fleet by what hosts share ([`Failures`]), the judgement of them
//! ([`judge`]), and the sentence that a person reads ([`Cause`]). A cause only ever holds remediations
//! that have begun nothing, and never for longer than its rules say. Must never let a remediation
//! begin: every other rule still applies when a cause ends.

mod cause;
mod choice;
mod failures;
mod judge;
mod topology;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::placement::Placement;

pub use cause::{BmcCounts, BmcReading, Cause, Likely};
pub use failures::{Failure, Failures};
pub use judge::{Judgement, judge};
pub use topology::{DiscoveredTopology, TopologyConflict};

/// A host, by its cluster and Node: `namespace/cluster/node`.
pub type HostName = Arc<str>;

/// Something that hosts share, and that can fail for all of them at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain {
    /// What kind of thing the hosts share.
    pub kind: DomainKind,
    /// Name of the rack, PDU, switch, kernel version or cluster.
    pub name: Arc<str>,
}

/// What failed hosts can share.
// Of several that explain the same failures equally well, the first is named.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum DomainKind {
    /// The rack whose agent serves them.
    Rack,
    /// A PDU that feeds them, by the annotation rackhand.dev/pdus.
    #[serde(rename = "PDU")]
    Pdu,
    /// A switch that connects them, by the annotation rackhand.dev/switches.
    Switch,
    /// The kernel version of their Nodes, within a cluster.
    Kernel,
    /// The workload cluster of their Nodes.
    Cluster,
}

/// When failures count as one cause, and how long it holds remediations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedCauseRules {
    /// Longest time between the first and the last failure. For a kernel version it is
    /// [`ROLLOUT_WINDOW`], because a rollout reaches Nodes one after the other.
    pub window: Duration,
    /// Hosts that must have failed.
    pub min_hosts: u32,
    /// Share of the hosts of the domain that must have failed, in percent.
    pub min_percent: u32,
    /// How long a failure is waited on for others before its remediation may begin.
    pub settling: Duration,
    /// How long a cause holds a remediation, from the first one that it holds or from the failure of the
    /// host, whichever is later.
    pub hold: Duration,
    /// How long the remaining hosts are given once most hosts of a cause have recovered.
    pub recovery: Duration,
    /// What happens after `hold`.
    pub on_timeout: OnTimeout,
}

/// Window of a kernel version. A rolling update of a few Nodes an hour is common, and a Node whose
/// kernel fails stays failed, so that all failures of an hour can be seen together.
pub const ROLLOUT_WINDOW: Duration = Duration::from_secs(3600);

/// Hosts that must fail with a kernel version, if the rules demand more. A rollout begins with few Nodes:
/// two of at most four that fail within an hour are enough, while the others of the cluster do not.
pub const KERNEL_MIN_HOSTS: u32 = 2;

/// What happens to held remediations when nobody has decided in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OnTimeout {
    /// Remediations start unless another rule blocks them.
    #[default]
    Proceed,
    /// They are held until most of the failed hosts have recovered, or a person approves.
    Stop,
}

/// Why a remediation waits because of other failures.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CauseHold {
    /// The cause that holds it; `None`: it only waits to see whether other hosts fail as well.
    pub cause: Option<CauseSummary>,
    /// What holds it, and what ends the hold.
    pub detail: String,
    /// When the hold ends by itself; `None`: when what `detail` names has happened.
    pub until: Option<Timestamp>,
}

// === impl Domain ===

impl Domain {
    /// A domain by its kind and name.
    pub fn new(kind: DomainKind, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        Self { kind, name }
    }

    /// What a host at this place shares with others. A host that two PDUs feed fails with neither of
    /// them alone, so that what counts is which PDUs feed it together; with switches it is the same.
    pub fn of(placement: &Placement) -> BTreeSet<Self> {
        let one = |kind, name: &Option<String>| name.as_deref().map(|name| Self::new(kind, name));
        let together = |kind, names: &BTreeSet<String>| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            (!names.is_empty()).then(|| Self::new(kind, names.join(" and ")))
        };
        let kernel = placement.cluster.as_ref().zip(placement.kernel.as_ref());
        let kernel =
            kernel.map(|(cluster, kernel)| format!("{kernel}{}{cluster}", cause::OF_CLUSTER));
        let single = [
            one(DomainKind::Rack, &placement.rack),
            one(DomainKind::Kernel, &kernel),
            one(DomainKind::Cluster, &placement.cluster),
            together(DomainKind::Pdu, &placement.pdus),
            together(DomainKind::Switch, &placement.switches),
        ];
        single.into_iter().flatten().collect()
    }

    /// Whether hosts of several racks belong to it as a rule.
    fn is_wide(&self) -> bool {
        matches!(self.kind, DomainKind::Kernel | DomainKind::Cluster)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.noun(), self.name)
    }
}

impl DomainKind {
    /// Every kind, in the order of precedence.
    pub const ALL: [Self; 5] = [
        Self::Rack,
        Self::Pdu,
        Self::Switch,
        Self::Kernel,
        Self::Cluster,
    ];

    /// The CamelCase word of the status and the metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rack => "Rack",
            Self::Pdu => "PDU",
            Self::Switch => "Switch",
            Self::Kernel => "Kernel",
            Self::Cluster => "Cluster",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Rack => "rack",
            Self::Pdu => "PDU",
            Self::Switch => "switch",
            Self::Kernel => "kernel",
            Self::Cluster => "cluster",
        }
    }
}

/// A cause, as records of remediations name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CauseSummary {
    /// What the failed hosts share.
    pub domain: Domain,
    /// What is likely.
    pub likely: Likely,
    /// The arithmetic and the conclusion, as one sentence.
    pub message: String,
}

/// `at` plus a duration, or the end of time.
fn after(at: Timestamp, time: Duration) -> Timestamp {
    let time = jiff::SignedDuration::try_from(time).unwrap_or(jiff::SignedDuration::MAX);
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
