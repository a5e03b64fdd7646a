//! Power states and readings of a BMC.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A power state as reported by a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PowerState {
    /// The BMC reports exactly on.
    On,
    /// The BMC reports exactly off.
    Off,
    /// The BMC reports that the host is powering on.
    PoweringOn,
    /// The BMC reports that the host is powering off, which is not off.
    PoweringOff,
    /// The BMC reports anything else, or nothing.
    Unknown,
}

/// One reading of a BMC, as reported by an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PowerReading {
    /// Power state that the BMC reported.
    pub state: PowerState,
    /// The state as the BMC reported it.
    pub raw: String,
    /// `Redfish`, `IPMI` or [`OUTLETS_PROTOCOL`](super::super::OUTLETS_PROTOCOL); empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// The identity of the system that the BMC reports; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Time by the agent's wall clock, for display.
    pub at: Timestamp,
    /// Time by the agent's monotonic clock in milliseconds, for intervals.
    pub since_start_ms: u64,
    /// Address of the BMC.
    pub bmc: String,
}

/// The latest reading that this controller requested outside an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PowerView {
    /// When the request was sent, by our clock. The reading proves nothing about the time before.
    pub asked: Timestamp,
    /// When the response arrived, by our clock, which determines the age of the reading.
    pub answered: Timestamp,
    /// renewTime of the Lease as it was known when the request was sent.
    pub lease: Option<String>,
    /// The reading, or why there is none.
    pub result: Result<PowerReading, String>,
}
