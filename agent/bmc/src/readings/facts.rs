//! Facts about a BMC and the account in use, for a diagnosis.

use std::time::Duration;

use jiff::Timestamp;

/// Facts about a BMC; `None` where it does not report one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Protocol and version: `Redfish 1.15.0`, `IPMI 2.0`.
    pub service: Option<String>,
    /// Firmware version of the BMC.
    pub firmware: Option<String>,
    /// Reset types that the system supports (Redfish).
    pub actions: Option<Vec<String>>,
    /// Role or privilege of the account, as the BMC reports it: `Administrator`, `OPERATOR`.
    pub privilege: Option<String>,
    /// Whether that is enough to switch power.
    pub may_switch: Option<bool>,
    /// The cipher suite in use (IPMI).
    pub suite: Option<u8>,
    /// The cipher suites that the BMC offers (IPMI), in its order.
    pub suites: Option<Vec<u8>>,
    /// Time of the BMC clock, in whole seconds.
    pub clock: Option<Timestamp>,
    /// Uptime of the manager (Redfish `LastResetTime`).
    pub uptime: Option<Duration>,
}
