//! HostMaintenance: planned work on a host.
//!
//! Owns the schema. What is done about the host is done by the PowerRemediation that the controller makes for it; this
//! kind must never have a setting that lets it do what a PowerRemediation may not.

use jiff::Timestamp;
use kube::CustomResource;
use rackhand_core::{
    maintenance::{MaintenancePhase, MaintenanceReason, Mark},
    remediation::EvictionPolicy,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::StatusCondition;

/// Planned work on a host.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "HostMaintenance",
    plural = "hostmaintenances",
    namespaced,
    status = "HostMaintenanceStatus",
    derive = "PartialEq",
    shortname = "hmaint",
    category = "rackhand",
    doc = "Planned work on a host: its Node is emptied, it is switched off, confirmed by its BMC, and kept off until \
           this object is deleted or its time is over; then it comes back.",
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".status.nodeName",
        description = "The Node of the host"
    ),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".status.host",
        description = "The host, as rack/host"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "How far the maintenance is"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        description = "Why it is there"
    ),
    printcolumn(
        name = "Ends",
        type_ = "string",
        json_path = ".status.endsAt",
        description = "When it ends by itself"
    ),
    printcolumn(
        name = "By",
        type_ = "string",
        json_path = ".spec.requestedBy",
        description = "Who asked for it"
    ),
    printcolumn(
        name = "For",
        type_ = "string",
        json_path = ".spec.reason",
        description = "What the work is",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        description = "What happens, and what is next",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.node), has(self.machine), has(self.host)].filter(set, set).size() == 1",
        "message": "exactly one of node, machine and host must be set",
    },
    {
        "rule": "has(self.node) == has(oldSelf.node) && has(self.machine) == has(oldSelf.machine) && \
                 has(self.host) == has(oldSelf.host) && (!has(self.node) || self.node == oldSelf.node) && \
                 (!has(self.machine) || self.machine == oldSelf.machine) && \
                 (!has(self.host) || self.host == oldSelf.host)",
        "message": "the host cannot be changed: delete this object and create another",
    },
    {
        "rule": "self.powerOff || !oldSelf.powerOff",
        "message": "powerOff can only be changed to true: delete this object and create another",
    },
    {
        "rule": "self.eviction.seconds == oldSelf.eviction.seconds",
        "message": "eviction.seconds cannot be changed: change eviction.whenNotFinished, or delete this object and \
                    create another",
    },
    {
        "rule": "!(has(self.until) && has(self.durationSeconds))",
        "message": "until and durationSeconds cannot both be set",
    },
]))]
pub struct HostMaintenanceSpec {
    /// The Node of the host, in the cluster in which the controller runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub node: Option<String>,
    /// The Machine of the host, of Cluster API or OpenShift, in the namespace of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub machine: Option<String>,
    /// The host in the inventory of an agent, as rack/host. A Node must run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 320), regex(pattern = r"^[^/\s]+/[^/\s]+$"))]
    pub host: Option<String>,
    /// What the work is, for people.
    #[schemars(length(min = 1, max = 512))]
    pub reason: String,
    /// Who asked for it. Where the admission policy of Rackhand is installed, it must be the name of the user who
    /// creates this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub requested_by: Option<String>,
    /// When the maintenance ends, whatever it has reached by then. Without an end, it ends when this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub until: Option<Timestamp>,
    /// How long it lasts, from the time at which the host can be worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub duration_seconds: Option<i32>,
    /// Whether the host is switched off. If not, its Node is cordoned and emptied, and the host stays on: Rackhand
    /// switches nothing, also if the Node becomes Unknown. false can be changed to true while the maintenance runs.
    #[serde(default = "yes")]
    pub power_off: bool,
    /// Whether the locator LED of the host is lit while it can be worked on. It may be changed at any time.
    #[serde(rename = "locatorLED", default)]
    pub locator_led: bool,
    /// How the pods leave the Node before anything is switched.
    #[serde(default)]
    pub eviction: MaintenanceEviction,
    /// How long the operating system may take to shut down before the power is cut; 0 cuts it at once.
    #[serde(default = "soft_off_seconds")]
    #[schemars(range(min = 0, max = 600))]
    pub soft_off_seconds: i32,
}

/// How the pods leave the Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MaintenanceEviction {
    /// How long they may take. PodDisruptionBudgets are respected all that time.
    #[schemars(range(min = 0, max = 86400))]
    pub seconds: i32,
    /// What happens when they have not left by then. It may be changed as long as nothing is switched.
    pub when_not_finished: EvictionPolicy,
}

impl Default for MaintenanceEviction {
    fn default() -> Self {
        Self {
            seconds: 300,
            // Nobody waits for the work of a person as for a failure.
            when_not_finished: EvictionPolicy::Wait,
        }
    }
}

fn yes() -> bool {
    true
}

fn soft_off_seconds() -> i32 {
    60
}

/// How far a maintenance is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMaintenanceStatus {
    /// The generation of the object that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Parked, and Blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<StatusCondition>,
    /// The phase.
    #[serde(default)]
    pub phase: MaintenancePhase,
    /// Why it is in this phase, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happens, to which host, and what is next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The Node of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The cluster of the Node, as namespace/name; not set for the cluster in which the controller runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The Machine of the host, as namespace/name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The host, as rack/host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The PowerRemediation that is made for it, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// Its UID. What it has set names this, and is looked for until it is gone.
    #[serde(
        rename = "remediationUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub remediation_uid: Option<String>,
    /// Whether the remediation has begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// Whether every mark is in place by which health checks leave the host alone. Nothing is evicted or switched without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marked: bool,
    /// Pods that were evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub evicted_pods: Option<i64>,
    /// Since when the host can be worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub parked_since: Option<Timestamp>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub ends_at: Option<Timestamp>,
    /// Why it ends, once that is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<MaintenanceReason>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending_message: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub ended_at: Option<Timestamp>,
    /// What this maintenance has set and must take back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub in_place: Vec<Mark>,
    /// Until when the locator LED may be lit. It is renewed while the host can be worked on, and goes out by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub locator_lit_until: Option<Timestamp>,
}
