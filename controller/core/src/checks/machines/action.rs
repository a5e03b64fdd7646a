//! The action for one Machine of a check, and the values for the status of the check.
//!
//! Must never remediate a machine while the limit forbids it, nor read the clock.

use super::{Check, MachineRemediation, Target, Verdict};

/// The values for the status of the check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckStatus {
    /// `expectedMachines`.
    pub expected: u32,
    /// `currentHealthy`.
    pub healthy: u32,
    /// Number of machines that are unhealthy now.
    pub unhealthy: u32,
    /// `targets`, sorted.
    pub targets: Vec<String>,
}

/// An action for one Machine. Actions are idempotent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create the remediation of this Machine.
    CreateRemediation {
        /// Name of the Machine.
        machine: String,
        /// UID of the Machine, for the ownerReference.
        uid: String,
    },
    /// Delete the remediation: the Machine is healthy again. The remediator decides whether it aborts the
    /// remediation or finishes it first (F11).
    DeleteRemediation {
        /// Name of the Machine.
        machine: String,
    },
    /// Set `OwnerRemediated=False/WaitingForRemediation`, so that the owner replaces the Machine.
    MarkOwnerRemediated {
        /// Name of the Machine.
        machine: String,
    },
    /// Remove `OwnerRemediated=False/WaitingForRemediation`: the Machine is healthy again.
    UnmarkOwnerRemediated {
        /// Name of the Machine.
        machine: String,
    },
    /// Report on this Machine that the remediation of its name belongs to another one.
    ReportForeignRemediation {
        /// Name of the Machine.
        machine: String,
        /// Kind and name of the other owner.
        owner: String,
    },
}

/// The action for one machine of a check that is not paused (docs/reference/cluster-api.md, Remediation).
///
/// The remediation of one machine never prevents the remediation of another (unlike upstream:
/// docs/reference/cluster-api.md, Q10). A Machine that is being deleted gets no remediation, nor does one
/// whose remediation is being deleted, because its remediator is still at work.
pub fn action(check: &Check, target: &Target, verdict: &Verdict, open: bool) -> Option<Action> {
    let (facts, machine) = (&target.machine, target.machine.name.clone());
    match (verdict, &target.remediation) {
        (Verdict::Healthy, MachineRemediation::Open) if check.external => {
            Some(Action::DeleteRemediation { machine })
        }
        // A check removes only the condition that it has set, not the owner's response.
        (Verdict::Healthy, _) if !check.external && facts.awaits_owner && !facts.deleting => {
            Some(Action::UnmarkOwnerRemediated { machine })
        }
        (Verdict::Unhealthy { .. }, _) if !open || facts.deleting => None,
        (Verdict::Unhealthy { .. }, remediation) if check.external => match remediation {
            MachineRemediation::None => Some(Action::CreateRemediation {
                machine,
                uid: facts.uid.clone(),
            }),
            MachineRemediation::Foreign { owner } => Some(Action::ReportForeignRemediation {
                machine,
                owner: owner.clone(),
            }),
            MachineRemediation::Open | MachineRemediation::Deleting => None,
        },
        // False: the owner has been asked already, or has taken the machine over.
        (Verdict::Unhealthy { .. }, _) if facts.owner_remediated != Some(false) => {
            Some(Action::MarkOwnerRemediated { machine })
        }
        _ => None,
    }
}

// === impl Action ===

impl Action {
    /// Whether the action hands an unhealthy machine over to remediation. Such an action waits until the
    /// view of the fleet is complete (F13).
    pub fn hands_over(&self) -> bool {
        match self {
            Self::CreateRemediation { .. } | Self::MarkOwnerRemediated { .. } => true,
            Self::DeleteRemediation { .. }
            | Self::UnmarkOwnerRemediated { .. }
            | Self::ReportForeignRemediation { .. } => false,
        }
    }

    /// Name of the Machine.
    pub fn machine(&self) -> &str {
        match self {
            Self::CreateRemediation { machine, .. }
            | Self::DeleteRemediation { machine }
            | Self::MarkOwnerRemediated { machine }
            | Self::UnmarkOwnerRemediated { machine }
            | Self::ReportForeignRemediation { machine, .. } => machine,
        }
    }

    /// A short, stable name, for metric labels and logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::CreateRemediation { .. } => "create_request",
            Self::DeleteRemediation { .. } => "delete_request",
            Self::MarkOwnerRemediated { .. } => "mark_owner_remediated",
            Self::UnmarkOwnerRemediated { .. } => "unmark_owner_remediated",
            Self::ReportForeignRemediation { .. } => "report_foreign_request",
        }
    }
}
