//! Other Nodes that may run on the host of a remediation (F14).
//!
//! A kubelet without a pinned name registers anew under another name after a boot, and the old Node stays, not
//! Ready, for good. Its host is healthy. An address alone never counts, nor does a Node that a naming reference
//! gives to another BMC: boards of a series may share one system UUID.

mod keys;
mod naming;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use jiff::Timestamp;
use rackhand_identity::{IdentityMatch, compare_system_uuids};

use super::super::{
    OperationView, State, Step, TaintOwner, WorkloadView, observation::workload_view::renewal_limit,
};

/// Longest text of a Node in a message.
const LONGEST_TEXT: usize = 80;
/// Prefix of CAPM3's providerIDs.
const METAL3_PROVIDER: &str = "metal3://";

/// What identifies a host towards the Nodes of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostIdentity {
    /// Name of the Node that is remediated, if there is one.
    pub node: Option<String>,
    /// System UUID that the kubelet of that Node reported; empty if unknown.
    pub node_uuid: String,
    /// Names of the host: in the inventory, of its BareMetalHost, and of a Machine without a Node.
    pub names: BTreeSet<String>,
    /// System UUIDs, as the BMC reports them and as the inventory has them.
    pub system_uuids: BTreeSet<String>,
    /// providerIDs of the Machine and of the Node.
    pub provider_ids: BTreeSet<String>,
    /// `namespace/name` and UID of the BareMetalHost.
    pub bare_metal_host: Option<(String, String)>,
}

/// The fields of a Node that identify its host. The kubelet writes all of them but the UID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// `metadata.name`.
    pub name: String,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: String,
    /// `spec.providerID`.
    pub provider_id: String,
    /// The label `metal3.io/uuid`: UID of a BareMetalHost.
    pub host_label: String,
}

/// The BMC to which a naming reference gives a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedHost {
    /// No reference names the host of the Node.
    None,
    /// A reference gives the Node to the host of the remediation.
    This,
    /// A reference gives the Node to another host.
    Other,
}

/// Whether the kubelet of a Node runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeLife {
    /// The Node is Ready.
    Ready,
    /// The Node is not Ready, and its Lease is renewed.
    Renewing,
    /// The Node is not Ready, and its Lease has not been watched for long enough.
    Undecided {
        /// When the Lease has been watched for long enough.
        until: Timestamp,
    },
    /// The Node is not Ready, and its Lease is not renewed.
    Silent,
    /// The Node is not Ready, and its Lease was not read.
    NotReady,
}

/// A Node other than the one that is remediated that may run on the same host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OtherNode {
    /// `metadata.name`.
    pub name: String,
    /// `spec.providerID`; empty if it has none.
    pub provider_id: String,
    /// What it has in common with the host, as a noun phrase for messages.
    pub shares: String,
    /// Whether its kubelet runs.
    pub life: NodeLife,
}

/// The Nodes of the cluster, compared with the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum OtherNodes {
    /// Nothing was compared: the decision does not depend on it, or the workload cluster cannot be reached.
    #[default]
    NotCompared,
    /// The workload cluster answers, and the comparison failed.
    Failed {
        /// The reason, as a clause for messages.
        why: String,
    },
    /// The Nodes that may run on the host. Empty if there is none.
    Compared(Vec<OtherNode>),
}

/// How the Nodes of the cluster are compared for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeComparison {
    /// The decision does not depend on them.
    None,
    /// By the index, which may lag.
    Indexed,
    /// By an index that was compared with a live list, and by the Leases of Nodes that are not Ready.
    Live,
}

/// How the Nodes are compared for the next decision (F14): live before the first power-off of an attempt, before
/// each later one that nothing was moved for, and before the taint is recorded as ours, which may be with the confirmed
/// off. `is_read`: the BMC was read since the end of the operation was known, see
/// [`Shell::read_since_end`](super::super::Shell::read_since_end).
pub fn node_comparison(
    state: Option<&State>,
    (operation, is_read): (Option<&OperationView>, bool),
    workload: &WorkloadView,
    now: Timestamp,
) -> NodeComparison {
    let Some(s) = state else {
        return NodeComparison::Indexed;
    };
    let is_ours = s.attempt.taint == Some(TaintOwner::Us);
    let is_due = s.retry_at.is_none_or(|at| at <= now);
    // Until then the Lease is waited for.
    let is_quiet = matches!(workload, WorkloadView::Present(node)
        if node.lease_quiet_at().is_none_or(|quiet| quiet <= now));
    match s.step {
        Step::Pending | Step::Retrying | Step::Booting | Step::Restoring => NodeComparison::Indexed,
        Step::Holding => NodeComparison::Live,
        Step::PoweringOff | Step::AwaitingConfirmation
            if s.attempt.taint.is_none() && operation.is_none() && is_due =>
        {
            NodeComparison::Live
        }
        Step::PoweringOff if s.attempt.taint.is_none() && is_read && is_quiet => {
            NodeComparison::Live
        }
        Step::ConfirmingOff if s.attempt.node.is_none() => NodeComparison::Live,
        Step::ConfirmingOff if s.attempt.taint.is_none() && is_quiet => NodeComparison::Live,
        Step::Tainting if !is_ours => NodeComparison::Live,
        _ => NodeComparison::None,
    }
}

impl HostIdentity {
    /// What a Node has in common with the host; `None` if nothing indicates that it runs there. A name counts only
    /// if the kubelets of both Nodes do not report different system UUIDs.
    pub fn shared_with(&self, node: &NodeIdentity) -> Option<String> {
        if self.node.as_ref() == Some(&node.name) {
            return None;
        }
        let compared = |with: &String| compare_system_uuids(with, &node.system_uuid);
        let of_node = compared(&self.node_uuid);
        let mut uuids = self.system_uuids.iter();
        if of_node == IdentityMatch::Same || uuids.any(|u| compared(u) == IdentityMatch::Same) {
            return Some(format!("the system UUID {}", shown(&node.system_uuid)));
        }
        if self.names_host(&node.provider_id) {
            return Some(format!("the providerID {}", shown(&node.provider_id)));
        }
        let host_uid = self.bare_metal_host.as_ref().map(|(_, uid)| uid);
        if host_uid.is_some_and(|uid| !uid.is_empty() && *uid == node.host_label) {
            return Some(format!(
                "the label metal3.io/uuid={}",
                shown(&node.host_label)
            ));
        }
        let has_name = self.names.contains(&node.name)
            || (self.node.as_deref()).is_some_and(|name| differ_by_domain(name, &node.name));
        (has_name && of_node != IdentityMatch::Different).then(|| "the name".into())
    }

    /// Whether a Node has nothing but the system UUID in common with the host, and one that is named for another BMC
    /// (`elsewhere`) has that too: it is then that other one, under another name, if it shares more with it.
    pub fn is_renamed_elsewhere<'a>(
        &self,
        node: &NodeIdentity,
        elsewhere: impl IntoIterator<Item = &'a NodeIdentity>,
    ) -> bool {
        let without_uuid = NodeIdentity {
            system_uuid: String::new(),
            ..node.clone()
        };
        let renames = |other: &NodeIdentity| {
            let uuids = compare_system_uuids(&other.system_uuid, &node.system_uuid);
            let has_provider = !node.provider_id.is_empty();
            let same_provider = has_provider && other.provider_id == node.provider_id;
            uuids == IdentityMatch::Same
                && (same_provider || differ_by_domain(&other.name, &node.name))
        };
        self.shared_with(&without_uuid).is_none() && elsewhere.into_iter().any(renames)
    }

    /// Whether a providerID is that of the host, in either form of CAPM3.
    fn names_host(&self, provider_id: &str) -> bool {
        if provider_id.is_empty() {
            return false;
        }
        if self.provider_ids.contains(provider_id) {
            return true;
        }
        let (Some((host, uid)), Some(id)) = (
            &self.bare_metal_host,
            provider_id.strip_prefix(METAL3_PROVIDER),
        ) else {
            return false;
        };
        let mut parts = id.split('/');
        match (parts.next(), parts.next()) {
            (Some(only), None) => !uid.is_empty() && only == uid,
            (Some(namespace), Some(name)) => host.split_once('/') == Some((namespace, name)),
            _ => false,
        }
    }
}

impl OtherNode {
    /// The Node as one that may run on the host; `None` if nothing indicates that, or a naming reference gives it
    /// to another BMC.
    pub fn of(
        host: &HostIdentity,
        node: &NodeIdentity,
        named: NamedHost,
        life: NodeLife,
    ) -> Option<Self> {
        if named == NamedHost::Other {
            return None;
        }
        Some(Self {
            name: node.name.clone(),
            provider_id: shown(&node.provider_id),
            shares: host.shared_with(node)?,
            life,
        })
    }

    /// Whether its kubelet runs, so that its host does.
    pub fn is_alive(&self) -> bool {
        matches!(self.life, NodeLife::Ready | NodeLife::Renewing)
    }
}

impl OtherNodes {
    /// The known Nodes that may run on the host.
    pub fn known(&self) -> &[OtherNode] {
        match self {
            Self::NotCompared | Self::Failed { .. } => &[],
            Self::Compared(nodes) => nodes,
        }
    }

    /// When the Leases of all Nodes have been watched for long enough; `None` if they have.
    pub fn decided_at(&self) -> Option<Timestamp> {
        let times = self.known().iter().filter_map(|node| match node.life {
            NodeLife::Undecided { until } => Some(until),
            _ => None,
        });
        times.max()
    }
}

/// The Leases of Nodes that are not Ready, as this process has read them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LeaseRenewals {
    seen: BTreeMap<String, Renewals>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Renewals {
    renewed: String,
    since: Timestamp,
    has_moved: bool,
}

impl LeaseRenewals {
    /// The Lease of a Node that is not Ready was read: `renewed` is its renewTime, and `duration` its
    /// leaseDurationSeconds. A kubelet uses a quarter of it as its renewal interval. It is not renewed if two
    /// reads more than that interval and 2 s apart show the same renewTime.
    pub fn observe(
        &mut self,
        node: &str,
        renewed: &str,
        duration: Duration,
        now: Timestamp,
    ) -> NodeLife {
        let first = || Renewals {
            renewed: renewed.to_owned(),
            since: now,
            has_moved: false,
        };
        let seen = self.seen.entry(node.to_owned()).or_insert_with(first);
        if seen.renewed != renewed || seen.since > now {
            let has_moved = seen.renewed != renewed;
            *seen = Renewals {
                has_moved,
                ..first()
            };
        }
        let until = seen.since.checked_add(renewal_limit(duration));
        let until = until.unwrap_or(Timestamp::MAX);
        match (until > now, seen.has_moved) {
            (true, true) => NodeLife::Renewing,
            (true, false) => NodeLife::Undecided { until },
            (false, _) => NodeLife::Silent,
        }
    }
}

/// The name without its domain.
fn label(name: &str) -> &str {
    name.split_once('.').map_or(name, |(label, _)| label)
}

/// Whether two names are those of one host in two domains, or with and without its domain.
fn differ_by_domain(a: &str, b: &str) -> bool {
    let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
    a != b && label(a) == label(b) && !is_address(a) && !is_address(b)
}

/// A text that a kubelet wrote, for messages.
fn shown(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests;
