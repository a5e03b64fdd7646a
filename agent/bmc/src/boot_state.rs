//! How far a host has booted, and why it last started.

/// What a BMC reports about the boot of its host; empty where it reports nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BootState {
    /// How far the host has booted: `OSRunning` (Redfish `BootProgress`).
    pub progress: Option<String>,
    /// Why the host last started: `watchdog` (IPMI Get System Restart Cause).
    pub restart_cause: Option<String>,
    /// What is wrong with power and chassis: `cooling fault` (IPMI Get Chassis Status).
    pub faults: Vec<String>,
}
