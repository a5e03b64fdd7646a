//! PowerRemediation: brings a host back, with
//! everything that was done about it in its status.
//!
//! It works for a MachineHealthCheck (the owner is a Machine) and for medik8s'
//! NodeHealthCheck (the annotation `remediation.medik8s.io/node-name`, or else
//! the object's name, is the Node's), and keeps medik8s' contract for
//! remediators: conditions `Processing` and `Succeeded`, a finalizer, an end
//! to all attempts once `remediation.medik8s.io/nhc-timed-out` is there.
//!
//! Owns the schema. It must never say how a step is carried out, nor how long
//! one takes where nobody set it: the engine's policy does.

use jiff::Timestamp;
use kube::CustomResource;
use rackhand_core::remediation::{
    DrainPolicy, EvictionPolicy, NodeGonePolicy, OnExhausted, PodDeletion, Step, Strategy,
    UnreachablePolicy,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::StatusCondition;
use super::host_evidence::HostEvidence;
use super::power_record::{Attempt, PowerOffEvidence};

/// How a host is brought back.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "PowerRemediation",
    namespaced,
    status = "PowerRemediationStatus",
    derive = "PartialEq",
    shortname = "prem",
    category = "rackhand",
    category = "cluster-api",
    doc = "Brings a failed host back by its power: off, confirmed by its BMC; \
           workloads moved; on again.",
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".status.nodeName",
        description = "The Node that is brought back"
    ),
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.strategy.type",
        description = "The strategy"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase"
    ),
    printcolumn(
        name = "Step",
        type_ = "string",
        json_path = ".status.step",
        description = "The current step"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        description = "Why the remediation is in this step"
    ),
    printcolumn(
        name = "Until",
        type_ = "string",
        json_path = ".status.stepUntil",
        description = "The deadline of the step",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PowerRemediationSpec {
    /// How the host is brought back.
    #[serde(default)]
    pub strategy: PowerStrategy,
}

/// How hosts are brought back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerStrategy {
    /// What is done with the host's power.
    #[serde(rename = "type", default)]
    pub strategy_type: Strategy,
    /// How many more attempts may follow the first; 0 for one attempt only.
    #[serde(default = "default_retry_limit")]
    #[schemars(range(min = 0, max = 100))]
    pub retry_limit: i32,
    /// How long each step may take. A value that is not set is the controller's
    /// default. A step that must be completed continues beyond its time, and
    /// the condition Overdue shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<StepTimeouts>,
    /// What happens when pods have not left a host that is still on within
    /// timeouts.evictionSeconds.
    #[serde(default)]
    pub eviction_policy: EvictionPolicy,
    /// What happens when the host's workloads have not moved within
    /// timeouts.drainSeconds.
    #[serde(default)]
    pub drain_policy: DrainPolicy,
    /// Who deletes the pods of the host once it is confirmed off and tainted.
    #[serde(default)]
    pub pod_deletion: PodDeletion,
    /// Whether the BMC sends the host a diagnostic interrupt (NMI) before it is
    /// switched off. The host then has timeouts.evidenceSeconds to write a dump.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diagnostic_interrupt: bool,
    /// What happens when the workload cluster did not answer for
    /// timeouts.taintSeconds after the confirmed power-off, so that no taint
    /// could be set.
    #[serde(default)]
    pub unreachable_policy: UnreachablePolicy,
    /// What happens when the Machine had a Node and it is gone before anything
    /// was done.
    #[serde(default)]
    pub node_gone_policy: NodeGonePolicy,
    /// What happens when no attempt is left.
    #[serde(default)]
    pub on_exhausted: OnExhausted,
}

impl Default for PowerStrategy {
    fn default() -> Self {
        Self {
            strategy_type: Strategy::default(),
            retry_limit: default_retry_limit(),
            timeouts: None,
            eviction_policy: EvictionPolicy::default(),
            drain_policy: DrainPolicy::default(),
            pod_deletion: PodDeletion::default(),
            diagnostic_interrupt: false,
            unreachable_policy: UnreachablePolicy::default(),
            node_gone_policy: NodeGonePolicy::default(),
            on_exhausted: OnExhausted::default(),
        }
    }
}

fn default_retry_limit() -> i32 {
    1
}

/// How long each step of a remediation may take, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepTimeouts {
    /// Evicting: how long the pods of a Node that is Ready may take to leave it
    /// through the Eviction API, before anything is switched; then
    /// evictionPolicy applies. A Node that is not Ready and whose kubelet still
    /// answers gets 30 seconds at most. With evictionPolicy Proceed, 0 evicts
    /// nothing. 300 if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub eviction_seconds: Option<i32>,
    /// Holding: how long the power-off may be delayed to read the event log, the
    /// sensors and the boot state from the BMC; 0 reads nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 600))]
    pub evidence_seconds: Option<i32>,
    /// PoweringOff and PoweringOn, with a BareMetalHost: how long
    /// baremetal-operator may take to switch the host by itself, before the
    /// agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 30))]
    pub hold_seconds: Option<i32>,
    /// ShuttingDown, or PoweringOff with a BareMetalHost, whose
    /// baremetal-operator does it: how long the operating system of a host whose
    /// kubelet answers may take to shut down before the power is cut; 0, the
    /// default, sends no soft off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 600))]
    pub soft_off_seconds: Option<i32>,
    /// PoweringOff: how long one try may take to switch off, until the BMC has
    /// confirmed it. After three tries a person is asked, and the tries go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 3600))]
    pub power_off_seconds: Option<i32>,
    /// ConfirmingOff: how long it may take to make sure that the Node's kubelet
    /// is silent too. It goes on beyond that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub confirm_off_seconds: Option<i32>,
    /// Tainting: how long after the confirmed power-off the taint may be put off
    /// because the workload cluster does not answer; then unreachablePolicy
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub taint_seconds: Option<i32>,
    /// Draining: how long the workloads may take to move; then drainPolicy
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub drain_seconds: Option<i32>,
    /// PoweringOn: how long one try may take to switch on. The tries go on until
    /// one is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub power_on_seconds: Option<i32>,
    /// Booting: how long the host may take from its confirmed power-on until
    /// its Node is ready. After it the attempt has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub boot_seconds: Option<i32>,
    /// Restoring: how long taking away the taint and the hold may take after an
    /// attempt that failed. It goes on beyond that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub restore_seconds: Option<i32>,
}

/// The progress of a remediation, and the record of its attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerRemediationStatus {
    /// The generation of the object that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Processing and Succeeded, as health checks read them, and others that
    /// name what blocks the remediation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<StatusCondition>,
    /// The phase of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PowerPhase>,
    /// The Node that is brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// When the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub step_since: Option<Timestamp>,
    /// The deadline of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub step_until: Option<Timestamp>,
    /// Why the remediation is in this step, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the remediation is in this step, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The attempts, the running one last. Of very many, the oldest are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 101),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["number"])
    )]
    pub attempts: Vec<Attempt>,
    /// Why the host is known to be off in the running attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_off: Option<PowerOffEvidence>,
    /// What the BMC reported before the host was switched off in the running
    /// attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<HostEvidence>,
    /// What this remediation has set and must remove again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub in_place: Vec<InPlace>,
    /// Copy of the state in the RemediationState, for people. Nothing is decided from it, and its
    /// form may change without notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cursor_schema")]
    pub cursor: Option<serde_json::Value>,
}

fn cursor_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The phase of a remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum PowerPhase {
    /// The remediation has not begun.
    Pending,
    /// The remediation is in progress.
    Running,
    /// The remediation waits for something that it cannot do itself.
    Waiting,
    /// The Node is ready again, or the host is off where the strategy requires
    /// that.
    Succeeded,
    /// No attempt is left.
    Failed,
    /// The remediation was aborted before the host was switched off.
    Aborted,
}

/// Something that a remediation sets and must remove again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum InPlace {
    /// The hold on the BareMetalHost.
    Hold,
    /// The host was switched off.
    PowerOff,
    /// The out-of-service taint on the Node.
    Taint,
    /// The Node was cordoned.
    Cordon,
}
