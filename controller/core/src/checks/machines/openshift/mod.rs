//! OpenShift's MachineHealthCheck (`machine.openshift.io/v1beta1`).
//!
//! Owns the differences from Cluster API: how machines are counted, and what is done about them
//! (docs/reference/openshift.md, The check). The verdict is that of [`judge`]. Must never act while the
//! limit forbids it, nor let a machine under remediation make room for another one (F10).

pub(super) mod external;

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Check, ClusterFacts, Condition, ConditionRule, Counts, DialectRules, FleetCounts,
    HealthConditionWrite, Judgement, Limit, LimitStatus, MachineFacts, MachineRemediation,
    NodeView, Onset, SkipReason, Target, Verdict, judge, onsets,
};
use crate::values::int_or_percent::IntOrPercent;

/// The rules of one check of OpenShift.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftCheck {
    /// How long a Machine may be without a Node; `None`: without limit.
    pub startup_timeout: Option<Duration>,
    /// Conditions of the Node, OR-combined.
    pub node_conditions: Vec<ConditionRule>,
    /// The limit; `None`: it cannot be parsed, and remediation is never allowed.
    pub max_unhealthy: Option<IntOrPercent>,
    /// How an unhealthy Machine is remediated.
    pub strategy: OpenShiftStrategy,
    /// Whether the check has the annotation `cluster.x-k8s.io/paused`, so that it changes nothing.
    pub paused: bool,
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
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The failure message if the phase is `Failed`.
    pub failed: Option<String>,
    /// `status.lastUpdated`.
    pub last_updated: Option<Timestamp>,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Has an owner that is its controller.
    pub controlled: bool,
    /// Labelled as part of the control plane.
    pub master: bool,
    /// Carries `host.metal3.io/external-remediation`.
    pub external_remediation: bool,
    /// Carries `rackhand.dev/maintenance`: a HostMaintenance works on its host.
    pub maintenance: bool,
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

/// The verdict on one machine, in OpenShift's order: failed, no Node, Node gone, conditions.
///
/// A Machine whose host is under maintenance is skipped.
///
/// The startup timeout runs from `status.lastUpdated`. If that is not set yet, it runs from `now` at each
/// evaluation, so that it never fires.
pub fn judge_openshift(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: Timestamp,
) -> Judgement {
    if machine.maintenance {
        return Judgement::settled(Verdict::Skipped(SkipReason::Maintenance));
    }
    let (rules, cluster, facts) = asked(check, machine, now);
    judge(&rules, &cluster, &facts, node, now)
}

/// Every cause that the facts lead to in the course of time, for explanations: see [`onsets`].
pub fn onsets_openshift(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: Timestamp,
) -> Vec<Onset> {
    let (rules, cluster, facts) = asked(check, machine, now);
    onsets(&rules, &cluster, &facts, node)
}

/// The arguments of [`judge`] for one Machine of OpenShift.
fn asked(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    now: Timestamp,
) -> (Check, ClusterFacts, MachineFacts) {
    let rules = Check {
        startup_timeout: check.startup_timeout,
        node_conditions: check.node_conditions.clone(),
        machine_conditions: Vec::new(),
        limit: Limit::AtMost(IntOrPercent::Percent(100)),
        external: check.strategy == OpenShiftStrategy::Template,
        paused: check.paused,
    };
    let facts = MachineFacts {
        name: machine.name.clone(),
        uid: machine.uid.clone(),
        created: machine.last_updated.unwrap_or(now),
        deleting: machine.deleting,
        control_plane: machine.master,
        paused: false,
        skip_remediation: machine.maintenance,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready: None,
        failure: machine.failed.clone(),
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    };
    (rules, no_cluster(), facts)
}

/// Facts of a Cluster that is always ready, because OpenShift's Machines have no Cluster object.
pub fn no_cluster() -> ClusterFacts {
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
pub fn most_unhealthy(limit: Option<IntOrPercent>, expected: u32) -> Option<u32> {
    limit.map(|limit| u32::try_from(limit.of(expected).max(0)).unwrap_or(u32::MAX))
}

/// The action for one Machine, if any. `open`: the limit allows remediation.
pub fn openshift_action(
    check: &OpenShiftCheck,
    target: &OpenShiftTarget,
    verdict: &Verdict,
    open: bool,
) -> Option<OpenShiftAction> {
    let (facts, machine) = (&target.machine, target.machine.name.clone());
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
        (OpenShiftStrategy::ExternalBaremetal, _) if facts.failed.is_none() => {
            (!facts.external_remediation).then_some(OpenShiftAction::MarkExternal { machine })
        }
        _ if !facts.controlled => Some(OpenShiftAction::SkipNoController { machine }),
        _ if facts.deleting => None,
        _ => Some(OpenShiftAction::DeleteMachine { machine, uid }),
    }
}

// === impl OpenShiftCheck ===

impl DialectRules for OpenShiftCheck {
    type Machine = OpenShiftMachine;
    type Action = OpenShiftAction;

    fn name(machine: &OpenShiftMachine) -> &str {
        &machine.name
    }

    fn uid(machine: &OpenShiftMachine) -> &str {
        &machine.uid
    }

    fn conditions(_: &mut OpenShiftMachine) -> Option<&mut Vec<Condition>> {
        None
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn node_rules(&self) -> &[ConditionRule] {
        &self.node_conditions
    }

    fn machine_rules(&self) -> &[ConditionRule] {
        &[]
    }

    fn judge(
        &self,
        _: &ClusterFacts,
        machine: &OpenShiftMachine,
        node: &NodeView,
        now: Timestamp,
    ) -> Judgement {
        judge_openshift(self, machine, node, now)
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

    fn gate<'a>(&self, tally: &FleetCounts, _: impl IntoIterator<Item = &'a str>) -> LimitStatus {
        let FleetCounts {
            expected,
            not_healthy,
            ..
        } = *tally;
        let most = most_unhealthy(self.max_unhealthy, expected);
        let open = self.is_open(tally);
        LimitStatus {
            open,
            expected,
            not_healthy,
            remediations_allowed: most.unwrap_or(0).saturating_sub(not_healthy),
            message: match (open, most) {
                (true, _) => String::new(),
                (false, Some(most)) => format!(
                    "Remediation is not allowed: {not_healthy} of {expected} machines are not \
                     healthy, and maxUnhealthy is {most}"
                ),
                (false, None) => {
                    "Remediation is not allowed: maxUnhealthy cannot be parsed".to_owned()
                }
            },
        }
    }

    fn is_open(&self, tally: &FleetCounts) -> bool {
        let most = most_unhealthy(self.max_unhealthy, tally.expected);
        most.is_some_and(|most| tally.not_healthy <= most)
    }

    fn can_close(&self, expected: u32) -> bool {
        let most = most_unhealthy(self.max_unhealthy, expected);
        most.is_none_or(|most| most < expected)
    }

    fn condition(&self, _: &OpenShiftMachine, _: &Verdict) -> Option<HealthConditionWrite> {
        None
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
