//! PowerPolicy: when hosts may be remediated, and how many at once.
//!
//! Owns its schema. It limits every kind of remediation that the controller carries out, whoever
//! requested it; it must never permit what another rule forbids.

use jiff::Timestamp;
use kube::CustomResource;
use rackhand_core::{
    fleet::shared_cause::{DomainKind, OnTimeout},
    limits::power_policy::WhenExceeded,
    remediation::{OnUpdate, UpdateRules},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{conditions::StatusCondition, machine_health_check::Selector};

/// When the hosts that it selects may be remediated.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "PowerPolicy",
    plural = "powerpolicies",
    status = "PowerPolicyStatus",
    derive = "PartialEq",
    shortname = "pwrpol",
    category = "rackhand",
    doc = "When hosts may be remediated and how many at once. Where several policies select a host, \
           all of them must allow its remediation.",
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#,
        description = "Whether the policy can be applied; one that cannot holds what it selects"
    ),
    printcolumn(
        name = "Active",
        type_ = "integer",
        json_path = ".status.active",
        description = "Remediations under way that it selects"
    ),
    printcolumn(
        name = "Held",
        type_ = "integer",
        json_path = ".status.held",
        description = "Remediations that it holds"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PowerPolicySpec {
    /// Hosts that the policy applies to. Everything that is set must match; if nothing is set, it
    /// applies to all hosts.
    #[serde(default)]
    pub selector: PolicySelector,
    /// If there are any, a remediation begins only within one of these periods. One that has begun
    /// is finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub windows: Vec<PolicyPeriod>,
    /// No remediation begins within one of these periods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub freezes: Vec<PolicyPeriod>,
    /// No remediation begins while the Node or BareMetalHost carries one of these annotations,
    /// whatever its value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 316)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub freeze_annotations: Vec<String>,
    /// Limits of remediations that are under way at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub budgets: Vec<PolicyBudget>,
    /// Pause after a successful remediation of the same host, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_678_400))]
    pub cooldown_seconds: Option<i32>,
    /// Limits of the attempts on one host within a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<PolicyAttempts>,
    /// Holds remediations of hosts that failed together, because one cause is likelier than as many
    /// broken hosts. If it is not set, nothing is held for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_causes: Option<PolicySharedCauses>,
    /// What is done while the BMC of a host reports that firmware is being updated. If no policy of the
    /// host sets it, the remediation waits until the update has ended or a person approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware_update: Option<PolicyFirmwareUpdate>,
    /// Whether a person must approve each remediation with `kubectl rackhand approve`, which sets the
    /// annotation rackhand.dev/approved to the UID of the remediation.
    #[serde(default)]
    pub require_approval: bool,
}

/// Which hosts a policy applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySelector {
    /// Labels of the Node. A host without a Node is not selected. While the labels cannot be read,
    /// the policy holds the remediation, because it may select the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Selector>,
    /// Labels of the Machine. A host without a Machine is not selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<Selector>,
    /// Racks; if empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1024),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub racks: Vec<String>,
}

/// What is done while firmware of a host is being updated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyFirmwareUpdate {
    /// While an update runs: `Wait` for its end, or `Proceed` without reading the updates.
    pub on_running: OnUpdate,
    /// Of `Wait`: go on after so many seconds, from the first reading of an update on. If it is not set,
    /// a person decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 2_678_400))]
    pub proceed_after_seconds: Option<i32>,
    /// An update counts as stalled if nothing that the BMC says about it has changed for so many seconds.
    #[schemars(range(min = 60, max = 2_678_400))]
    pub stalled_after_seconds: i32,
    /// Once an update counts as stalled: `Wait` as before, or `Proceed`.
    pub on_stalled: OnUpdate,
    /// While it cannot be read whether an update runs: `Proceed`, or `Wait` until it can.
    pub on_unknown: OnUpdate,
}

impl Default for PolicyFirmwareUpdate {
    fn default() -> Self {
        let rules = UpdateRules::default();
        Self {
            on_running: rules.on_running,
            proceed_after_seconds: None,
            stalled_after_seconds: i32::try_from(rules.stalled_after.as_secs()).unwrap_or(i32::MAX),
            on_stalled: rules.on_stalled,
            on_unknown: rules.on_unknown,
        }
    }
}

/// A period that recurs by a cron expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyPeriod {
    /// When it begins, as a cron expression of five fields: minute, hour, day of month, month, day of
    /// week.
    #[schemars(length(min = 9, max = 128))]
    pub schedule: String,
    /// Time zone of the schedule, by its name in the IANA database; UTC if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// How long it lasts, in seconds.
    #[schemars(range(min = 60, max = 2_678_400))]
    pub duration_seconds: i32,
}

/// A limit of remediations that are under way at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.per == 'Label') == has(self.label)",
        "message": "label is set if and only if per is Label",
    },
]))]
pub struct PolicyBudget {
    /// What is counted together.
    pub per: BudgetDomain,
    /// Key of the Node label whose values are counted each for itself, with per Label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    pub label: Option<String>,
    /// Remediations that may be under way at once; 0 lets none begin.
    #[schemars(range(min = 0, max = 100_000))]
    pub max_concurrent: i32,
}

/// What a budget counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum BudgetDomain {
    /// All hosts that the policy selects.
    Policy,
    /// The hosts of a workload cluster.
    Cluster,
    /// The hosts of a rack.
    Rack,
    /// The hosts that a PDU feeds, by the annotation rackhand.dev/pdus on the Node or BareMetalHost.
    PDU,
    /// The hosts with the same value of a Node label.
    Label,
}

/// A limit of the attempts on one host within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyAttempts {
    /// Attempts that are allowed.
    #[schemars(range(min = 0, max = 1000))]
    pub max: i32,
    /// The time in seconds, counted back from now.
    #[schemars(range(min = 60, max = 2_678_400))]
    pub within_seconds: i32,
    /// What happens instead of a further attempt.
    #[serde(default)]
    pub then: WhenExceeded,
}

/// When hosts that failed together are held. The failures of all hosts are judged; what is held are the
/// hosts that the policy selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySharedCauses {
    /// Longest time between the first and the last failure, in seconds. For the Nodes of one kernel
    /// version it is an hour, because a rollout reaches them one after the other.
    #[serde(default = "window_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub window_seconds: i32,
    /// Hosts that must have failed within the window; of one kernel version, two are enough.
    #[serde(default = "min_hosts")]
    #[schemars(range(min = 2, max = 100_000))]
    pub min_hosts: i32,
    /// Share that must have failed of the hosts of the rack, PDU, switch, kernel version or cluster, in
    /// percent.
    #[serde(default = "min_percent")]
    #[schemars(range(min = 1, max = 100))]
    pub min_percent: i32,
    /// How long after the failure of a host its remediation waits, to see whether other hosts fail with
    /// it, in seconds.
    #[serde(default = "settling_seconds")]
    #[schemars(range(min = 0, max = 600))]
    pub settling_seconds: i32,
    /// How long a cause holds a remediation, in seconds, counted from the first one that it holds or from
    /// the failure of the host, whichever is later.
    #[serde(default = "hold_seconds")]
    #[schemars(range(min = 1, max = 604_800))]
    pub hold_seconds: i32,
    /// How long the other hosts are still held once half of the failed hosts have recovered, in seconds.
    #[serde(default = "recovery_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub recovery_seconds: i32,
    /// What happens after holdSeconds.
    #[serde(default)]
    pub on_timeout: OnTimeout,
}

/// Hosts of a rack report within about 15 s of each other: kubelets renew their Leases every 10 s, and
/// the controller manager looks every 5 s. A power loss with staggered batteries takes longer.
fn window_seconds() -> i32 {
    120
}

/// Two hosts fail together by chance in a large fleet more than once a year.
fn min_hosts() -> i32 {
    3
}

fn min_percent() -> i32 {
    50
}

/// See [`window_seconds`]. A health check with a timeout of more than this is not delayed.
fn settling_seconds() -> i32 {
    15
}

/// Long enough for a person on call, and short for workloads that wait to be fenced.
fn hold_seconds() -> i32 {
    900
}

/// Servers boot within two to five minutes.
fn recovery_seconds() -> i32 {
    300
}

/// A cause that several failed hosts share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedCauseStatus {
    /// What the hosts share.
    pub domain: DomainKind,
    /// Name of the rack, PDU, switch, kernel version or cluster.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    /// What is likely: Unknown, PowerLoss, Network, RackUnreachable, Kernel or ClusterWide.
    #[schemars(length(min = 1, max = 64))]
    pub likely: String,
    /// The arithmetic and what follows from it.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When the cause was recognised.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
    /// When the first of these hosts failed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub first_failed_at: Timestamp,
    /// When the last of these hosts failed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_failed_at: Timestamp,
    /// Most hosts that have been failed at once.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Hosts that are failed now.
    #[schemars(range(min = 0))]
    pub still_failed: i32,
    /// Hosts of the domain.
    #[schemars(range(min = 0))]
    pub hosts: i32,
    /// When it held the first remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub held_since: Option<Timestamp>,
    /// When it holds remediations no longer, unless it ends before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub held_until: Option<Timestamp>,
}

/// What the controller found about a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerPolicyStatus {
    /// Valid: whether the policy can be applied, and what is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<StatusCondition>,
    /// Remediations under way that the policy selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub active: Option<i32>,
    /// Remediations that the policy holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub held: Option<i32>,
    /// Causes that several failed hosts share, the first 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["domain", "name"])
    )]
    pub shared_causes: Vec<SharedCauseStatus>,
}
