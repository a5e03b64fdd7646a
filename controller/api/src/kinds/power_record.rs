//! What a PowerRemediation puts on record: its attempts, and why the host was
//! known to be off.
//!
//! Owns the schema. It must never hold a secret or a BMC's address.

use jiff::Timestamp;
use rackhand_core::remediation::Step;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One attempt to bring the host back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The number of the attempt, from 1.
    #[schemars(range(min = 1))]
    pub number: i32,
    /// When the attempt began.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: Timestamp,
    /// When the BMC had confirmed that the host was off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub powered_off_at: Option<Timestamp>,
    /// When the workloads had moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub drained_at: Option<Timestamp>,
    /// How many pods of the host were evicted before anything was switched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pods_evicted: Option<i32>,
    /// The first of them, as namespace/name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(max = 128)), extend("x-kubernetes-list-type" = "atomic"))]
    pub evicted_pod_names: Vec<String>,
    /// How many pods of the host Rackhand deleted, after it was confirmed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pods_deleted: Option<i32>,
    /// The first of them, as namespace/name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(max = 128)), extend("x-kubernetes-list-type" = "atomic"))]
    pub deleted_pod_names: Vec<String>,
    /// When the BMC had confirmed that the host was on again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub powered_on_at: Option<Timestamp>,
    /// When the attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub finished_at: Option<Timestamp>,
    /// The step in which the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<Step>,
    /// The reason for the end of the attempt, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason for the end of the attempt, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a host is known to be off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerOffEvidence {
    /// When the power-off was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub confirmed_at: Option<Timestamp>,
    /// The outlets that were switched off for it, as `PDU/outlet`, because the BMC could not confirm it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub outlets: Vec<String>,
    /// Why the BMC could not confirm it, where outlets were switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc_failure: Option<String>,
    /// The readings that show it; none after a confirmation by a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub readings: Vec<PowerReading>,
}

/// A reading of a host's power state from its BMC, or from the PDUs of its outlets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerReading {
    /// When the BMC answered.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub read_at: Timestamp,
    /// The protocol, such as Redfish or IPMI; `outlets` for a reading of all outlets of the host.
    pub protocol: String,
    /// The state in the BMC's own words.
    pub state: String,
    /// The system that the answer is about: its UUID or serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The RackAgent that read the power state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}
