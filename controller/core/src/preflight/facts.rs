//! What is gathered before it is evaluated.

use jiff::{SignedDuration, Timestamp};

use crate::{fleet::roles::Roles, remediation::WordsOfPersons};

/// Everything that was gathered.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Who leads, by the Lease of the election.
    pub leader: LeaderFacts,
    /// The management cluster and the workload clusters.
    pub clusters: Vec<ClusterFacts>,
    /// The kinds that Rackhand reads or writes.
    pub kinds: Vec<KindFacts>,
    /// What the controller lists and watches, tried from here.
    pub watches: Vec<WatchFacts>,
    /// The rights of the controller.
    pub rights: RightsFacts,
    /// Whether annotations count by which a person decides.
    pub words: WordsOfPersons,
    /// The admission policy that makes the API server ask who may set them.
    pub persons_policy: PersonsPolicy,
    /// Controllers of other projects.
    pub managers: ManagerFacts,
    /// A dry run of a hold on a BareMetalHost, by its name; `None`: there is none, or nobody manages it.
    pub hold: Option<(String, HoldTrial)>,
    /// Health checks of all kinds, whoever evaluates them.
    pub checks: Vec<CheckFacts>,
    /// Until when the certificate for agents is valid; `None`: there is none here, why.
    pub own_certificate: Option<Result<Timestamp, String>>,
    /// Rack agents, as their RackAgent objects name them.
    pub agents: Vec<AgentFacts>,
    /// The Machines and Nodes that are to have a host.
    pub targets: Vec<TargetFacts>,
    /// The hosts of the racks.
    pub hosts: Vec<HostFacts>,
    /// Clocks of the API server and of the agents, compared with this machine.
    pub clocks: Vec<ClockFacts>,
}

impl Facts {
    /// Whether Rackhand is installed: one of its own kinds is served.
    pub fn is_installed(&self) -> bool {
        let mut own = self.kinds.iter().filter(|kind| kind.own);
        own.any(|kind| matches!(kind.served, Ok(Some(_))))
    }

    /// Whether a health check of this kind is evaluated by Rackhand.
    pub fn evaluates(&self, kind: CheckKind) -> bool {
        let mut of_kind = self.checks.iter().filter(|check| check.kind == kind);
        of_kind.any(|check| check.ours)
    }
}

/// Result of the dry run of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldTrial {
    /// The API server, with every webhook, would accept it.
    Accepted,
    /// Whoever runs the command may not patch BareMetalHosts.
    Forbidden,
    /// It would be refused, with this answer.
    Refused(String),
}

/// The Lease of the election, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderFacts {
    /// Namespace and name of the Lease, as `namespace/name`.
    pub lease: String,
    /// Holder, and how long ago it was renewed; `Ok(None)`: nobody leads.
    pub holder: Result<Option<(String, SignedDuration)>, String>,
    /// How long the Lease lasts.
    pub duration: SignedDuration,
}

impl Default for LeaderFacts {
    fn default() -> Self {
        Self {
            lease: String::new(),
            holder: Ok(None),
            duration: SignedDuration::ZERO,
        }
    }
}

/// A cluster with Nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFacts {
    /// The Cluster as `namespace/name`, or `management` for the management cluster.
    pub name: String,
    /// Major and minor version; why the cluster cannot be reached.
    pub version: Result<(String, String), String>,
    /// Its Nodes; `None`: its Nodes are not remediated.
    pub nodes: Option<Result<NodesFacts, String>>,
}

/// The Nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesFacts {
    /// Number of Nodes in the cluster.
    pub count: usize,
    /// Names of those without a Lease in kube-node-lease; why the Leases cannot be listed.
    pub without_lease: Result<Vec<String>, String>,
    /// The roles of each Node that has one.
    pub roles: Vec<Roles>,
}

/// A list and a watch of one kind, as the controller calls them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFacts {
    /// The kind with its group.
    pub kind: String,
    /// The workload cluster; `None` for the management cluster.
    pub cluster: Option<String>,
    /// What came of the calls.
    pub trial: WatchTrial,
}

/// Result of a list and a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchTrial {
    /// Both are answered.
    Watched,
    /// Whoever runs the command may not use this verb.
    Forbidden(&'static str),
    /// The list fails: why.
    NotListed(String),
    /// The list is answered and the watch fails: why.
    NotWatched(String),
}

/// The admission policy about annotations by which a person decides, and its binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonsPolicy {
    /// Both are installed, and are those of this version.
    InEffect,
    /// The API server does not serve such policies.
    NotSupported,
    /// The policy or the binding is not installed.
    Missing(&'static str),
    /// The policy or the binding has another content.
    Differs(&'static str),
    /// They cannot be read: why.
    Unknown(String),
}

impl Default for PersonsPolicy {
    fn default() -> Self {
        Self::Unknown("it was not read".to_owned())
    }
}

/// A kind, and the version in which the controller reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindFacts {
    /// Name of the kind, as in `kind:`.
    pub kind: &'static str,
    /// API group of the kind.
    pub group: &'static str,
    /// Whether the kind is one of Rackhand's.
    pub own: bool,
    /// Versions that Rackhand can read.
    pub readable: &'static [&'static str],
    /// The version that the controller uses of those that are served, `None` if the kind is not installed; why this is
    /// not known.
    pub served: Result<Option<String>, String>,
}

/// The rights of the controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RightsFacts {
    /// Account whose rights were queried.
    pub account: String,
    /// What the API server answered, by right.
    pub rights: Vec<RightFacts>,
    /// Why they were not asked for.
    pub skipped: Option<String>,
}

/// One right, and whether the account has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RightFacts {
    /// The right that was queried.
    pub right: super::Right,
    /// Namespace in which it was asked for; `None` for all.
    pub namespace: Option<String>,
    /// Whether it is granted; why that is not known.
    pub granted: Result<bool, String>,
}

/// A controller of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manager {
    /// Cluster API's core manager, which evaluates MachineHealthChecks.
    ClusterApi,
    /// CAPM3's manager, which carries out Metal3Remediations.
    Capm3,
    /// OpenShift's machine-healthcheck-controller.
    OpenShift,
    /// medik8s' node-healthcheck-operator.
    Medik8s,
    /// baremetal-operator.
    BaremetalOperator,
}

/// Which of them run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagerFacts {
    /// Controllers that were found, with `namespace/name` of the Deployment and its image.
    pub found: Vec<(Manager, String, String)>,
    /// Why Deployments cannot be listed.
    pub unknown: Option<String>,
}

impl ManagerFacts {
    /// Whether one runs; `None`: not known.
    pub fn runs(&self, manager: Manager) -> Option<bool> {
        let found = self.found.iter().any(|(found, ..)| *found == manager);
        (found || self.unknown.is_none()).then_some(found)
    }
}

/// Whose a health check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckKind {
    /// Cluster API's MachineHealthCheck.
    ClusterApi,
    /// OpenShift's MachineHealthCheck.
    OpenShift,
    /// medik8s' NodeHealthCheck.
    Medik8s,
}

/// A health check, and who evaluates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFacts {
    /// Whose kind it is.
    pub kind: CheckKind,
    /// The check as `namespace/name`.
    pub name: String,
    /// Whether Rackhand evaluates the check.
    pub ours: bool,
    /// Rackhand's evaluation is paused, or a dry run.
    pub idle: Option<String>,
    /// The controller of its project is kept off it.
    pub kept_off: bool,
    /// The kinds of remediation that it requests.
    pub remediations: Vec<String>,
    /// Why it cannot be read.
    pub unreadable: Option<String>,
}

/// A rack agent, and what its connection shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFacts {
    /// Name of the RackAgent.
    pub name: String,
    /// Rack that the agent serves.
    pub rack: String,
    /// Address of the agent, as `host:port`.
    pub endpoint: String,
    /// Whether the leader is connected to it, with its message; `None`: not reported.
    pub connected: Option<(bool, String)>,
    /// The connection from here; `None`: not tried.
    pub probe: Option<Result<AgentProbe, String>>,
}

/// What a connection to an agent has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProbe {
    /// Until when its certificate is valid.
    pub not_after: Timestamp,
    /// Hosts in its inventory.
    pub hosts: usize,
}

/// A Machine or Node that is to have a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFacts {
    /// Such as `Machine metal3/node-7`.
    pub name: String,
    /// A health check that Rackhand carries out selects it.
    pub checked: bool,
    /// `rack/host` of its host, or why there is none.
    pub host: Result<String, String>,
    /// Whether anything but an inventory says which rack has the Node: see
    /// [`Resolution`](crate::hosts::Resolution).
    pub is_bound: bool,
    /// Entries of inventories of other racks that do not count for it.
    pub ignored: Vec<String>,
    /// Its Node, if that exists.
    pub node: Option<NodeIdentity>,
    /// Serial number of its BareMetalHost; empty if unknown.
    pub serial: String,
}

/// A Node, and the machine on which it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The Node, with its cluster where that is not the management cluster.
    pub name: String,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: String,
}

/// A host of a rack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The host as `rack/host`.
    pub name: String,
    /// What its agent has found; why it could not be asked.
    pub checks: Result<Vec<HostCheck>, String>,
    /// What the BMC reports by each of its drivers that answered.
    pub identities: Vec<ReportedIdentity>,
    /// Its inventory entry or BareMetalHost says that the system UUID of this BMC identifies nothing.
    pub no_system_uuid: bool,
}

/// The identity that a BMC reports; an empty field is not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedIdentity {
    /// Address of the BMC, without credentials.
    pub bmc: String,
    /// SMBIOS system UUID.
    pub system_uuid: String,
    /// Serial number of the system.
    pub serial: String,
}

/// One check of a host by its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCheck {
    /// What the agent checked, for example `credentials`.
    pub check: String,
    /// Whether the host passed the check.
    pub status: super::Status,
    /// What the agent found, for people.
    pub found: String,
    /// What a person should do about it.
    pub advice: String,
}

/// A clock, compared with that of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockFacts {
    /// Whose clock, such as `API server` or `agent rack-a`.
    pub name: String,
    /// Health checks compare times of this clock with that of the controller.
    pub judges: bool,
    /// How far it is ahead, and how exact that is; why it is not known.
    pub ahead: Result<(SignedDuration, SignedDuration), String>,
}
