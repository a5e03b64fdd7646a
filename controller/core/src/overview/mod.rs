//! The overview of a controller: racks with their hosts, agents, health checks, and remediations, running
//! and finished.
//!
//! The status page and its JSON show it. A running remediation appears as its explanation
//! ([`RemediationView`]), unchanged. Must never decide anything: what is known of a host is only matched.

mod hosts;
mod racks;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::explanation::RemediationView;

pub use racks::overview;

/// Everything that the overview is computed from.
#[derive(Debug, Clone, Default)]
pub struct OverviewFacts {
    /// This replica, which leads.
    pub leader: LeaderView,
    /// The rack agents, in the order of their names.
    pub agents: Vec<AgentFacts>,
    /// The BareMetalHosts.
    pub bare_metal_hosts: Vec<BareMetalHostEntry>,
    /// The Nodes of all clusters.
    pub nodes: Vec<NodeEntry>,
    /// Clusters whose Nodes cannot be read, with the cause.
    pub unreachable: Vec<(String, String)>,
    /// The health checks.
    pub checks: Vec<CheckSummary>,
    /// The remediations that run.
    pub running: Vec<RunningRemediation>,
    /// Those that have finished, the latest first.
    pub finished: Vec<FinishedRemediation>,
}

/// The replica that leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderView {
    /// Name of the replica.
    pub name: String,
    /// Its term.
    pub term: u64,
    /// Since when it leads; finished remediations are known from then on.
    pub since: Timestamp,
}

/// An agent, and what it reports.
#[derive(Debug, Clone, Default)]
pub struct AgentFacts {
    /// The agent as the overview shows it.
    pub view: AgentView,
    /// Its rack.
    pub rack: String,
    /// Networks (CIDR) of BMCs that it reaches.
    pub bmc_networks: Vec<String>,
    /// Its inventory.
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
    /// When it answered last, since this replica leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Why it is not used.
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
    /// Its place in the rack; empty if unknown.
    pub position: String,
    /// The remediation or person that keeps it off; empty if none.
    pub held_by: String,
}

/// A BareMetalHost.
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

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its cluster, `namespace/name`; empty for the cluster of the controller.
    pub cluster: String,
    /// Name of the Node.
    pub name: String,
    /// Its providerID.
    pub provider_id: Option<String>,
    /// Its system UUID.
    pub system_uuid: Option<String>,
    /// Status of its condition Ready.
    pub ready: NodeReady,
    /// Since when.
    pub since: Option<Timestamp>,
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
    /// Its API group.
    pub group: String,
    /// Its namespace; empty for a check of Nodes.
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
    /// Rack and name of its host.
    pub host: Option<(String, String)>,
    /// Cluster and name of its Node.
    pub node: Option<(String, String)>,
    /// The latest power reading, in the words of the BMC.
    pub power: Option<String>,
    /// What happened so far.
    pub timeline: Vec<TimelineEntry>,
    /// Its explanation.
    pub view: RemediationView,
}

/// A step of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// The step.
    pub step: String,
    /// When it began.
    pub at: Timestamp,
}

/// A remediation that has finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishedRemediation {
    /// `Kind namespace/name`.
    pub request: String,
    /// Name of the Node, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `rack/host`, where the host was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When the remediation was created.
    pub created: Timestamp,
    /// Its steps.
    pub timeline: Vec<TimelineEntry>,
    /// When it finished.
    pub finished: Timestamp,
    /// `succeeded`, `escalated`, `failed` or `withdrawn`.
    pub outcome: String,
    /// The reason, as in the condition.
    pub reason: String,
}

/// The overview.
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
    /// The health checks.
    pub checks: Vec<CheckSummary>,
    /// The remediations that run: blocked ones first, then the oldest step first.
    pub remediations: Vec<RemediationEntry>,
    /// Those that finished within a day, the latest first.
    pub finished: Vec<FinishedRemediation>,
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
}

/// A rack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RackView {
    /// Name of the rack; empty for hosts of no rack.
    pub name: String,
    /// Its agents.
    pub agents: Vec<AgentView>,
    /// Its hosts, the highest position first.
    pub hosts: Vec<HostView>,
}

/// The state of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostState {
    /// Its Node is ready.
    Ready,
    /// Its Node is not ready.
    NotReady,
    /// A remediation goes on.
    Remediating,
    /// A remediation is blocked.
    Blocked,
    /// It has no Node.
    WithoutNode,
}

/// A host in its rack, with its Node, power and remediation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostView {
    /// Its name: in the inventory, or of its BareMetalHost.
    pub name: String,
    /// Its place in the rack; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub position: String,
    /// Its Node, with the cluster where it is not that of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its state.
    pub state: HostState,
    /// Since when: the condition Ready, or the step of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Power as last reported: by its BMC during a remediation, else by baremetal-operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// Step of its remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Its remediation, `Kind namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// The remediation or person that keeps it off; empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_by: String,
}

/// A remediation that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemediationEntry {
    /// `rack/host`, where the host was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its Node, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its steps so far.
    pub timeline: Vec<TimelineEntry>,
    /// Its explanation.
    pub view: RemediationView,
}

#[cfg(test)]
mod tests;
