//! What a check does about its fleet.
//!
//! Owns the choice of actions. Must never act on a machine while the limit is closed, nor look at
//! the clock.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    Check, ClusterFacts, Counts, FleetCounts, FutureCause, HealthConditionWrite, LimitStatus,
    RequestView, Target, Verdict, counts_against_limit, health_condition, judge,
};

/// What goes into the status of the check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckStatus {
    /// `expectedMachines`.
    pub expected: u32,
    /// `currentHealthy`.
    pub healthy: u32,
    /// Number judged unhealthy now.
    pub unhealthy: u32,
    /// `targets`, sorted.
    pub targets: Vec<String>,
}

/// One thing to do. Doing it twice is harmless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create the remediation request of this Machine.
    CreateRequest {
        /// Name of the Machine.
        machine: String,
        /// Its UID, for the ownerReference.
        uid: String,
    },
    /// Delete the request: the Machine is healthy again. Only the signal: whether the remediation
    /// is aborted or finished first is for the remediator to decide (F11).
    DeleteRequest {
        /// Name of the Machine.
        machine: String,
    },
    /// Set `OwnerRemediated=False/WaitingForRemediation`: its owner shall replace it.
    MarkOwnerRemediated {
        /// Name of the Machine.
        machine: String,
    },
    /// Take `OwnerRemediated=False/WaitingForRemediation` back: the Machine is healthy again.
    UnmarkOwnerRemediated {
        /// Name of the Machine.
        machine: String,
    },
    /// A request of that name belongs to another Machine: say so on this one.
    ReportForeignRequest {
        /// Name of the Machine.
        machine: String,
        /// Whose it is.
        owner: String,
    },
}

/// Everything that follows from one look at the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// For the status of the check.
    pub status: CheckStatus,
    /// Whether remediation is allowed.
    pub gate: LimitStatus,
    /// The verdict per Machine, skipped ones included.
    pub verdicts: BTreeMap<String, Verdict>,
    /// The `HealthCheckSucceeded` of Machines whose condition must be written (differs in status
    /// from what they carry, or is False).
    pub conditions: BTreeMap<String, HealthConditionWrite>,
    /// What is said to hold since a time that lies ahead, of the Machines of which there is such a
    /// thing.
    pub ahead: BTreeMap<String, Vec<FutureCause>>,
    /// What to do, in the order of the Machines' names.
    pub actions: Vec<Action>,
    /// When to look again although nothing has changed: never later than the first judgement changes
    /// by itself.
    pub wake_at: Option<Timestamp>,
}

/// Judges the fleet of one check (docs/reference/cluster-api.md, Evaluation).
///
/// While the gate is closed conditions are still written, the timer still runs and recovered
/// machines still lose their request (unlike upstream: docs/reference/cluster-api.md, Q6 and Q8). A paused check
/// or Cluster is judged, for those who ask why, but nothing is written and no timer runs.
///
/// The order of `fleet` does not matter; its Machines' names are unique, as in one namespace.
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
        tally.add(Counts::of(&judgement.verdict, &target.request));
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
        .filter(|(target, verdict)| counts_against_limit(verdict, &target.request))
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

/// What to do about one machine of a check that is not paused (docs/reference/cluster-api.md, Remediation).
///
/// One machine's request never keeps another from getting one (unlike upstream:
/// docs/reference/cluster-api.md, Q10). A Machine
/// that is being deleted gets none, nor does one whose request is being deleted: that one's
/// remediator still works.
pub fn action(check: &Check, target: &Target, verdict: &Verdict, open: bool) -> Option<Action> {
    let (facts, machine) = (&target.machine, target.machine.name.clone());
    match (verdict, &target.request) {
        (Verdict::Healthy, RequestView::Open) if check.external => {
            Some(Action::DeleteRequest { machine })
        }
        // What a check has set it takes back; what the owner has answered is the owner's.
        (Verdict::Healthy, _) if !check.external && facts.awaits_owner && !facts.deleting => {
            Some(Action::UnmarkOwnerRemediated { machine })
        }
        (Verdict::Unhealthy { .. }, _) if !open || facts.deleting => None,
        (Verdict::Unhealthy { .. }, request) if check.external => match request {
            RequestView::None => Some(Action::CreateRequest {
                machine,
                uid: facts.uid.clone(),
            }),
            RequestView::Foreign { owner } => Some(Action::ReportForeignRequest {
                machine,
                owner: owner.clone(),
            }),
            RequestView::Open | RequestView::Deleting => None,
        },
        // A False is the owner's: it has taken the machine over.
        (Verdict::Unhealthy { .. }, _) if facts.owner_remediated != Some(false) => {
            Some(Action::MarkOwnerRemediated { machine })
        }
        _ => None,
    }
}

// === impl Action ===

impl Action {
    /// Whether it hands an unhealthy machine over to remediation. Such an action waits until the view of
    /// the fleet is whole (F13).
    pub fn hands_over(&self) -> bool {
        match self {
            Self::CreateRequest { .. } | Self::MarkOwnerRemediated { .. } => true,
            Self::DeleteRequest { .. }
            | Self::UnmarkOwnerRemediated { .. }
            | Self::ReportForeignRequest { .. } => false,
        }
    }

    /// The Machine that it is about.
    pub fn machine(&self) -> &str {
        match self {
            Self::CreateRequest { machine, .. }
            | Self::DeleteRequest { machine }
            | Self::MarkOwnerRemediated { machine }
            | Self::UnmarkOwnerRemediated { machine }
            | Self::ReportForeignRequest { machine, .. } => machine,
        }
    }

    /// A short, stable name, for metric labels and logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::CreateRequest { .. } => "create_request",
            Self::DeleteRequest { .. } => "delete_request",
            Self::MarkOwnerRemediated { .. } => "mark_owner_remediated",
            Self::UnmarkOwnerRemediated { .. } => "unmark_owner_remediated",
            Self::ReportForeignRequest { .. } => "report_foreign_request",
        }
    }
}
