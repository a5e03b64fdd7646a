//! The evaluation of a whole fleet, which the incremental one must equal.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::{
    Action, Check, CheckStatus, ClusterFacts, Counts, FleetCounts, FutureCause,
    HealthConditionWrite, LimitStatus, Target, Verdict, action, counts_against_limit,
    health_condition, judge,
};

/// The result of one evaluation of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    /// The values for the status of the check.
    pub(super) status: CheckStatus,
    /// Whether remediation is allowed.
    pub(super) gate: LimitStatus,
    /// The verdict per Machine, skipped ones included.
    pub(super) verdicts: BTreeMap<String, Verdict>,
    /// The `HealthCheckSucceeded` of Machines whose condition must be written (differs in status
    /// from what they carry, or is False).
    pub(super) conditions: BTreeMap<String, HealthConditionWrite>,
    /// Causes whose recorded time is in the future, by Machine.
    pub(super) ahead: BTreeMap<String, Vec<FutureCause>>,
    /// The actions, in the order of the Machines' names.
    pub(super) actions: Vec<Action>,
    /// When to evaluate again although no object has changed: no later than the first judgement changes
    /// by time alone.
    pub(super) wake_at: Option<Timestamp>,
}

/// Evaluates the fleet of one check (docs/reference/cluster-api.md, Evaluation).
///
/// While the limit forbids remediation, conditions are still written, the timer still runs and recovered
/// machines still lose their remediation (unlike upstream: docs/reference/cluster-api.md, Q6 and Q8). With a
/// paused check or Cluster, verdicts are computed for explanations, but nothing is written and no timer
/// runs.
///
/// The order of `fleet` does not matter; the names of its Machines are unique, as in one namespace.
pub(super) fn plan(
    check: &Check,
    cluster: &ClusterFacts,
    fleet: &[Target],
    now: Timestamp,
) -> Plan {
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
