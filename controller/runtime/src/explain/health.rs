//! `explain mhc`: the verdict on each machine of a health check, its limit, what would be done now and
//! what happens next.
//!
//! Owns putting the answer together. Must never judge: `rackhand_core::health` does, by the functions
//! that run in production.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rackhand_api::{
    names::conditions::{HEALTH_CHECK_SUCCEEDED, REMEDIATION_ALLOWED},
    views::{Condition, MachineHealthCheckView, MachineView},
};
use rackhand_core::health::{
    Action, Cause, Check, ClusterFacts, Judgement, NodeView, Onset, Plan, RequestView, Target,
    UnknownReason, Verdict, clock_skew, counts_against_limit, judge, onsets, plan,
};
use serde::Serialize;

use super::{health_table, health_words as words};
use crate::object::Key;

/// All that an explanation of a check is made from.
pub(super) struct CheckScene {
    pub(super) check: Key,
    pub(super) cluster: Key,
    pub(super) view: MachineHealthCheckView,
    /// As if nothing were paused.
    pub(super) rules: Check,
    pub(super) facts: ClusterFacts,
    pub(super) fleet: Vec<(MachineView, Target)>,
    /// The check that acts in place of this one, by machine.
    pub(super) acted_for: BTreeMap<String, String>,
    /// Why Rackhand does not act on it now; empty: it does.
    pub(super) not_acting: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// The answer about one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckExplanation {
    /// `MachineHealthCheck namespace/name`.
    pub check: String,
    /// `Cluster namespace/name`.
    pub cluster: String,
    /// Rackhand acts on this check now.
    pub acts: bool,
    /// Why it does not; what is said below is then what it would do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_acting: Vec<String>,
    /// What makes a machine unhealthy.
    pub rules: Vec<String>,
    /// Who brings an unhealthy machine back.
    pub remediation: String,
    /// The limit.
    pub limit: LimitExplanation,
    /// What is due now, in the order of the machines' names.
    pub due: Vec<String>,
    /// What happens next without anybody doing anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextVerdict>,
    /// What the check's own condition says, where that is another thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The machines: those with trouble first, then by name.
    pub machines: Vec<MachineExplanation>,
    /// What was assumed, could not be read, or is odd.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whose settings it goes by, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// For when this was asked.
    pub now: Timestamp,
}

/// The arithmetic of the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitExplanation {
    /// Remediation is allowed.
    pub allowed: bool,
    /// Machines that the check looks at.
    pub expected: u32,
    /// Of these healthy.
    pub healthy: u32,
    /// Of these unhealthy.
    pub unhealthy: u32,
    /// Of these counting against the limit.
    pub counting: u32,
    /// How many more may fail before remediation stops.
    pub remediations_allowed: u32,
    /// In words.
    pub words: String,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineExplanation {
    /// Name of the Machine.
    pub machine: String,
    /// Name of its Node, once it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `healthy`, `suspect`, `unhealthy`, `unknown` or `skipped`.
    pub verdict: &'static str,
    /// Since when, as far as anybody has written it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when, if nothing but time changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, in one line; empty for a healthy machine.
    pub why: String,
    /// Each cause with its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseExplanation>,
    /// It counts against the limit.
    pub counts: bool,
    /// The remediation request of its name, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What is done about it now.
    pub does: String,
}

/// One cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseExplanation {
    /// In words, as in the condition.
    pub cause: String,
    /// Since when what it speaks of holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// From when on it makes the machine unhealthy; absent: at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// It does so now.
    pub counts: bool,
}

/// The next verdict that changes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextVerdict {
    /// When.
    pub at: Timestamp,
    /// Of which machines.
    pub machines: Vec<String>,
    /// What happens then, in words.
    pub words: String,
}

impl std::fmt::Display for CheckExplanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        health_table::table(self, f)
    }
}

/// Judges, and says what was judged.
pub(super) fn explain_check(scene: &CheckScene, now: Timestamp) -> CheckExplanation {
    let targets: Vec<Target> = scene.fleet.iter().map(|(_, t)| t.clone()).collect();
    let planned = planned(scene, &targets, now);
    let actions: BTreeMap<&str, &Action> =
        planned.actions.iter().map(|a| (a.machine(), a)).collect();
    let mut machines: Vec<MachineExplanation> = scene
        .fleet
        .iter()
        .map(|(view, target)| machine(scene, view, target, &planned, &actions, now))
        .collect();
    machines.sort_by_key(|m| (rank(m.verdict), m.machine.clone()));
    let mut notes = scene.notes.clone();
    notes.extend(clock_skew(&planned.ahead));
    let acts = scene.not_acting.is_empty();
    CheckExplanation {
        check: format!("MachineHealthCheck {}", scene.check),
        cluster: format!("Cluster {}", scene.cluster),
        acts,
        not_acting: scene.not_acting.clone(),
        rules: words::rules(&scene.rules),
        remediation: words::remediation(&scene.view),
        limit: LimitExplanation {
            allowed: planned.gate.open,
            expected: planned.gate.expected,
            healthy: planned.status.healthy,
            unhealthy: planned.status.unhealthy,
            counting: planned.gate.not_healthy,
            remediations_allowed: planned.gate.remediations_allowed,
            words: words::limit(&scene.rules, &scene.view, &planned, &machines),
        },
        due: planned
            .actions
            .iter()
            .map(|action| words::action(action, &scene.view))
            .collect(),
        next: next(scene, &targets, &planned, now),
        recorded: recorded(&scene.view, &planned).filter(|_| acts),
        machines,
        notes,
        settings: String::new(),
        now,
    }
}

/// What this check does: not what another one does for its machines.
fn planned(scene: &CheckScene, targets: &[Target], now: Timestamp) -> Plan {
    let mut planned = plan(&scene.rules, &scene.facts, targets, now);
    let own = |action: &Action| !scene.acted_for.contains_key(action.machine());
    planned.actions.retain(own);
    planned
}

/// Trouble first.
pub(super) fn rank(verdict: &str) -> u8 {
    match verdict {
        "unhealthy" => 0,
        "suspect" => 1,
        "unknown" => 2,
        "healthy" | "not_evaluated" => 3,
        _ => 4,
    }
}

fn machine(
    scene: &CheckScene,
    view: &MachineView,
    target: &Target,
    planned: &Plan,
    actions: &BTreeMap<&str, &Action>,
    now: Timestamp,
) -> MachineExplanation {
    let Judgement {
        verdict,
        changes_at,
        ..
    } = judge(
        &scene.rules,
        &scene.facts,
        &target.machine,
        &target.node,
        now,
    );
    let times = onsets(&scene.rules, &scene.facts, &target.machine, &target.node);
    let name = target.machine.name.clone();
    let action = actions.get(name.as_str()).copied();
    MachineExplanation {
        node: view.node_name.clone(),
        verdict: verdict.label(),
        since: since(view, target, &verdict, &times, now),
        until: changes_at,
        why: words::why(&verdict),
        causes: times.iter().map(|onset| cause(onset, now)).collect(),
        counts: counts_against_limit(&verdict, &target.request),
        request: words::request(&target.request, &scene.view, &name),
        does: words::does(scene, view, target, &verdict, action, planned.gate.open),
        machine: name,
    }
}

fn timeout(cause: &Cause) -> Option<std::time::Duration> {
    match cause {
        Cause::NodeStartupTimeout { timeout }
        | Cause::MachineCondition { timeout, .. }
        | Cause::NodeCondition { timeout, .. } => Some(*timeout),
        Cause::RemediateAnnotation | Cause::MachineFailure { .. } | Cause::NodeDeleted { .. } => {
            None
        }
    }
}

/// Since when what a cause speaks of holds.
pub(super) fn began(onset: &Onset) -> Option<Timestamp> {
    onset.at?.checked_sub(timeout(&onset.cause)?).ok()
}

/// A cause, with its times.
pub(super) fn cause(onset: &Onset, now: Timestamp) -> CauseExplanation {
    CauseExplanation {
        cause: onset.cause.to_string(),
        since: began(onset),
        at: onset.at,
        counts: onset.at.is_none_or(|at| at <= now),
    }
}

/// Since when a verdict holds: by the rules, else by what the condition says.
fn since(
    view: &MachineView,
    target: &Target,
    verdict: &Verdict,
    times: &[Onset],
    now: Timestamp,
) -> Option<Timestamp> {
    let written = |succeeded: bool| {
        let is = |c: &&Condition| {
            if succeeded { c.is_true() } else { c.is_false() }
        };
        view.condition(HEALTH_CHECK_SUCCEEDED)
            .filter(is)
            .and_then(|c| c.last_transition)
    };
    match verdict {
        Verdict::Unhealthy { .. } => match times.iter().find(|onset| onset.at.is_none()) {
            Some(_) => written(false),
            None => times
                .iter()
                .filter_map(|onset| onset.at)
                .filter(|at| *at <= now)
                .min(),
        },
        Verdict::Suspect { .. } => times
            .iter()
            .find(|onset| onset.at.is_some_and(|at| at > now))
            .and_then(began),
        Verdict::Healthy => written(true),
        Verdict::Unknown(UnknownReason::Deleting) => view.meta.deleted,
        Verdict::Unknown(_) | Verdict::NotEvaluated(_) | Verdict::Skipped(_) => {
            let waits = matches!(target.node, NodeView::NotJoined);
            waits.then_some(target.machine.created)
        }
    }
}

/// What happens at the next time at which a verdict changes by itself: asked of the same function,
/// for that time.
fn next(
    scene: &CheckScene,
    targets: &[Target],
    planned: &Plan,
    now: Timestamp,
) -> Option<NextVerdict> {
    // That no time lies ahead any more is no verdict.
    let changes: Vec<(&str, Timestamp)> = targets
        .iter()
        .filter_map(|t| {
            let judged = judge(&scene.rules, &scene.facts, &t.machine, &t.node, now);
            Some((t.machine.name.as_str(), judged.changes_at?))
        })
        .collect();
    let at = changes.iter().map(|(_, at)| *at).min()?;
    let later = self::planned(scene, targets, at);
    let machines: Vec<String> = changes
        .into_iter()
        .filter(|(_, changes)| *changes == at)
        .map(|(name, _)| name.to_owned())
        .collect();
    let words = words::next(&machines, planned, &later, &scene.view);
    Some(NextVerdict {
        at,
        machines,
        words,
    })
}

/// What the object itself says of the limit, where that is not what is seen here.
fn recorded(view: &MachineHealthCheckView, planned: &Plan) -> Option<String> {
    said(view.condition(REMEDIATION_ALLOWED), planned.gate.open)
}

/// The same, of the condition that says it.
pub(super) fn said(condition: Option<&Condition>, open: bool) -> Option<String> {
    let Some(condition) = condition else {
        return Some(format!(
            "the check carries no condition {REMEDIATION_ALLOWED}: no controller has evaluated it"
        ));
    };
    (condition.is_true() != open).then(|| {
        format!(
            "{REMEDIATION_ALLOWED} is {}{}{}",
            condition.status,
            words::bracketed(condition.reason.as_deref()),
            condition
                .message
                .as_deref()
                .map(|m| format!(": {m}"))
                .unwrap_or_default(),
        )
    })
}

/// Whether a request is under way.
pub(super) fn under_way(request: &RequestView) -> bool {
    matches!(request, RequestView::Open | RequestView::Deleting)
}
