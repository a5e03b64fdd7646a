//! The actions of a check for its fleet.
//!
//! Owns the choice of actions. Must never remediate a machine while the limit forbids it, nor read the
//! clock.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    Check, ClusterFacts, Counts, FleetCounts, FutureCause, HealthConditionWrite, LimitStatus,
    MachineRemediation, Target, Verdict, counts_against_limit, health_condition, judge,
};

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

/// The result of one evaluation of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The values for the status of the check.
    pub status: CheckStatus,
    /// Whether remediation is allowed.
    pub gate: LimitStatus,
    /// The verdict per Machine, skipped ones included.
    pub verdicts: BTreeMap<String, Verdict>,
    /// The `HealthCheckSucceeded` of Machines whose condition must be written (differs in status
    /// from what they carry, or is False).
    pub conditions: BTreeMap<String, HealthConditionWrite>,
    /// Causes whose recorded time is in the future, by Machine.
    pub ahead: BTreeMap<String, Vec<FutureCause>>,
    /// The actions, in the order of the Machines' names.
    pub actions: Vec<Action>,
    /// When to evaluate again although no object has changed: no later than the first judgement changes
    /// by time alone.
    pub wake_at: Option<Timestamp>,
}

/// Evaluates the fleet of one check (docs/reference/cluster-api.md, Evaluation).
///
/// While the limit forbids remediation, conditions are still written, the timer still runs and recovered
/// machines still lose their remediation (unlike upstream: docs/reference/cluster-api.md, Q6 and Q8). With a
/// paused check or Cluster, verdicts are computed for explanations, but nothing is written and no timer
/// runs.
///
/// The order of `fleet` does not matter; the names of its Machines are unique, as in one namespace.
pub fn plan(check: &Check, cluster: &ClusterFacts, fleet: &[Target], now: Timestamp) -> Plan {
    let by_name: BTreeMap<&str, &Target> = fleet
        .iter()
        .map(|target| (target.machine.name.as_str(), target))
        .collect();

    let mut tally = FleetCounts::default();
    let mut targets = Vec::new();
    let (mut verdicts, mut ahead) = (BTreeMap::new(), BTreeMap::new());
    let mut wake_at: Option<Timestamp> = None;
    for (name, target) in &by_name {
        let judgement = judge(check, cluster, &target.machine, &target.node, now);
        tally.add(Counts::of(&judgement.verdict, &target.remediation));
        if judgement.verdict.is_target() {
            targets.push((*name).to_owned());
        }
        wake_at = wake_at.into_iter().chain(judgement.holds_until()).min();
        if !judgement.ahead.is_empty() {
            ahead.insert((*name).to_owned(), judgement.ahead);
        }
        verdicts.insert((*name).to_owned(), judgement.verdict);
    }

    let judged = || by_name.values().zip(verdicts.values());
    let counting = judged()
        .filter(|(target, verdict)| counts_against_limit(verdict, &target.remediation))
        .map(|(target, _)| target.machine.name.as_str());
    let gate = LimitStatus::new(check, &tally, counting);

    let (mut conditions, mut actions) = (BTreeMap::new(), Vec::new());
    let paused = check.paused || cluster.paused;
    if !paused {
        for (target, verdict) in judged() {
            let name = &target.machine.name;
            if let Some(write) = health_condition(&target.machine, verdict) {
                conditions.insert(name.clone(), write);
            }
            actions.extend(action(check, target, verdict, gate.open));
        }
    }
    Plan {
        status: CheckStatus {
            expected: tally.expected,
            healthy: tally.healthy,
            unhealthy: tally.unhealthy,
            targets,
        },
        gate,
        verdicts,
        conditions,
        ahead,
        actions,
        wake_at: wake_at.filter(|_| !paused),
    }
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
