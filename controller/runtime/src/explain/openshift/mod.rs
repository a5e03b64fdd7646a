//! `explain mhc` of a check of OpenShift, in the form of those of Cluster API.
//!
//! Owns putting the answer together. Must never judge: `rackhand_core::health` does, by the functions
//! that run in production.

mod scene;
mod words;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rackhand_api::{names::conditions::REMEDIATION_ALLOWED, views::OpenShiftHealthCheckView};
use rackhand_core::health::{
    Judgement, OpenShiftCheck, OpenShiftPlan, OpenShiftTarget, UnknownReason, Verdict, clock_skew,
    counts_as_healthy, judge_openshift, onsets_openshift, plan_openshift,
};

pub(super) use scene::scene;

use super::{
    health::{
        CheckExplanation, LimitExplanation, MachineExplanation, NextVerdict, began, cause, rank,
        said,
    },
    health_words::why,
};
use crate::{
    checks::{Due, MachineSeen, OpenShiftFleet},
    object::Key,
};

/// All that an explanation is made from.
pub(super) struct OpenShiftScene {
    check: Key,
    view: OpenShiftHealthCheckView,
    /// As if nothing were paused.
    rules: OpenShiftCheck,
    fleet: OpenShiftFleet,
    /// The check that acts in place of this one, by machine.
    acted_for: BTreeMap<String, String>,
    /// Whether OpenShift's own Machine controllers run, or why that is not known.
    controllers: Result<bool, String>,
    not_acting: Vec<String>,
    notes: Vec<String>,
}

/// Judges, and says what was judged.
pub(super) fn explain(scene: &OpenShiftScene, now: Timestamp) -> CheckExplanation {
    let machines = &scene.fleet.machines;
    let targets: Vec<OpenShiftTarget> = machines.iter().map(|m| m.target.clone()).collect();
    let planned = planned(scene, &targets, now);
    let due = scene.fleet.due(&scene.rules, &planned);
    let due: BTreeMap<&str, &Due> = due
        .iter()
        .filter(|(name, _)| !scene.acted_for.contains_key(*name))
        .map(|(name, due)| (name.as_str(), due))
        .collect();
    let mut rows: Vec<MachineExplanation> = machines
        .iter()
        .map(|seen| {
            machine(
                scene,
                seen,
                &planned,
                due.get(&*seen.view.meta.name).copied(),
                now,
            )
        })
        .collect();
    rows.sort_by_key(|m| (rank(m.verdict), m.machine.clone()));
    let acts = scene.not_acting.is_empty();
    let unhealthy = planned.verdicts.values().filter(|v| is_unhealthy(v));
    CheckExplanation {
        check: format!("MachineHealthCheck.machine.openshift.io {}", scene.check),
        cluster: "the cluster that it lies in".into(),
        acts,
        not_acting: scene.not_acting.clone(),
        rules: words::rules(&scene.rules),
        remediation: words::remediation(&scene.view, &scene.rules),
        limit: LimitExplanation {
            allowed: planned.open,
            expected: planned.expected,
            healthy: planned.healthy,
            unhealthy: u32::try_from(unhealthy.count()).unwrap_or(u32::MAX),
            counting: planned.expected.saturating_sub(planned.healthy),
            remediations_allowed: planned.remediations_allowed,
            words: words::limit(&scene.view, &scene.rules, &planned, &rows),
        },
        due: machines
            .iter()
            .filter_map(|seen| {
                let due = due.get(&*seen.view.meta.name)?;
                Some(words::due(scene, seen, due))
            })
            .collect(),
        next: next(scene, &targets, &planned, now),
        recorded: recorded(&scene.view, &planned).filter(|_| acts),
        notes: notes(scene)
            .into_iter()
            .chain(clock_skew(&planned.ahead))
            .collect(),
        machines: rows,
        settings: String::new(),
        now,
    }
}

/// What this check does: not what another one does for its machines.
fn planned(scene: &OpenShiftScene, targets: &[OpenShiftTarget], now: Timestamp) -> OpenShiftPlan {
    let mut planned = plan_openshift(&scene.rules, targets, now);
    planned
        .actions
        .retain(|action| !scene.acted_for.contains_key(action.machine()));
    planned
}

fn is_unhealthy(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Unhealthy { .. })
}

/// Its startup timeout begins anew with each look: nothing says since when it runs.
fn timeless(target: &OpenShiftTarget) -> bool {
    target.machine.last_updated.is_none()
}

fn judged(scene: &OpenShiftScene, target: &OpenShiftTarget, now: Timestamp) -> Judgement {
    let mut judgement = judge_openshift(&scene.rules, &target.machine, &target.node, now);
    let starting = matches!(judgement.verdict, Verdict::Suspect { starting: true, .. });
    if timeless(target) && starting {
        judgement.changes_at = None;
    }
    judgement
}

fn machine(
    scene: &OpenShiftScene,
    seen: &MachineSeen,
    planned: &OpenShiftPlan,
    due: Option<&Due>,
    now: Timestamp,
) -> MachineExplanation {
    let (view, target) = (&seen.view, &seen.target);
    let Judgement {
        verdict,
        changes_at,
        ..
    } = judged(scene, target, now);
    let times = onsets_openshift(&scene.rules, &target.machine, &target.node, now);
    let since = match &verdict {
        Verdict::Unhealthy { .. } if times.iter().all(|onset| onset.at.is_some()) => {
            let over = times.iter().filter_map(|onset| onset.at);
            over.filter(|at| *at <= now).min()
        }
        Verdict::Suspect { .. } => times
            .iter()
            .find(|onset| onset.at.is_some_and(|at| at > now))
            .and_then(began)
            .filter(|began| *began < now),
        Verdict::Unknown(UnknownReason::Deleting) => view.meta.deleted,
        _ => None,
    };
    let timed = !(timeless(target) && view.node_name.is_none());
    MachineExplanation {
        node: view.node_name.clone(),
        verdict: verdict.label(),
        since,
        until: changes_at,
        why: why(&verdict),
        causes: times
            .iter()
            .filter(|_| timed)
            .map(|onset| cause(onset, now))
            .collect(),
        counts: !counts_as_healthy(&verdict, target),
        request: words::request(scene, target),
        does: words::does(scene, seen, &verdict, due, planned.open),
        machine: view.meta.name.clone(),
    }
}

/// What happens at the next time at which a verdict changes by itself: asked of the same function,
/// for that time.
fn next(
    scene: &OpenShiftScene,
    targets: &[OpenShiftTarget],
    planned: &OpenShiftPlan,
    now: Timestamp,
) -> Option<NextVerdict> {
    let changes: Vec<(&str, Timestamp)> = targets
        .iter()
        .filter_map(|t| Some((t.machine.name.as_str(), judged(scene, t, now).changes_at?)))
        .collect();
    let at = changes.iter().map(|(_, at)| *at).min()?;
    let machines: Vec<String> = changes
        .into_iter()
        .filter(|(_, changes)| *changes == at)
        .map(|(name, _)| name.to_owned())
        .collect();
    let later = self::planned(scene, targets, at);
    let words = words::next(&machines, planned, &later, scene);
    Some(NextVerdict {
        at,
        machines,
        words,
    })
}

/// What the object itself says of the limit, where that is not what is seen here.
fn recorded(view: &OpenShiftHealthCheckView, planned: &OpenShiftPlan) -> Option<String> {
    said(view.condition(REMEDIATION_ALLOWED), planned.open)
}

fn notes(scene: &OpenShiftScene) -> Vec<String> {
    let mut notes = scene.notes.clone();
    let starting: Vec<&str> = scene
        .fleet
        .machines
        .iter()
        .filter(|m| timeless(&m.target) && m.view.node_name.is_none())
        .filter(|m| m.target.machine.failed.is_none())
        .map(|m| m.view.meta.name.as_str())
        .collect();
    if !starting.is_empty() && scene.rules.startup_timeout.is_some() {
        notes.push(format!(
            "without a Node and without status.lastUpdated, so that their startup timeout has not \
             begun: {}",
            starting.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
