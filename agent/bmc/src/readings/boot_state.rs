//! Boot progress of a host, and the cause of its last start.

/// Boot state of a host; a field is empty if the BMC does not report it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BootState {
    /// Boot progress: `OSRunning` (Redfish `BootProgress`).
    pub progress: Option<String>,
    /// Cause of the last start: `watchdog` (IPMI Get System Restart Cause).
    pub restart_cause: Option<String>,
    /// Faults of power and chassis: `cooling fault` (IPMI Get Chassis Status).
    pub faults: Vec<String>,
}
