//! The view of one Machine in a check of Machines.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{
    super::{
        check::{CauseView, TargetRemediation, TargetView},
        messages::{verdict_reason, waiting_reason},
    },
    Dialect, Evaluation, MachineCheckFacts, MachineEntry, is_startup_untimed,
};
use crate::checks::machines::{
    self, Cause, Judgement, MachineRemediation, NodeView, Onset, Target, UnknownReason, Verdict,
};

/// What the check evaluates for one Machine, and why.
pub(super) fn target_view<P: Dialect>(
    facts: &MachineCheckFacts<P>,
    entry: &MachineEntry<P::Machine>,
    evaluation: &Evaluation<'_, P>,
    due: &BTreeMap<String, String>,
    now: Timestamp,
) -> TargetView {
    let target = &entry.target;
    let (machine, name) = (target.machine.as_ref(), entry.name());
    let judgement = judge(facts, target, now);
    let verdict = &judgement.verdict;
    let (rules, cluster) = (facts.rules.common(), &facts.cluster_facts);
    let mut onsets = machines::onsets(rules, cluster, machine, &target.node, now);
    if is_startup_untimed(&facts.rules, &target.machine) && entry.node.is_none() {
        onsets.retain(|onset| onset.at.is_none());
    }
    let remediation = remediation_view(&target.remediation, &facts.remediation_kind, name);
    let does = match (due.get(name), facts.acted_for.get(name)) {
        (Some(due), _) => due.clone(),
        (None, Some(other)) => format!("nothing: MachineHealthCheck {other} acts for it"),
        (None, None) => {
            let open = evaluation.gate.open;
            match waiting_reason(verdict, &target.remediation, machine.deleting, open) {
                Some(why) => why.into(),
                None => {
                    let remediation = remediation.as_ref().map(ToString::to_string);
                    facts
                        .rules
                        .idle_message(entry, verdict, remediation.as_deref())
                }
            }
        }
    };
    TargetView {
        machine: Some(name.to_owned()),
        node: entry.node.clone(),
        verdict: verdict.label().into(),
        since: since(entry, verdict, &onsets, now),
        until: judgement.changes_at,
        why: verdict_reason(verdict),
        causes: onsets.iter().map(|onset| cause_view(onset, now)).collect(),
        counts: facts.rules.counts(target, verdict).not_healthy,
        remediations: remediation.into_iter().collect(),
        does,
    }
}

/// The judgement for a view: a startup timeout that does not run changes nothing.
pub(super) fn judge<P: Dialect>(
    facts: &MachineCheckFacts<P>,
    target: &Target<P::Machine>,
    now: Timestamp,
) -> Judgement {
    let (rules, cluster) = (facts.rules.common(), &facts.cluster_facts);
    let machine = target.machine.as_ref();
    let mut judgement = machines::judge(rules, cluster, machine, &target.node, now);
    let starting = matches!(judgement.verdict, Verdict::Suspect { starting: true, .. });
    if starting && is_startup_untimed(&facts.rules, &target.machine) {
        judgement.changes_at = None;
    }
    judgement
}

/// The remediation of a Machine, if there is one.
fn remediation_view(
    remediation: &MachineRemediation,
    kind: &str,
    machine: &str,
) -> Option<TargetRemediation> {
    let (state, owner) = match remediation {
        MachineRemediation::None => return None,
        MachineRemediation::Open => ("running", None),
        MachineRemediation::Deleting => ("deleting", None),
        MachineRemediation::Foreign { owner } => ("foreign", Some(owner.clone())),
    };
    Some(TargetRemediation {
        remediation: format!("{kind} {machine}"),
        owner,
        template: None,
        step: None,
        state: state.into(),
        started: None,
        until: None,
    })
}

fn timeout(cause: &Cause) -> Option<Duration> {
    match cause {
        Cause::NodeStartupTimeout { timeout }
        | Cause::MachineCondition { timeout, .. }
        | Cause::NodeCondition { timeout, .. } => Some(*timeout),
        Cause::RemediateAnnotation | Cause::MachineFailure { .. } | Cause::NodeDeleted { .. } => {
            None
        }
    }
}

/// Since when a cause is observed.
fn began(onset: &Onset) -> Option<Timestamp> {
    onset.at?.checked_sub(timeout(&onset.cause)?).ok()
}

fn cause_view(onset: &Onset, now: Timestamp) -> CauseView {
    CauseView {
        cause: onset.cause.to_string(),
        since: began(onset),
        at: onset.at,
        counts: onset.at.is_none_or(|at| at <= now),
    }
}

/// Since when a verdict holds: by the rules, or else by the condition of the Machine.
fn since<M>(
    entry: &MachineEntry<M>,
    verdict: &Verdict,
    onsets: &[Onset],
    now: Timestamp,
) -> Option<Timestamp> {
    let recorded = |succeeded: bool| {
        let condition = entry.health_condition;
        condition
            .filter(|(status, _)| *status == succeeded)
            .map(|(_, at)| at)
    };
    match verdict {
        Verdict::Unhealthy { .. } => match onsets.iter().find(|onset| onset.at.is_none()) {
            Some(_) => recorded(false),
            None => onsets
                .iter()
                .filter_map(|onset| onset.at)
                .filter(|at| *at <= now)
                .min(),
        },
        Verdict::Suspect { .. } => onsets
            .iter()
            .find(|onset| onset.at.is_some_and(|at| at > now))
            .and_then(began),
        Verdict::Healthy => recorded(true),
        Verdict::Unknown(UnknownReason::Deleting) => entry.deleted,
        Verdict::Unknown(_) | Verdict::NotEvaluated(_) | Verdict::Skipped(_) => {
            let waits = matches!(entry.target.node, NodeView::NotJoined);
            entry.created.filter(|_| waits)
        }
    }
}
