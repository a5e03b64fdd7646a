//! What a BMC reported about its host before the host was switched off, and while it booted again.
//!
//! Owns the schema, shared by PowerRemediation and HostHistory. It must never hold a secret or a BMC's
//! address.

use jiff::Timestamp;
use rackhand_core::remediation::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was collected before the power-off of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostEvidence {
    /// The number of the attempt, from 1.
    #[schemars(range(min = 1))]
    pub attempt: i32,
    /// When it was collected, or no longer waited for.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub collected_at: Timestamp,
    /// The power state in the BMC's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// How far the host had booted, why it last started, and the faults of its
    /// chassis, if the BMC reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub boot: Vec<String>,
    /// What became of the diagnostic interrupt, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<String>,
    /// The newest entries of the BMC's event log, equal ones as one, the oldest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub log: Vec<LogRecord>,
    /// The sensors that were not OK.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub sensors: Vec<SensorAlarm>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub missing: Vec<String>,
    /// What the event log recorded while the host booted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_log: Option<BootLog>,
}

/// Equal entries of an event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogRecord {
    /// When the latest of them was recorded, by the BMC's clock, which may be
    /// wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Option<Timestamp>,
    /// How severe it is, as the BMC reports it.
    pub severity: Severity,
    /// The sensor that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensor: Option<String>,
    /// The text of the event.
    pub message: String,
    /// How many equal entries there are among the newest ones.
    #[schemars(range(min = 1))]
    pub count: i32,
}

/// A sensor that was not OK.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SensorAlarm {
    /// The name of the sensor at the BMC.
    pub name: String,
    /// The value with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// How severe it is, as the BMC reports it.
    pub severity: Severity,
}

/// What the event log recorded between the power-off and the end of the boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootLog {
    /// The entries, equal ones as one, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub records: Vec<LogRecord>,
    /// Why they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}
