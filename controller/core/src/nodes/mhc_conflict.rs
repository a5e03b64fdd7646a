//! What OpenShift itself says about checks of Nodes (docs/reference/medik8s.md, Admission).
//!
//! Owns when a check gives way to OpenShift's own. Must never act beside another health check that may
//! care for the same Nodes.

use super::decide::Disabled;

/// The condition of Nodes that are to end; a MachineHealthCheck that knows only this one handles them.
const TERMINATING: &str = "Terminating";
/// Control planes of which medik8s says that checks of Nodes are safe there.
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
    /// There is none.
    Nothing,
    /// One, that cares for Nodes that are to end and for no others.
    Terminating,
    /// Others may act on the same Nodes.
    Conflict(Disabled),
}

/// Looks at all of them.
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

/// Whether the control plane is of a form for which checks of Nodes are not made: two Nodes that fence
/// each other do that by themselves.
pub fn unsupported(topology: &str) -> Option<Disabled> {
    (!topology.is_empty() && !TOPOLOGIES.contains(&topology)).then(|| Disabled {
        reason: "UnsupportedControlPlaneTopology",
        message: format!(
            "the control plane of this cluster is {topology}, for which no check of Nodes acts"
        ),
    })
}
