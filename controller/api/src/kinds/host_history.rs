//! HostHistory: the latest remediations of one host.
//!
//! Owns its schema. It is a record for people; of all decisions only those of a PowerPolicy about cooldown
//! and attempts rest on it. It never holds a secret or the address of a BMC.

use jiff::Timestamp;
use kube::CustomResource;
use rackhand_core::fleet::shared_cause::DomainKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::host_evidence::HostEvidence;
use super::power_record::{Attempt, PowerOffEvidence};

/// How many remediations of a host are kept.
pub const REMEDIATIONS: usize = 10;
/// How many steps of a remediation are kept.
pub const STEPS: usize = 40;
/// Of how many attempts the evidence is kept: the first and the latest.
pub const EVIDENCE: usize = 2;
/// Characters of a text that are kept.
pub const TEXT: usize = 512;

/// Which host it is the history of.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "HostHistory",
    plural = "hosthistories",
    status = "HostHistoryStatus",
    derive = "PartialEq",
    category = "rackhand",
    doc = "The latest remediations of one host. The controller writes it for people; only the \
           cooldown and attempts of a PowerPolicy are decided from it.",
    printcolumn(
        name = "Rack",
        type_ = "string",
        json_path = ".spec.rack",
        description = "The rack of the host"
    ),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".spec.host",
        description = "The host"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".status.remediations[0].node",
        description = "The Node of its latest remediation"
    ),
    printcolumn(
        name = "Total",
        type_ = "integer",
        json_path = ".status.total",
        description = "Number of its remediations"
    ),
    printcolumn(
        name = "Last",
        type_ = "date",
        json_path = ".status.remediations[0].createdAt",
        description = "Time since its latest remediation was requested"
    ),
    printcolumn(
        name = "Outcome",
        type_ = "string",
        json_path = ".status.remediations[0].outcome",
        description = "Outcome of its latest remediation"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HostHistorySpec {
    /// The rack of the host.
    #[schemars(length(max = 253))]
    pub rack: String,
    /// Name of the host at its agent.
    #[schemars(length(max = 512))]
    pub host: String,
}

/// The latest remediations of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostHistoryStatus {
    /// Number of remediations since the object was created, those included that are no longer listed.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub total: i64,
    /// The latest remediations, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub remediations: Vec<HostRemediation>,
}

/// One remediation of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostRemediation {
    /// UID of the remediation object.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Kind of the remediation object.
    pub kind: String,
    /// Namespace of the remediation object.
    pub namespace: String,
    /// Name of the remediation object.
    pub name: String,
    /// Cluster of the Node, as namespace/name; absent for the cluster of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who requested the remediation: the health check, or the owner of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// Why the host was unhealthy, as the health check or the Node reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub cause: Option<String>,
    /// What failed together with the host, where a PowerPolicy judges that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cause: Option<HostSharedCause>,
    /// When the failure was detected and the remediation requested.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: Timestamp,
    /// The steps, and when each began. The last steps before a leader ended may be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 40), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<HostStep>,
    /// The attempts to bring the host back, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<Attempt>,
    /// Why the host was known to be off in the last attempt that switched it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_off: Option<PowerOffEvidence>,
    /// What the BMC reported before the host was switched off, in the first and in the latest attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "atomic"))]
    pub evidence: Vec<HostEvidence>,
    /// When the remediation finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub finished_at: Option<Timestamp>,
    /// succeeded, escalated, failed or withdrawn; unrecorded if a controller ended before it could
    /// write the outcome; absent while the remediation runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The reason of the outcome, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the latest failed attempt or operation failed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// The cause that the failure of a host shares with those of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostSharedCause {
    /// What the hosts share.
    pub domain: DomainKind,
    /// Name of the rack, PDU, switch, kernel version or cluster.
    #[schemars(length(max = 512))]
    pub name: String,
    /// What was likely: Unknown, PowerLoss, Network, RackUnreachable, Kernel or ClusterWide.
    #[schemars(length(max = 64))]
    pub likely: String,
    /// The arithmetic and what follows from it.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The PowerPolicy that held the remediation for it; absent if nothing held it, because it had begun before
    /// or a person had approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub held_by: Option<String>,
    /// Since when the remediation was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub held_since: Option<Timestamp>,
    /// Until when it was to be held at most; absent if only recovery or a person ended that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub held_until: Option<Timestamp>,
}

/// A step of a remediation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostStep {
    /// When the remediation entered the step.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// The step, such as PoweringOff or Draining.
    pub step: String,
}
