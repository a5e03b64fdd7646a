//! Conflicts of a NodeHealthCheck with OpenShift (docs/reference/medik8s.md, Admission).
//!
//! Owns when a check is disabled in favour of OpenShift's own. Must never act beside another health check
//! that may remediate the same Nodes.

use super::decide::Disabled;

/// The condition of terminating Nodes; a MachineHealthCheck with only this condition handles only them.
const TERMINATING: &str = "Terminating";
/// Control-plane topologies for which medik8s supports checks of Nodes.
const TOPOLOGIES: [&str; 4] = [
    "HighlyAvailable",
    "SingleReplica",
    "HighlyAvailableArbiter",
    "External",
];

/// A MachineHealthCheck of OpenShift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineCheck {
    /// `namespace/name`.
    pub name: String,
    /// The types of the conditions that make its Machines unhealthy.
    pub conditions: Vec<String>,
}

/// What OpenShift's MachineHealthChecks mean for the checks of Nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MhcConflict {
    /// There is no MachineHealthCheck.
    Nothing,
    /// The only MachineHealthCheck handles terminating Nodes and no others.
    Terminating,
    /// MachineHealthChecks may act on the same Nodes.
    Conflict(Disabled),
}

/// Evaluates all MachineHealthChecks of OpenShift in the cluster.
pub fn mhc_conflict(checks: &[MachineCheck]) -> MhcConflict {
    let conflict = |message: String| {
        MhcConflict::Conflict(Disabled {
            reason: "ConflictingMachineHealthCheckDetected",
            message,
        })
    };
    match checks {
        [] => MhcConflict::Nothing,
        [only] if only.conditions == [TERMINATING] => MhcConflict::Terminating,
        [only] => conflict(format!(
            "MachineHealthCheck {} may act on the same Nodes; delete it, or this check",
            only.name
        )),
        [first, ..] => conflict(format!(
            "{} MachineHealthChecks, {} among them, may act on the same Nodes; delete them, or this check",
            checks.len(),
            first.name
        )),
    }
}

/// Why checks of Nodes are disabled on a control plane of this topology, if they are: for example, two
/// Nodes that fence each other.
pub fn unsupported(topology: &str) -> Option<Disabled> {
    (!topology.is_empty() && !TOPOLOGIES.contains(&topology)).then(|| Disabled {
        reason: "UnsupportedControlPlaneTopology",
        message: format!(
            "the control-plane topology {topology} is not supported by NodeHealthChecks"
        ),
    })
}
