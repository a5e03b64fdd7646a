//! Conflicts of a NodeHealthCheck with OpenShift (docs/reference/medik8s.md, Admission).
//!
//! Owns when a check is disabled in favour of OpenShift's own. Must never act beside another health check
//! that may remediate the same Nodes.

use super::decide::Disabled;

/// The condition of terminating Nodes; a MachineHealthCheck with only this condition handles only them.
const TERMINATING: &str = "Terminating";
/// Longest cause in a message, in characters. It is an answer of the API server.
const LONGEST_CAUSE: usize = 300;
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

/// What is known of OpenShift's MachineHealthChecks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineChecks<'a> {
    /// All that exist.
    Known(&'a [MachineCheck]),
    /// They may exist, and cannot be watched now, with the cause.
    Unknown(&'a str),
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

/// Evaluates all MachineHealthChecks of OpenShift in the cluster. If they are unknown, they conflict (F12).
pub fn mhc_conflict(checks: MachineChecks<'_>) -> MhcConflict {
    let conflict = |message: String| {
        MhcConflict::Conflict(Disabled {
            reason: "ConflictingMachineHealthCheckDetected",
            message,
        })
    };
    let checks = match checks {
        MachineChecks::Known(checks) => checks,
        MachineChecks::Unknown(why) => {
            return conflict(format!(
                "the MachineHealthChecks of machine.openshift.io are unknown, and may act on the same Nodes: {}",
                shortened(why)
            ));
        }
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

/// Checks of Nodes are disabled while it is unknown on which topology they would act (F12).
pub fn unknown_topology(why: &str) -> Disabled {
    Disabled {
        reason: "UnsupportedControlPlaneTopology",
        message: format!(
            "the control-plane topology of OpenShift is unknown: {}",
            shortened(why)
        ),
    }
}

fn shortened(why: &str) -> String {
    why.chars().take(LONGEST_CAUSE).collect()
}
