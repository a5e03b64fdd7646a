//! The view of a check of Nodes.

mod messages;

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    check::{
        CauseView, CheckView, LimitView, NextChangeView, StormView, TargetRemediation, TargetView,
    },
    machines::rank,
};
use crate::checks::nodes::{
    CauseDeadline, Check, Class, Entry, Flag, NodeCheckStatus, NodeFacts, NodeRemediation, Outside,
    Plan, Tried, classify, fewest_healthy, onsets, plan,
};

/// Everything that the view of a check of Nodes is computed from.
#[derive(Debug, Clone)]
pub struct NodeCheckFacts {
    /// The rules of the check.
    pub rules: Check,
    /// Every Node, with whether the check selects it.
    pub nodes: Vec<(NodeFacts, bool)>,
    /// Every remediation that the check watches.
    pub remediations: Vec<NodeRemediation>,
    /// What other controllers do.
    pub outside: Outside,
    /// What the status of the check records.
    pub memory: NodeCheckStatus,
    /// Phase and reason in the status.
    pub recorded: Option<(String, String)>,
    /// Why Rackhand does not act on the check; empty: it acts.
    pub not_acting: Vec<String>,
    /// What was assumed, could not be read, or is unusual.
    pub notes: Vec<String>,
}

/// One evaluation of the whole cluster.
struct Evaluation<'a> {
    facts: &'a NodeCheckFacts,
    plan: Plan,
    now: Timestamp,
}

/// Evaluates the check for `now`, and explains the result.
pub fn explain_nodes(facts: &NodeCheckFacts, now: Timestamp) -> CheckView {
    let evaluation = Evaluation::new(facts, &facts.memory, now);
    let (rules, plan) = (&facts.rules, &evaluation.plan);
    let targets = evaluation.targets();
    let acts = facts.not_acting.is_empty();
    let phase = plan.memory.phase.map_or("Enabled", |phase| phase.word());
    let (observed, healthy) = (plan.memory.observed, plan.memory.healthy);
    let needed = fewest_healthy(rules.limit, observed).ok();
    let spare = needed.and_then(|needed| u64::from(healthy).checked_sub(needed));
    let unhealthy = targets.iter().filter(|t| t.verdict == "unhealthy").count();
    CheckView {
        check: format!("NodeHealthCheck {}", rules.name),
        cluster: None,
        acts,
        not_acting: facts.not_acting.clone(),
        phase: Some(phase.into()),
        reason: Some(plan.memory.reason.clone()),
        rules: messages::rules(rules),
        remediation: messages::templates(rules),
        limit: LimitView {
            allowed: plan.closed.is_none(),
            expected: observed,
            healthy,
            unhealthy: u32::try_from(unhealthy).unwrap_or(u32::MAX),
            counting: observed.saturating_sub(healthy),
            remediations_allowed: spare.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            message: messages::limit(rules, plan, &targets),
        },
        storm: storm(rules, plan),
        due: plan
            .actions
            .iter()
            .map(|action| messages::action(action, rules))
            .collect(),
        next: evaluation.next(&targets),
        recorded: recorded(facts, phase, plan).filter(|_| acts),
        targets,
        notes: facts.notes.clone(),
        settings: String::new(),
        now,
    }
}

// === impl Evaluation ===

impl<'a> Evaluation<'a> {
    fn new(facts: &'a NodeCheckFacts, memory: &NodeCheckStatus, now: Timestamp) -> Self {
        let NodeCheckFacts {
            rules,
            nodes,
            remediations,
            outside,
            ..
        } = facts;
        Self {
            facts,
            plan: plan(rules, nodes, remediations, outside, memory, now),
            now,
        }
    }

    /// Every Node that the check selects or remediates, those with a problem first.
    fn targets(&self) -> Vec<TargetView> {
        let mut targets = Vec::new();
        for (node, selected) in &self.facts.nodes {
            let is_known =
                self.entry(&node.name).is_some() || !self.remediations_of(&node.name).is_empty();
            if *selected || is_known {
                targets.push(self.target(node, *selected));
            }
        }
        targets.extend(
            self.missing()
                .into_iter()
                .map(|name| self.missing_target(name)),
        );
        targets.sort_by_key(|t| {
            let is_idle = t.remediations.is_empty();
            (rank(&t.verdict), is_idle, t.name().to_owned())
        });
        targets
    }

    /// The remediations of this check for a Node.
    fn remediations_of(&self, node: &str) -> Vec<&NodeRemediation> {
        let uid = &self.facts.rules.uid;
        let remediations = self.facts.remediations.iter();
        remediations
            .filter(|r| r.node == node && r.is_owned_by(uid))
            .collect()
    }

    /// What the status records about a Node.
    fn entry(&self, node: &str) -> Option<&Entry> {
        let (planned, stored) = (&self.plan.memory.nodes, &self.facts.memory.nodes);
        planned.get(node).or_else(|| stored.get(node))
    }

    /// Names of Nodes that have a remediation and do not exist.
    fn missing(&self) -> BTreeSet<&str> {
        let uid = &self.facts.rules.uid;
        let remediations = self
            .facts
            .remediations
            .iter()
            .filter(|r| r.is_owned_by(uid));
        let recorded = self.facts.memory.nodes.keys().map(String::as_str);
        let mut names: BTreeSet<&str> = remediations
            .map(|r| r.node.as_str())
            .chain(recorded)
            .collect();
        for (node, _) in &self.facts.nodes {
            names.remove(node.name.as_str());
        }
        names
    }

    fn missing_target(&self, name: &str) -> TargetView {
        TargetView {
            machine: None,
            node: Some(name.to_owned()),
            verdict: "gone".into(),
            since: None,
            until: None,
            why: "there is no Node of this name".into(),
            causes: Vec::new(),
            counts: false,
            remediations: self.remediations(name),
            does: self.does(name, false),
        }
    }

    fn target(&self, node: &NodeFacts, selected: bool) -> TargetView {
        let (rules, now) = (&self.facts.rules, self.now);
        let remediations = self.remediations_of(&node.name);
        let times = onsets(rules, node);
        let class = classify(rules, node, now);
        let (verdict, until) = match &class {
            Class::Healthy => ("healthy", None),
            Class::Soon(until) => ("suspect", *until),
            Class::Matching(_) => ("unhealthy", None),
        };
        let mut why = match &class {
            Class::Healthy => String::new(),
            Class::Soon(None) => "it is not known since when it is not healthy".into(),
            Class::Soon(_) | Class::Matching(_) => messages::cause_messages(&times, now),
        };
        if !selected {
            let separator = if why.is_empty() { "" } else { "; " };
            why = format!("{why}{separator}not selected any more");
        }
        let first = times.iter().min_by_key(|onset| onset.until);
        let entry = self.entry(&node.name);
        let counts_as_healthy = selected && class == Class::Healthy && remediations.is_empty();
        let running = remediations.iter().any(|r| r.timed_out.is_none());
        TargetView {
            machine: None,
            node: Some(node.name.clone()),
            verdict: verdict.into(),
            since: match &class {
                Class::Healthy => entry.and_then(|e| e.healthy_since),
                Class::Soon(_) | Class::Matching(_) => first.map(|onset| onset.cause.since()),
            },
            until,
            why,
            causes: times.iter().map(|onset| cause_view(onset, now)).collect(),
            counts: !counts_as_healthy,
            remediations: self.remediations(&node.name),
            does: self.does(&node.name, running),
        }
    }

    /// What is done about a Node now, or why nothing is.
    fn does(&self, node: &str, running: bool) -> String {
        let actions = self.plan.actions.iter().filter(|a| a.node() == node);
        let skipped = self.plan.skipped.get(node).map(String::as_str);
        messages::does(actions, skipped, running, &self.facts.rules)
    }

    /// The remediations of a Node, as the status records them and as they are.
    fn remediations(&self, node: &str) -> Vec<TargetRemediation> {
        let remediations = self.remediations_of(node);
        let steps = &self.facts.rules.steps;
        let view = |tried: &Tried| {
            let remediation = remediations.iter().find(|r| r.uid == tried.uid);
            let number = steps.iter().position(|step| tried.is_of(&step.template));
            let step = number.and_then(|number| steps.get(number));
            let state = match remediation {
                None => "gone",
                Some(r) if r.deleting => "deleting",
                Some(r) if r.succeeded == Some(true) => "succeeded",
                Some(r) if r.succeeded == Some(false) => "failed",
                Some(r) if r.timed_out.or(tried.timed_out).is_some() => "timedOut",
                Some(_) => "running",
            };
            let until = step.and_then(|step| {
                let timeout = messages::step_timeout(step);
                tried.started.checked_add(timeout).ok()
            });
            TargetRemediation {
                remediation: messages::remediation_name(&tried.id),
                owner: None,
                template: tried.template.clone(),
                step: number.map(|number| format!("{} of {}", number + 1, steps.len())),
                state: state.into(),
                started: Some(tried.started),
                until: until.filter(|_| state == "running"),
            }
        };
        let tried = self.entry(node).map(|e| e.tried.as_slice());
        tried.unwrap_or_default().iter().map(view).collect()
    }

    /// The next change that time alone brings, evaluated for that time.
    fn next(&self, targets: &[TargetView]) -> Option<NextChangeView> {
        let at = self.plan.wake_at.filter(|at| *at > self.now)?;
        let later = Self::new(self.facts, &self.plan.memory, at);
        let then = later.targets();
        let rules = &self.facts.rules;
        let changes = |t: &&TargetView| {
            let before = targets.iter().find(|before| before.name() == t.name());
            before.is_some_and(|before| before.verdict != t.verdict)
        };
        Some(NextChangeView {
            at,
            targets: then
                .iter()
                .filter(changes)
                .map(|t| t.name().to_owned())
                .collect(),
            message: messages::next(&self.plan, &later.plan, targets, &then, rules),
        })
    }
}

fn cause_view(onset: &CauseDeadline, now: Timestamp) -> CauseView {
    CauseView {
        cause: onset.cause.to_string(),
        since: Some(onset.cause.since()),
        at: Some(onset.until),
        counts: onset.until < now,
    }
}

fn storm(rules: &Check, plan: &Plan) -> Option<StormView> {
    let since = |flag: &Option<Flag>| flag.as_ref().filter(|f| f.on).map(|f| f.since);
    let (active, cooling) = (since(&plan.memory.storm), since(&plan.memory.cooldown));
    let cooldown = rules.storm_cooldown?;
    let until = cooling.and_then(|since| since.checked_add(cooldown).ok());
    let state = match (active, cooling) {
        (_, Some(_)) => "cooldown",
        (Some(_), None) => "active",
        (None, None) => "none",
    };
    Some(StormView {
        state: state.into(),
        since: cooling.or(active),
        until,
        message: messages::storm(state, cooldown),
    })
}

/// What the status reports, where it differs from this evaluation.
fn recorded(facts: &NodeCheckFacts, phase: &str, plan: &Plan) -> Option<String> {
    let Some((recorded, reason)) = &facts.recorded else {
        return Some("the check has no status: no controller has evaluated it".into());
    };
    let same = *recorded == phase && *reason == plan.memory.reason;
    (!same).then(|| format!("{recorded}: {reason}"))
}
