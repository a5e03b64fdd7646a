//! What a BMC says of itself and of whoever is logged in: for a diagnosis.

use jiff::Timestamp;

/// Everything that a BMC tells about the way to it. What it does not say is `None`: a diagnosis
/// looks at what there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What speaks there: `Redfish 1.15.0`, `IPMI 2.0`.
    pub service: Option<String>,
    /// The BMC's own firmware.
    pub firmware: Option<String>,
    /// The reset types that the system takes (Redfish).
    pub actions: Option<Vec<String>>,
    /// Role or privilege of the account, in the BMC's word: `Administrator`, `OPERATOR`.
    pub privilege: Option<String>,
    /// Whether that is enough to switch power.
    pub may_switch: Option<bool>,
    /// The cipher suite in use (IPMI).
    pub suite: Option<u8>,
    /// The cipher suites that the BMC offers (IPMI), in its order.
    pub suites: Option<Vec<u8>>,
    /// The time by the BMC's clock, in whole seconds.
    pub clock: Option<Timestamp>,
}
