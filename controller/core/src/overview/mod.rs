//! The overview of a controller: racks with their hosts, agents, health checks, and remediations, running
//! and finished.
//!
//! The status page and its JSON show it. A running remediation appears as its explanation
//! ([`RemediationView`]), unchanged. Must never decide anything: it only matches hosts, Nodes and
//! remediations.

mod hosts;
mod racks;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::explanation::RemediationView;

pub use racks::overview;

/// Everything that the overview is computed from.
#[derive(Debug, Clone, Default)]
pub struct OverviewFacts {
    /// The leading replica, which computes the overview.
    pub leader: LeaderView,
    /// The rack agents, in the order of their names.
    pub agents: Vec<AgentFacts>,
    /// All BareMetalHosts.
    pub bare_metal_hosts: Vec<BareMetalHostEntry>,
    /// The Nodes of all clusters.
    pub nodes: Vec<NodeEntry>,
    /// Clusters whose Nodes cannot be read, with the cause.
    pub unreachable: Vec<(String, String)>,
    /// The causes that several failed hosts share.
    pub shared_causes: Vec<SharedCauseEntry>,
    /// Planned work that is not over.
    pub maintenances: Vec<MaintenanceEntry>,
    /// The health checks that Rackhand evaluates.
    pub checks: Vec<CheckSummary>,
    /// The remediations that have not finished.
    pub running: Vec<RunningRemediation>,
    /// The remediations that have finished, the latest first.
    pub finished: Vec<FinishedRemediation>,
}

/// The replica that leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderView {
    /// Name of the replica.
    pub name: String,
    /// The term in which it leads.
    pub term: u64,
    /// When it became leader.
    pub since: Timestamp,
}

/// An agent, and what it reports.
#[derive(Debug, Clone, Default)]
pub struct AgentFacts {
    /// The agent as the overview shows it.
    pub view: AgentView,
    /// Name of the rack that the agent serves.
    pub rack: String,
    /// Networks (CIDR) of the BMCs that the agent reaches.
    pub bmc_networks: Vec<String>,
    /// The inventory of the agent.
    pub hosts: Vec<InventoryEntry>,
}

/// An agent of a rack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Name of the RackAgent.
    pub name: String,
    /// Whether it answers and has accepted the term of the leader.
    pub connected: bool,
    /// Whether another agent serves the rack.
    pub standby: bool,
    /// When the agent answered last; `None` if not since this replica leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Why the agent is not used; empty if it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A host of an inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InventoryEntry {
    /// Name of the host in the inventory.
    pub name: String,
    /// The Node that runs on it; empty if the inventory does not name it.
    pub node_name: String,
    /// The providerID of that Node; empty if unknown.
    pub provider_id: String,
    /// The system UUID; empty if unknown.
    pub system_uuid: String,
    /// Position of the host in the rack; empty if unknown.
    pub position: String,
    /// The remediation or person that keeps the host off; empty if none.
    pub held_by: String,
}

/// The fields of a BareMetalHost that the overview uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BareMetalHostEntry {
    /// `namespace/name`.
    pub name: String,
    /// `spec.bmc.address`.
    pub address: String,
    /// Label `rackhand.dev/rack`.
    pub rack: Option<String>,
    /// `status.poweredOn`.
    pub powered_on: Option<bool>,
    /// The Node of its Machine: cluster and name.
    pub node: Option<(String, String)>,
}

/// The fields of a Node that the overview uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeEntry {
    /// The cluster of the Node, `namespace/name`; empty for the cluster of the controller.
    pub cluster: String,
    /// Name of the Node.
    pub name: String,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: Option<String>,
    /// Status of the condition Ready.
    pub ready: NodeReady,
    /// When that status began.
    pub since: Option<Timestamp>,
    /// Message of the condition FencingUnavailable, while that is True.
    pub fencing_unavailable: Option<String>,
}

/// Status of the condition Ready of a Node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeReady {
    /// The kubelet is ready.
    True,
    /// The kubelet is not ready.
    False,
    /// The kubelet does not report, or the condition is missing.
    #[default]
    Unknown,
}

/// A health check with its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckSummary {
    /// `MachineHealthCheck` or `NodeHealthCheck`.
    pub kind: String,
    /// API group of the kind.
    pub group: String,
    /// Namespace of the health check; empty for a check of Nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the health check.
    pub name: String,
    /// Number of targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u32>,
    /// Number of healthy targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<u32>,
    /// How many more targets may fail before remediation stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediations_allowed: Option<u32>,
    /// The limit as the check states it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// Why remediation is not allowed, or what is wrong with the check.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
}

/// A remediation that runs in the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRemediation {
    /// Rack and name of the host.
    pub host: Option<(String, String)>,
    /// Cluster and name of the Node.
    pub node: Option<(String, String)>,
    /// The latest power reading, as the BMC reported it.
    pub power: Option<String>,
    /// The health check or trigger that made it.
    pub requested_by: Option<String>,
    /// The steps so far.
    pub timeline: Vec<TimelineEntry>,
    /// The explanation of the remediation.
    pub view: RemediationView,
}

/// A step of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// Name of the step, like `Draining`.
    pub step: String,
    /// When the step began.
    pub at: Timestamp,
}

impl TimelineEntry {
    /// The entry by another clock, which is ahead by `by`.
    #[must_use]
    pub fn moved(mut self, by: SignedDuration) -> Self {
        self.at = self.at.checked_add(by).unwrap_or(self.at);
        self
    }
}

/// A remediation that has finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishedRemediation {
    /// `Kind namespace/name`.
    #[serde(rename = "request")]
    pub remediation: String,
    /// Name of the Node, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `rack/host`, where the host was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When the remediation was created.
    pub created: Timestamp,
    /// The steps of the remediation.
    pub timeline: Vec<TimelineEntry>,
    /// When the remediation finished.
    pub finished: Timestamp,
    /// `succeeded`, `escalated`, `failed` or `withdrawn`.
    pub outcome: String,
    /// The reason, as in the condition.
    pub reason: String,
    /// Which remediation of its host it was, such as `4th in 9 days`; `None` for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<String>,
    /// What failed together with its host, and until when that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cause: Option<String>,
}

impl FinishedRemediation {
    /// Steps and end by another clock, which is ahead by `by`. The creation is a time of the API server.
    #[must_use]
    pub fn moved(mut self, by: SignedDuration) -> Self {
        self.finished = self.finished.checked_add(by).unwrap_or(self.finished);
        let timeline = self.timeline.into_iter().map(|entry| entry.moved(by));
        self.timeline = timeline.collect();
        self
    }
}

/// What the status page and its JSON show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The time that it is computed for.
    pub now: Timestamp,
    /// The replica that leads.
    pub leader: LeaderView,
    /// Numbers of hosts by state.
    pub counts: HostCounts,
    /// The racks, in the order of their names; hosts of no rack come last, under an empty name.
    pub racks: Vec<RackView>,
    /// Clusters whose Nodes cannot be read, with the cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable_clusters: Vec<(String, String)>,
    /// The causes that several failed hosts share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_causes: Vec<SharedCauseEntry>,
    /// Planned work that is not over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenances: Vec<MaintenanceEntry>,
    /// The health checks that Rackhand evaluates.
    pub checks: Vec<CheckSummary>,
    /// The remediations that run: blocked ones first, then the oldest step first.
    pub remediations: Vec<RemediationEntry>,
    /// The remediations that finished within a day, the latest first.
    pub finished: Vec<FinishedRemediation>,
}

/// Planned work on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceEntry {
    /// `namespace/name` of the HostMaintenance.
    pub name: String,
    /// The Node, or else the host or Machine that it names.
    pub host: String,
    /// The phase, such as `Parked`.
    pub phase: String,
    /// Since when the host can be worked on, or else when it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Timestamp>,
    /// Who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What the work is.
    pub reason: String,
    /// What happens, and what is next.
    pub message: String,
    /// Whether a person has to act before it goes on.
    pub blocked: bool,
}

/// A cause that several failed hosts share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedCauseEntry {
    /// What the hosts share.
    pub domain: String,
    /// What is likely, as in the status of a PowerPolicy.
    pub likely: String,
    /// The arithmetic and what follows from it.
    pub message: String,
    /// When the cause was recognised.
    pub since: Timestamp,
    /// Hosts that are failed now.
    pub still_failed: u32,
    /// When it holds remediations no longer; `None` if it holds none, or until a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
    /// The policies that hold remediations for it.
    pub policies: Vec<String>,
}

/// Numbers of hosts by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostCounts {
    /// All hosts.
    pub all: usize,
    /// Hosts whose Node is ready, without a remediation.
    pub ready: usize,
    /// Hosts whose Node is not ready, without a remediation.
    pub not_ready: usize,
    /// Hosts with a remediation that goes on.
    pub remediating: usize,
    /// Hosts with a remediation that is blocked.
    pub blocked: usize,
    /// Hosts without a Node.
    pub without_node: usize,
    /// Hosts whose BMC could not switch them off now, in whatever state they are.
    #[serde(default)]
    pub fencing_unavailable: usize,
}

/// A rack with its agents and hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RackView {
    /// Name of the rack; empty for hosts of no rack.
    pub name: String,
    /// The agents that serve the rack.
    pub agents: Vec<AgentView>,
    /// The hosts in the rack, the highest position first.
    pub hosts: Vec<HostView>,
}

/// The state of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostState {
    /// The Node of the host is ready, and no remediation runs.
    Ready,
    /// The Node of the host is not ready, and no remediation runs.
    NotReady,
    /// A remediation of the host runs and is not blocked.
    Remediating,
    /// A remediation of the host is blocked.
    Blocked,
    /// No Node is known for the host, and no remediation runs.
    WithoutNode,
}

/// A host in its rack, with its Node, power and remediation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostView {
    /// Name of the host in the inventory, or of its BareMetalHost.
    pub name: String,
    /// Position of the host in the rack; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub position: String,
    /// Name of the Node, after `cluster/` where the cluster is not that of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The state of the host.
    pub state: HostState,
    /// When the state began: the condition Ready changed, or the step of the remediation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Power as last reported: by its BMC during a remediation, else by baremetal-operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// Step of the remediation that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The remediation that runs, `Kind namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// The remediation or person that keeps the host off; empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_by: String,
    /// Why the BMC could not switch the host off now, from readings between remediations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_unavailable: Option<String>,
}

/// A remediation that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemediationEntry {
    /// `rack/host`, where the host was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Name of the Node, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The health check or trigger that made it, where Rackhand did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// The steps so far.
    pub timeline: Vec<TimelineEntry>,
    /// The explanation of the remediation.
    pub view: RemediationView,
}

#[cfg(test)]
mod tests;
