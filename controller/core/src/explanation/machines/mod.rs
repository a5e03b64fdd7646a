//! The view of a check of Machines, of Cluster API or of OpenShift.

mod target;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    check::{CheckView, LimitView, NextChangeView, TargetView},
    messages::{counted, limit_result, limit_value, next_change, verdict_changes},
};
use crate::checks::machines::{
    self, ClusterFacts, DialectRules, FleetCounts, FutureCause, Judgement, Limit, LimitStatus,
    MachineFacts, Target, Verdict, clock_skew,
};
use target::{judge, target_view};

/// Everything that the view of a check of Machines is computed from.
#[derive(Debug, Clone)]
pub struct MachineCheckFacts<P: DialectRules> {
    /// Kind, namespace and name of the check.
    pub check: String,
    /// `Cluster namespace/name`.
    pub cluster: Option<String>,
    /// The rules, as if nothing were paused.
    pub rules: P,
    /// The Cluster of the check.
    pub cluster_facts: ClusterFacts,
    /// The selected Machines, by name.
    pub machines: Vec<MachineEntry<P::Machine>>,
    /// How an unhealthy Machine is remediated.
    pub remediation: String,
    /// Kind of the remediations.
    pub remediation_kind: String,
    /// Whether the limit is the default.
    pub limit_is_default: bool,
    /// Why the limit cannot be parsed.
    pub limit_error: Option<String>,
    /// The condition `RemediationAllowed` of the check.
    pub recorded: Option<RecordedCondition>,
    /// Steps that are due for marked Machines, in a sentence each, by Machine.
    pub mark_steps: BTreeMap<String, String>,
    /// The check that acts in place of this one, by Machine.
    pub acted_for: BTreeMap<String, String>,
    /// Why Rackhand does not act on the check; empty: it acts.
    pub not_acting: Vec<String>,
    /// What was assumed, could not be read, or is unusual.
    pub notes: Vec<String>,
}

/// A selected Machine.
#[derive(Debug, Clone)]
pub struct MachineEntry<M> {
    /// What the check evaluates.
    pub target: Target<M>,
    /// Name of its Node.
    pub node: Option<String>,
    /// Kind and name of the owner that replaces it.
    pub owner: Option<String>,
    /// Has a deletionTimestamp: when.
    pub deleted: Option<Timestamp>,
    /// When it was created, where its startup timeout begins then.
    pub created: Option<Timestamp>,
    /// Status and transition time of its condition `HealthCheckSucceeded`.
    pub health_condition: Option<(bool, Timestamp)>,
}

/// A condition in the status of the check.
#[derive(Debug, Clone)]
pub struct RecordedCondition {
    /// Type of the condition.
    pub type_: String,
    /// Status of the condition.
    pub status: String,
    /// Its reason; empty if there is none.
    pub reason: String,
    /// Its message; empty if there is none.
    pub message: String,
}

/// The sentences in which the dialects differ.
pub(super) trait Dialect: DialectRules {
    /// What makes a Machine unhealthy, one rule each.
    fn rules(&self) -> Vec<String>;

    /// What an action does.
    fn action_message(action: &Self::Action, kind: &str, owner: Option<&str>) -> String;

    /// Why nothing is due for a Machine, where that depends on the dialect.
    fn idle_message(
        &self,
        entry: &MachineEntry<Self::Machine>,
        verdict: &Verdict,
        remediation: Option<&str>,
    ) -> String;
}

/// Whether nothing records when the startup timeout of the Machine began, so that it does not run.
fn is_startup_untimed<P: DialectRules>(rules: &P, machine: &P::Machine) -> bool {
    let machine = machine.as_ref();
    rules.common().startup_timeout.is_some()
        && machine.starting_since.is_none()
        && machine.failure.is_none()
}

/// One evaluation of the whole fleet.
struct Evaluation<'a, P: DialectRules> {
    tally: FleetCounts,
    gate: LimitStatus,
    judgements: BTreeMap<&'a str, Judgement>,
    /// The actions, with the name of the Machine.
    actions: Vec<(&'a str, P::Action)>,
}

// === impl MachineEntry ===

impl<M: AsRef<MachineFacts>> MachineEntry<M> {
    fn name(&self) -> &str {
        &self.target.machine.as_ref().name
    }
}

// === impl Evaluation ===

impl<P: DialectRules> Evaluation<'_, P> {
    /// The label of the verdict on a Machine.
    fn label(&self, machine: &str) -> &'static str {
        let judgement = self.judgements.get(machine);
        judgement.map_or("", |judgement| judgement.verdict.label())
    }
}

/// Evaluates the check for `now`, and explains the result.
#[expect(
    private_bounds,
    reason = "the dialects are Cluster API's and OpenShift's"
)]
pub fn explain_machines<P: Dialect>(facts: &MachineCheckFacts<P>, now: Timestamp) -> CheckView {
    let evaluation = evaluate(facts, now);
    let due = due(facts, &evaluation);
    let mut targets: Vec<TargetView> = facts
        .machines
        .iter()
        .map(|entry| target_view(facts, entry, &evaluation, &due, now))
        .collect();
    targets.sort_by_key(|t| (rank(&t.verdict), t.name().to_owned()));
    let ahead: BTreeMap<&str, &[FutureCause]> = evaluation
        .judgements
        .iter()
        .filter(|(_, judgement)| !judgement.ahead.is_empty())
        .map(|(name, judgement)| (*name, judgement.ahead.as_slice()))
        .collect();
    let acts = facts.not_acting.is_empty();
    let (gate, tally) = (&evaluation.gate, &evaluation.tally);
    let mut notes = facts.notes.clone();
    notes.extend(untimed_note(facts));
    notes.extend(clock_skew(&ahead));
    CheckView {
        check: facts.check.clone(),
        cluster: facts.cluster.clone(),
        acts,
        not_acting: facts.not_acting.clone(),
        phase: None,
        reason: None,
        rules: facts.rules.rules(),
        remediation: vec![facts.remediation.clone()],
        limit: LimitView {
            allowed: gate.open,
            expected: gate.expected,
            healthy: tally.healthy,
            unhealthy: tally.unhealthy,
            counting: gate.not_healthy,
            remediations_allowed: gate.remediations_allowed,
            message: limit_message(facts, gate, &targets),
        },
        storm: None,
        due: facts
            .machines
            .iter()
            .filter_map(|entry| due.get(entry.name()).cloned())
            .collect(),
        next: next(facts, &evaluation, now),
        recorded: recorded(facts.recorded.as_ref(), gate.open).filter(|_| acts),
        targets,
        notes,
        settings: String::new(),
        now,
    }
}

/// Evaluates all Machines, and drops the actions that another check takes.
fn evaluate<P: Dialect>(facts: &MachineCheckFacts<P>, now: Timestamp) -> Evaluation<'_, P> {
    let (rules, cluster) = (&facts.rules, &facts.cluster_facts);
    let mut tally = FleetCounts::default();
    let mut judgements = BTreeMap::new();
    for entry in &facts.machines {
        let (target, machine) = (&entry.target, entry.target.machine.as_ref());
        let judgement = machines::judge(rules.common(), cluster, machine, &target.node, now);
        tally.add(rules.counts(target, &judgement.verdict));
        judgements.insert(entry.name(), judgement);
    }
    let gate = LimitStatus::new(rules, &tally, []);
    let actions = facts
        .machines
        .iter()
        .filter(|entry| !facts.acted_for.contains_key(entry.name()))
        .filter_map(|entry| {
            let judgement = judgements.get(entry.name())?;
            let action = rules.action(&entry.target, &judgement.verdict, gate.open)?;
            Some((entry.name(), action))
        })
        .collect();
    Evaluation {
        tally,
        gate,
        judgements,
        actions,
    }
}

/// What is due, by Machine. An action of the check precedes a step of a mark.
fn due<'a, P: Dialect>(
    facts: &'a MachineCheckFacts<P>,
    evaluation: &Evaluation<'a, P>,
) -> BTreeMap<String, String> {
    let mut due = facts.mark_steps.clone();
    due.retain(|name, _| !facts.acted_for.contains_key(name));
    for (name, action) in &evaluation.actions {
        due.insert((*name).to_owned(), action_message(facts, name, action));
    }
    due
}

fn action_message<P: Dialect>(
    facts: &MachineCheckFacts<P>,
    name: &str,
    action: &P::Action,
) -> String {
    let mut machines = facts.machines.iter();
    let entry = machines.find(|entry| entry.name() == name);
    let owner = entry.and_then(|entry| entry.owner.as_deref());
    P::action_message(action, &facts.remediation_kind, owner)
}

/// Order of the targets: those with a problem first.
pub(super) fn rank(verdict: &str) -> u8 {
    match verdict {
        "unhealthy" => 0,
        "gone" => 1,
        "suspect" => 2,
        "unknown" => 3,
        "healthy" | "not_evaluated" => 4,
        _ => 5,
    }
}

fn limit_message<P: Dialect>(
    facts: &MachineCheckFacts<P>,
    gate: &LimitStatus,
    targets: &[TargetView],
) -> String {
    let counted = counted(gate.expected, gate.not_healthy, targets);
    match facts.rules.common().limit {
        Limit::Unreadable => {
            let why = facts.limit_error.as_deref();
            let why = why.unwrap_or("cannot parse spec.maxUnhealthy");
            format!("{counted} {why}: remediation is NOT allowed.")
        }
        limit => format!(
            "{counted} {}. {}",
            limit_value(limit, gate.expected, facts.limit_is_default),
            limit_result(
                limit,
                gate.expected,
                gate.not_healthy,
                gate.remediations_allowed
            )
        ),
    }
}

/// The next change of a verdict that time alone brings, evaluated for that time.
fn next<P: Dialect>(
    facts: &MachineCheckFacts<P>,
    evaluation: &Evaluation<'_, P>,
    now: Timestamp,
) -> Option<NextChangeView> {
    let changes: Vec<(&str, Timestamp)> = facts
        .machines
        .iter()
        .filter_map(|entry| {
            let changes_at = judge(facts, &entry.target, now).changes_at?;
            Some((entry.name(), changes_at))
        })
        .collect();
    let at = changes.iter().map(|(_, at)| *at).min()?;
    let targets: Vec<String> = changes
        .into_iter()
        .filter(|(_, changes)| *changes == at)
        .map(|(name, _)| name.to_owned())
        .collect();
    let later = evaluate(facts, at);
    let actions: Vec<String> = later
        .actions
        .iter()
        .filter(|action| !evaluation.actions.contains(action))
        .map(|(name, action)| action_message(facts, name, action))
        .collect();
    let changes = verdict_changes(&targets, |name| (evaluation.label(name), later.label(name)));
    let message = next_change(&changes, (evaluation.gate.open, later.gate.open), &actions);
    Some(NextChangeView {
        at,
        targets,
        message,
    })
}

/// The condition of the check, where it differs from this evaluation.
fn recorded(condition: Option<&RecordedCondition>, open: bool) -> Option<String> {
    let Some(condition) = condition else {
        return Some(
            "the check carries no condition RemediationAllowed: no controller has evaluated it"
                .into(),
        );
    };
    ((condition.status == "True") != open).then(|| {
        let RecordedCondition {
            type_,
            status,
            reason,
            message,
        } = condition;
        let reason = match reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let message = match message.as_str() {
            "" => String::new(),
            message => format!(": {message}"),
        };
        format!("{type_} is {status}{reason}{message}")
    })
}

/// Names the Machines whose startup timeout does not run.
fn untimed_note<P: Dialect>(facts: &MachineCheckFacts<P>) -> Option<String> {
    let untimed: Vec<&str> = facts
        .machines
        .iter()
        .filter(|entry| {
            entry.node.is_none() && is_startup_untimed(&facts.rules, &entry.target.machine)
        })
        .map(MachineEntry::name)
        .collect();
    (!untimed.is_empty()).then(|| {
        format!(
            "without a Node and without status.lastUpdated, so that their startup timeout has not \
             begun: {}",
            untimed.join(", ")
        )
    })
}
