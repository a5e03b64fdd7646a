//! Remediations that no failure has caused: planned work on hosts, and what labels on Nodes ask for.
//!
//! Owns: the status and the marks of HostMaintenances, and the labels of RemediationTriggers. Must never: switch a host;
//! the remediation that each makes does.

pub(crate) mod maintenance;
pub(crate) mod triggers;
