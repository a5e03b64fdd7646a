//! `explain nhc`: the verdict on each Node of a health check, its limit, which step each remediation is
//! in, what would be done now and what happens next.
//!
//! Owns putting the answer together. Must never judge: `rackhand_core::nodes` does, by the functions
//! that run in production.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rackhand_core::nodes::{
    Action, Check, Class, Entry, Memory, NodeFacts, Onset, Outside, Plan, Request, Tried, classify,
    fewest_healthy, onsets, plan,
};
use serde::Serialize;

use super::{nodes_table, nodes_words as words};

/// All that an explanation of a check is made from.
pub(super) struct NodesScene {
    pub(super) rules: Check,
    /// Every Node, with whether the check selects it.
    pub(super) nodes: Vec<(NodeFacts, bool)>,
    pub(super) requests: Vec<Request>,
    pub(super) outside: Outside,
    pub(super) memory: Memory,
    /// What the status says of itself: phase and reason.
    pub(super) recorded: Option<(String, String)>,
    /// Why Rackhand does not act on it now; empty: it does.
    pub(super) not_acting: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// The answer about one check of Nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesExplanation {
    /// `NodeHealthCheck name`.
    pub check: String,
    /// Rackhand acts on this check now.
    pub acts: bool,
    /// Why it does not; what is said below is then what it would do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_acting: Vec<String>,
    /// `Disabled`, `Paused`, `Remediating` or `Enabled`.
    pub phase: &'static str,
    /// Why, in words.
    pub reason: String,
    /// What makes a Node unhealthy.
    pub rules: Vec<String>,
    /// The templates, in the order in which they are tried.
    pub steps: Vec<String>,
    /// The limit.
    pub limit: NodesLimit,
    /// A storm or its cooldown; absent: no storm mode, and no storm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormExplanation>,
    /// What is due now, in the order of the Nodes' names.
    pub due: Vec<String>,
    /// What happens next without anybody doing anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextOfNodes>,
    /// What the check's own status says, where that is another thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The Nodes: those with trouble first, then by name.
    pub nodes: Vec<NodeExplanation>,
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
pub struct NodesLimit {
    /// Remediation is allowed, as far as limit and storm go.
    pub allowed: bool,
    /// Nodes that the check selects.
    pub observed: u32,
    /// Of these healthy and without a remediation.
    pub healthy: u32,
    /// Fewest that have to be; absent: the limit cannot be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// In words.
    pub words: String,
}

/// Where a storm stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StormExplanation {
    /// `none`, `active` or `cooldown`.
    pub state: &'static str,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when, for a cooldown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// In words.
    pub words: String,
}

/// One Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Its name.
    pub node: String,
    /// `healthy`, `suspect`, `unhealthy` or `gone`.
    pub verdict: &'static str,
    /// Since when what makes it so holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when, if nothing but time changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, in one line; empty for a healthy Node.
    pub why: String,
    /// It counts as healthy for the limit.
    pub counts_as_healthy: bool,
    /// Its remediations, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediations: Vec<StepExplanation>,
    /// What is done about it now.
    pub does: String,
}

/// One remediation of a Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepExplanation {
    /// `Kind namespace/name`.
    pub remediation: String,
    /// The template, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Which step of how many; absent: the check does not name its template any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// `running`, `succeeded`, `failed`, `timedOut`, `deleting` or `gone`.
    pub state: &'static str,
    /// Since when it is there.
    pub started: Timestamp,
    /// Until when it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What happens next by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextOfNodes {
    /// When.
    pub at: Timestamp,
    /// What happens then, in words.
    pub words: String,
}

impl std::fmt::Display for NodesExplanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        nodes_table::table(self, f)
    }
}

/// Judges, and says what was judged.
pub(super) fn explain_nodes(scene: &NodesScene, now: Timestamp) -> NodesExplanation {
    let planned = planned(scene, &scene.memory, now);
    let nodes = nodes(scene, &planned, now);
    let acts = scene.not_acting.is_empty();
    let phase = planned.memory.phase.map_or("Enabled", |phase| phase.word());
    let due = planned.actions.iter();
    NodesExplanation {
        check: format!("NodeHealthCheck {}", scene.rules.name),
        acts,
        not_acting: scene.not_acting.clone(),
        phase,
        reason: planned.memory.reason.clone(),
        rules: words::rules(&scene.rules),
        steps: words::steps(&scene.rules),
        limit: NodesLimit {
            allowed: planned.closed.is_none(),
            observed: planned.memory.observed,
            healthy: planned.memory.healthy,
            needed: fewest_healthy(scene.rules.limit, planned.memory.observed).ok(),
            words: words::limit(&scene.rules, &planned, &nodes),
        },
        storm: storm(&scene.rules, &planned),
        due: due
            .map(|action| words::action(action, &scene.rules))
            .collect(),
        next: next(scene, &planned, &nodes, now),
        recorded: recorded(scene, phase, &planned).filter(|_| acts),
        nodes,
        notes: scene.notes.clone(),
        settings: String::new(),
        now,
    }
}

fn planned(scene: &NodesScene, memory: &Memory, now: Timestamp) -> Plan {
    plan(
        &scene.rules,
        &scene.nodes,
        &scene.requests,
        &scene.outside,
        memory,
        now,
    )
}

/// Every Node that the check selects, and every other one that has a remediation of it.
fn nodes(scene: &NodesScene, planned: &Plan, now: Timestamp) -> Vec<NodeExplanation> {
    let mut actions: BTreeMap<&str, Vec<&Action>> = BTreeMap::new();
    for action in &planned.actions {
        actions.entry(action.node()).or_default().push(action);
    }
    let ours = |name: &str| {
        let of = |r: &&Request| r.node == name && r.is_owned_by(&scene.rules.uid);
        scene.requests.iter().filter(of).collect::<Vec<_>>()
    };
    let entry = |name: &str| {
        planned
            .memory
            .nodes
            .get(name)
            .or(scene.memory.nodes.get(name))
    };
    let mut told = Vec::new();
    for (node, selected) in &scene.nodes {
        let (requests, known) = (ours(&node.name), entry(&node.name));
        if !selected && requests.is_empty() && known.is_none() {
            continue;
        }
        told.push(one(
            scene, planned, node, *selected, &requests, known, &actions, now,
        ));
    }
    let there = |name: &str| scene.nodes.iter().any(|(node, _)| node.name == name);
    let of_requests = scene
        .requests
        .iter()
        .filter(|r| r.is_owned_by(&scene.rules.uid));
    let names = of_requests.map(|r| r.node.as_str());
    let mut gone: Vec<&str> = names
        .chain(scene.memory.nodes.keys().map(String::as_str))
        .filter(|name| !there(name))
        .collect();
    gone.sort_unstable();
    gone.dedup();
    for name in gone {
        let requests = ours(name);
        told.push(NodeExplanation {
            node: name.to_owned(),
            verdict: "gone",
            since: None,
            until: None,
            why: "there is no Node of this name".into(),
            counts_as_healthy: false,
            remediations: steps(scene, entry(name), &requests),
            does: words::does(actions.get(name), None, false, &scene.rules),
        });
    }
    let rank = |verdict: &str| match verdict {
        "unhealthy" => 0,
        "gone" => 1,
        "suspect" => 2,
        _ => 3,
    };
    told.sort_by_key(|n| {
        let quiet = n.remediations.is_empty();
        (rank(n.verdict), quiet, n.node.clone())
    });
    told
}

#[allow(clippy::too_many_arguments)]
fn one(
    scene: &NodesScene,
    planned: &Plan,
    node: &NodeFacts,
    selected: bool,
    requests: &[&Request],
    entry: Option<&Entry>,
    actions: &BTreeMap<&str, Vec<&Action>>,
    now: Timestamp,
) -> NodeExplanation {
    let times = onsets(&scene.rules, node);
    let class = classify(&scene.rules, node, now);
    let (verdict, until) = match &class {
        Class::Healthy => ("healthy", None),
        Class::Soon(until) => ("suspect", *until),
        Class::Matching(_) => ("unhealthy", None),
    };
    let first = times.iter().min_by_key(|onset| onset.until);
    let running = requests.iter().any(|r| r.timed_out.is_none());
    let mut why = match &class {
        Class::Healthy => String::new(),
        Class::Soon(None) => "since when it is not healthy, nobody can say".into(),
        Class::Soon(_) | Class::Matching(_) => words::causes(&times, now),
    };
    if !selected {
        why = format!(
            "{why}{}not selected any more",
            if why.is_empty() { "" } else { "; " }
        );
    }
    NodeExplanation {
        node: node.name.clone(),
        verdict,
        since: match &class {
            Class::Healthy => entry.and_then(|e| e.healthy_since),
            Class::Soon(_) | Class::Matching(_) => first.map(|onset: &Onset| onset.cause.since()),
        },
        until,
        why,
        counts_as_healthy: selected && class == Class::Healthy && requests.is_empty(),
        remediations: steps(scene, entry, requests),
        does: words::does(
            actions.get(node.name.as_str()),
            planned.skipped.get(&node.name),
            running,
            &scene.rules,
        ),
    }
}

/// The remediations of a Node, as the status remembers them and as they are.
fn steps(scene: &NodesScene, entry: Option<&Entry>, requests: &[&Request]) -> Vec<StepExplanation> {
    let tried = entry.map(|e| e.tried.as_slice()).unwrap_or_default();
    let step = |tried: &Tried| {
        let request = requests.iter().find(|r| r.uid == tried.uid);
        let all = &scene.rules.steps;
        let target = all.iter().position(|step| tried.is_of(&step.template));
        let lasts = target.and_then(|target| all.get(target)).map(words::lasts);
        let state = match request {
            None => "gone",
            Some(r) if r.deleting => "deleting",
            Some(r) if r.succeeded == Some(true) => "succeeded",
            Some(r) if r.succeeded == Some(false) => "failed",
            Some(r) if r.timed_out.or(tried.timed_out).is_some() => "timedOut",
            Some(_) => "running",
        };
        let until = lasts.and_then(|lasts| tried.started.checked_add(lasts).ok());
        StepExplanation {
            remediation: words::request(&tried.id),
            template: tried.template.clone(),
            step: target.map(|target| format!("{} of {}", target + 1, all.len())),
            state,
            started: tried.started,
            until: until.filter(|_| state == "running"),
        }
    };
    tried.iter().map(step).collect()
}

fn storm(rules: &Check, planned: &Plan) -> Option<StormExplanation> {
    let on =
        |flag: &Option<rackhand_core::nodes::Flag>| flag.as_ref().filter(|f| f.on).map(|f| f.since);
    let (active, cooling) = (on(&planned.memory.storm), on(&planned.memory.cooldown));
    let cooldown = rules.storm_cooldown?;
    let until = cooling.and_then(|since| since.checked_add(cooldown).ok());
    let state = match (active, cooling) {
        (_, Some(_)) => "cooldown",
        (Some(_), None) => "active",
        (None, None) => "none",
    };
    Some(StormExplanation {
        state,
        since: cooling.or(active),
        until,
        words: words::storm(state, cooldown),
    })
}

/// What happens at the next time at which something does by itself: asked of the same function, for
/// that time.
fn next(
    scene: &NodesScene,
    planned: &Plan,
    nodes: &[NodeExplanation],
    now: Timestamp,
) -> Option<NextOfNodes> {
    let at = planned.wake_at.filter(|at| *at > now)?;
    let later = self::planned(scene, &planned.memory, at);
    let then = self::nodes(scene, &later, at);
    let words = words::next(planned, &later, nodes, &then, &scene.rules);
    Some(NextOfNodes { at, words })
}

/// What the status says, where that is not what is seen here.
fn recorded(scene: &NodesScene, phase: &str, planned: &Plan) -> Option<String> {
    let Some((said, reason)) = &scene.recorded else {
        return Some("the check has no status: no controller has evaluated it".into());
    };
    let same = *said == phase && *reason == planned.memory.reason;
    (!same).then(|| format!("{said}: {reason}"))
}
