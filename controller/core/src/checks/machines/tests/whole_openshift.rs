//! The evaluation of a whole fleet of OpenShift, which the incremental one must equal.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::{
    DialectRules, FleetCounts, FutureCause, LimitStatus, OpenShiftAction, OpenShiftCheck,
    OpenShiftTarget, Verdict, judge, openshift_action, ready_cluster,
};

/// The result of one evaluation of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OpenShiftPlan {
    /// `expectedMachines`.
    pub(super) expected: u32,
    /// `currentHealthy`.
    pub(super) healthy: u32,
    /// Whether the limit allows remediation.
    pub(super) open: bool,
    /// `remediationsAllowed`.
    pub(super) remediations_allowed: u32,
    /// Why remediation is not allowed; empty if it is.
    pub(super) message: String,
    /// The verdict on each Machine.
    pub(super) verdicts: BTreeMap<String, Verdict>,
    /// Causes whose recorded time is in the future, by Machine.
    pub(super) ahead: BTreeMap<String, Vec<FutureCause>>,
    /// The actions, in the order of the Machines' names.
    pub(super) actions: Vec<OpenShiftAction>,
    /// When to evaluate again although no object has changed.
    pub(super) wake_at: Option<Timestamp>,
}

/// Evaluates the fleet of one check. A paused check is evaluated too, for explanations, without actions.
pub(super) fn plan_openshift(
    check: &OpenShiftCheck,
    fleet: &[OpenShiftTarget],
    now: Timestamp,
) -> OpenShiftPlan {
    let by_name: BTreeMap<&str, &OpenShiftTarget> = fleet
        .iter()
        .map(|target| (target.machine.facts.name.as_str(), target))
        .collect();
    let (mut verdicts, mut ahead) = (BTreeMap::new(), BTreeMap::new());
    let mut wake_at: Option<Timestamp> = None;
    let mut tally = FleetCounts::default();
    for (name, target) in &by_name {
        let judgement = judge(
            &check.common,
            &ready_cluster(),
            &target.machine.facts,
            &target.node,
            now,
        );
        tally.add(check.counts(target, &judgement.verdict));
        wake_at = wake_at.into_iter().chain(judgement.holds_until()).min();
        if !judgement.ahead.is_empty() {
            ahead.insert((*name).to_owned(), judgement.ahead);
        }
        verdicts.insert((*name).to_owned(), judgement.verdict);
    }
    let gate = LimitStatus::new(check, &tally, []);
    let actions = by_name
        .values()
        .zip(verdicts.values())
        .filter(|_| !check.common.paused)
        .filter_map(|(target, verdict)| openshift_action(check, target, verdict, gate.open))
        .collect();
    OpenShiftPlan {
        expected: tally.expected,
        healthy: tally.healthy,
        open: gate.open,
        remediations_allowed: gate.remediations_allowed,
        message: gate.message,
        verdicts,
        ahead,
        actions,
        wake_at: wake_at.filter(|_| !check.common.paused),
    }
}
