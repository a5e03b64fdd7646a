//! OpenShift's MachineHealthCheck (`machine.openshift.io/v1beta1`).
//!
//! Owns the differences from Cluster API: how machines are counted, and what is done about them
//! (docs/reference/openshift.md, The check). The verdict is that of [`super::judge`]. Must never act while the
//! limit forbids it, nor let a machine under remediation make room for another one (F10).

pub(super) mod external;

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Check, ClusterFacts, ConditionRule, Counts, DialectRules, FleetCounts, Limit, MachineFacts,
    MachineRemediation, Target, Verdict,
};

/// The rules of one check of OpenShift.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftCheck {
    /// The rules that Cluster API shares.
    pub common: Check,
    /// How an unhealthy Machine is remediated.
    pub strategy: OpenShiftStrategy,
}

/// How a check remediates an unhealthy Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenShiftStrategy {
    /// Create a remediation from a template.
    Template,
    /// `machine.openshift.io/remediation-strategy: external-baremetal`: mark the Machine, and have its
    /// host power-cycled.
    ExternalBaremetal,
    /// Delete the Machine; its owner replaces it.
    Delete,
}

/// The facts about one Machine of OpenShift.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftMachine {
    /// The facts on which its verdict rests.
    pub facts: MachineFacts,
    /// Has an owner that is its controller.
    pub controlled: bool,
    /// Carries `host.metal3.io/external-remediation`.
    pub external_remediation: bool,
}

/// One selected Machine of OpenShift.
pub type OpenShiftTarget = Target<OpenShiftMachine>;

/// An action for one Machine. Actions are idempotent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OpenShiftAction {
    /// Create the remediation of this Machine.
    CreateRemediation {
        /// Name of the Machine.
        machine: String,
        /// UID of the Machine, for the ownerReference.
        uid: String,
    },
    /// Delete the remediation: the Machine is healthy again.
    DeleteRemediation {
        /// Name of the Machine.
        machine: String,
    },
    /// Report that the remediation of this name belongs to another Machine.
    ReportForeignRemediation {
        /// Name of the Machine.
        machine: String,
        /// Kind and name of the other owner.
        owner: String,
    },
    /// Put `host.metal3.io/external-remediation` on the Machine.
    MarkExternal {
        /// Name of the Machine.
        machine: String,
    },
    /// Delete the Machine.
    DeleteMachine {
        /// Name of the Machine.
        machine: String,
        /// UID of the Machine that was evaluated.
        uid: String,
    },
    /// Report that no controller would replace the Machine (Event `SkippedNoController`).
    SkipNoController {
        /// Name of the Machine.
        machine: String,
    },
}

/// Facts of a Cluster that is always ready: Machines of OpenShift have no Cluster, and one that is not recorded is
/// assumed to be.
pub fn ready_cluster() -> ClusterFacts {
    ClusterFacts {
        paused: false,
        infrastructure_ready: Some(Timestamp::MIN),
        control_plane_initialized: Some(Timestamp::MIN),
    }
}

/// Whether a Machine counts as healthy. Unlike with Cluster API, a starting Machine does not, nor does
/// one that is marked for external remediation, nor one whose remediation still exists (F10).
pub fn counts_as_healthy(verdict: &Verdict, target: &OpenShiftTarget) -> bool {
    let under_way = matches!(
        target.remediation,
        MachineRemediation::Open | MachineRemediation::Deleting
    );
    *verdict == Verdict::Healthy && !target.machine.external_remediation && !under_way
}

/// The number of Machines that may be unhealthy: a percentage is rounded down, a negative number is 0.
/// `None`: the limit cannot be parsed.
pub fn most_unhealthy(limit: Limit, expected: u32) -> Option<u32> {
    match limit {
        Limit::AtMost(limit) => Some(u32::try_from(limit.of(expected).max(0)).unwrap_or(u32::MAX)),
        Limit::Range { max, .. } => Some(max),
        Limit::Unreadable => None,
    }
}

/// The action for one Machine, if any. `open`: the limit allows remediation.
pub fn openshift_action(
    check: &OpenShiftCheck,
    target: &OpenShiftTarget,
    verdict: &Verdict,
    open: bool,
) -> Option<OpenShiftAction> {
    let (seen, facts) = (&target.machine, &target.machine.facts);
    let machine = facts.name.clone();
    let unhealthy = match verdict {
        Verdict::Unhealthy { .. } => true,
        Verdict::Healthy => false,
        _ => return None,
    };
    let uid = facts.uid.clone();
    match (check.strategy, &target.remediation) {
        (OpenShiftStrategy::Template, MachineRemediation::Open) if !unhealthy => {
            Some(OpenShiftAction::DeleteRemediation { machine })
        }
        _ if !unhealthy || !open => None,
        (OpenShiftStrategy::Template, _) if facts.deleting => None,
        (OpenShiftStrategy::Template, MachineRemediation::None) => {
            Some(OpenShiftAction::CreateRemediation { machine, uid })
        }
        (OpenShiftStrategy::Template, MachineRemediation::Foreign { owner }) => {
            let owner = owner.clone();
            Some(OpenShiftAction::ReportForeignRemediation { machine, owner })
        }
        (OpenShiftStrategy::Template, MachineRemediation::Open | MachineRemediation::Deleting) => {
            None
        }
        (OpenShiftStrategy::ExternalBaremetal, _) if facts.failure.is_none() => {
            (!seen.external_remediation).then_some(OpenShiftAction::MarkExternal { machine })
        }
        _ if !seen.controlled => Some(OpenShiftAction::SkipNoController { machine }),
        _ if facts.deleting => None,
        _ => Some(OpenShiftAction::DeleteMachine { machine, uid }),
    }
}

// === impl OpenShiftCheck ===

impl OpenShiftCheck {
    /// The rules of a check that nothing pauses.
    pub fn new(
        startup_timeout: Option<Duration>,
        node_conditions: Vec<ConditionRule>,
        limit: Limit,
        strategy: OpenShiftStrategy,
    ) -> Self {
        Self {
            common: Check {
                startup_timeout,
                node_conditions,
                machine_conditions: Vec::new(),
                limit,
                external: strategy == OpenShiftStrategy::Template,
                paused: false,
            },
            strategy,
        }
    }
}

// === impl OpenShiftMachine ===

impl AsRef<MachineFacts> for OpenShiftMachine {
    fn as_ref(&self) -> &MachineFacts {
        &self.facts
    }
}

impl AsMut<MachineFacts> for OpenShiftMachine {
    fn as_mut(&mut self) -> &mut MachineFacts {
        &mut self.facts
    }
}

impl DialectRules for OpenShiftCheck {
    type Machine = OpenShiftMachine;
    type Action = OpenShiftAction;

    fn common(&self) -> &Check {
        &self.common
    }

    fn counts(&self, target: &OpenShiftTarget, verdict: &Verdict) -> Counts {
        let healthy = counts_as_healthy(verdict, target);
        Counts {
            expected: true,
            healthy,
            unhealthy: matches!(verdict, Verdict::Unhealthy { .. }),
            not_healthy: !healthy,
        }
    }

    fn allowance(&self, tally: &FleetCounts) -> Option<u32> {
        most_unhealthy(self.common.limit, tally.expected)?.checked_sub(tally.not_healthy)
    }

    fn refusal<'a>(&self, tally: &FleetCounts, _: impl IntoIterator<Item = &'a str>) -> String {
        let FleetCounts {
            expected,
            not_healthy,
            ..
        } = *tally;
        match most_unhealthy(self.common.limit, expected) {
            Some(most) => format!(
                "Remediation is not allowed: {not_healthy} of {expected} machines are not \
                 healthy, and maxUnhealthy is {most}"
            ),
            None => "Remediation is not allowed: maxUnhealthy cannot be parsed".to_owned(),
        }
    }

    fn is_marked(&self, machine: &OpenShiftMachine) -> bool {
        self.strategy == OpenShiftStrategy::ExternalBaremetal && machine.external_remediation
    }

    fn action(
        &self,
        target: &OpenShiftTarget,
        verdict: &Verdict,
        open: bool,
    ) -> Option<OpenShiftAction> {
        openshift_action(self, target, verdict, open)
    }
}

// === impl OpenShiftAction ===

impl OpenShiftAction {
    /// Name of the Machine.
    pub fn machine(&self) -> &str {
        match self {
            Self::CreateRemediation { machine, .. }
            | Self::DeleteRemediation { machine }
            | Self::ReportForeignRemediation { machine, .. }
            | Self::MarkExternal { machine }
            | Self::DeleteMachine { machine, .. }
            | Self::SkipNoController { machine } => machine,
        }
    }

    /// A short, stable name, for logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::CreateRemediation { .. } => "create_request",
            Self::DeleteRemediation { .. } => "delete_request",
            Self::ReportForeignRemediation { .. } => "report_foreign_request",
            Self::MarkExternal { .. } => "mark_external",
            Self::DeleteMachine { .. } => "delete_machine",
            Self::SkipNoController { .. } => "skip_no_controller",
        }
    }
}
