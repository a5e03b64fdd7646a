//! The words of an explanation of a check of Nodes: for a person who was woken by it.

use std::{fmt::Write as _, time::Duration};

use jiff::Timestamp;
use rackhand_core::{
    health::go_duration,
    nodes::{
        Action, Check, Delay, IntOrPercent, Limit, Onset, Plan, RequestId, Step, fewest_healthy,
    },
};

use super::nodes::NodeExplanation;

/// How many names a line gives; the rest is a number.
const NAMED: usize = 8;
/// A single template is given half an hour (docs/reference/medik8s.md, Remediation of one Node).
const SINGLE: Duration = Duration::from_secs(1800);

/// How long a remediation is given.
pub(super) fn lasts(step: &Step) -> Duration {
    step.timeout.unwrap_or(SINGLE)
}

/// What makes a Node unhealthy, one rule each.
pub(super) fn rules(check: &Check) -> Vec<String> {
    let rule = |rule: &rackhand_core::nodes::ConditionRule| {
        let duration = go_duration(rule.timeout);
        format!("{}={} for {duration}", rule.type_, rule.status)
    };
    let startup = check
        .startup_timeout
        .map(|timeout| format!("no word of its kubelet within {}", go_duration(timeout)));
    check.conditions.iter().map(rule).chain(startup).collect()
}

/// The templates, in their order.
pub(super) fn steps(check: &Check) -> Vec<String> {
    let step = |(target, step): (usize, &Step)| {
        let of = &step.template;
        let template = match of.namespace.as_str() {
            "" => of.name.clone(),
            namespace => format!("{namespace}/{}", of.name),
        };
        format!(
            "{}. a {} from template {template} ({}), for {}",
            target + 1,
            of.request_kind,
            of.api_version,
            go_duration(lasts(step))
        )
    };
    check.steps.iter().enumerate().map(step).collect()
}

/// Kind, namespace and name.
pub(super) fn request(id: &RequestId) -> String {
    match id.namespace.as_str() {
        "" => format!("{} {}", id.kind, id.name),
        namespace => format!("{} {namespace}/{}", id.kind, id.name),
    }
}

/// Why a Node is not healthy, with when each cause counts.
pub(super) fn causes(times: &[Onset], now: Timestamp) -> String {
    let over = |onset: &&Onset| onset.until < now;
    let counting: Vec<&Onset> = times.iter().filter(over).collect();
    let told = if counting.is_empty() {
        times.iter().collect()
    } else {
        counting
    };
    let told: Vec<String> = told.iter().map(|onset| onset.cause.to_string()).collect();
    told.join("; ")
}

/// What an action does.
pub(super) fn action(action: &Action, check: &Check) -> String {
    match action {
        Action::Create { node, step, .. } => {
            let target = check.steps.iter().position(|s| s.template == step.template);
            format!(
                "makes a {} for Node {node} (step {} of {}, template {}), for {}",
                step.template.request_kind,
                target.map_or(0, |target| target + 1),
                check.steps.len(),
                step.template.name,
                go_duration(lasts(step))
            )
        }
        Action::Delete { node, request, .. } => {
            format!(
                "deletes {}: Node {node} needs it no more",
                self::request(request)
            )
        }
        Action::Delay {
            node,
            since: Some(_),
            ..
        } => {
            let delay = match check.delay {
                Delay::For(delay) => format!("for {}", go_duration(delay)),
                Delay::None | Delay::UntilConfirmed => "until a person confirms it".into(),
            };
            format!("keeps the remediation of Node {node}, which is healthy again, {delay}")
        }
        Action::Delay {
            node, since: None, ..
        } => {
            format!("ends the delay of Node {node}, which is unhealthy again")
        }
        Action::TimeOut { request, .. } => {
            format!(
                "tells {} to stop: its time is over, or it has failed",
                self::request(request)
            )
        }
        Action::TellOld { request, .. } => {
            format!(
                "says once that {} is older than two days",
                self::request(request)
            )
        }
        Action::RenewLease { node, .. } => format!("renews the Lease of Node {node}"),
        Action::ReleaseLease { node } => format!("gives the Lease of Node {node} back"),
        Action::Unconfirm { node } => {
            format!("takes the word of the person who confirmed that Node {node} is healthy off it")
        }
    }
}

/// What is done about one Node now, or why nothing is.
pub(super) fn does(
    actions: Option<&Vec<&Action>>,
    skipped: Option<&String>,
    running: bool,
    check: &Check,
) -> String {
    let acts = actions.into_iter().flatten();
    let mut told: Vec<String> = acts.map(|a| action(a, check)).collect();
    if let Some(why) = skipped {
        told.push(format!("nothing is begun: {why}"));
    }
    match told.is_empty() {
        true if running => "nothing more: its remediation is under way".into(),
        true => "nothing".into(),
        false => told.join("; "),
    }
}

/// The arithmetic of the limit, as a person would do it.
pub(super) fn limit(check: &Check, planned: &Plan, nodes: &[NodeExplanation]) -> String {
    let (all, healthy) = (planned.memory.observed, planned.memory.healthy);
    let plural = if all == 1 { "" } else { "s" };
    let mut text = format!("{all} Node{plural} selected, {healthy} healthy");
    let not: Vec<String> = nodes
        .iter()
        .filter(|n| !n.counts_as_healthy && n.verdict != "gone")
        .map(|n| match n.verdict {
            "healthy" => format!("{} (its remediation is still there)", n.node),
            verdict => format!("{} ({verdict})", n.node),
        })
        .collect();
    if !not.is_empty() {
        let _ = write!(text, "; not: {}", listed(&not));
    }
    text.push_str(". ");
    let (name, share, min) = match check.limit {
        Limit::MinHealthy(share) => ("minHealthy", share, true),
        Limit::MaxUnhealthy(share) => ("maxUnhealthy", share, false),
    };
    let _ = match share {
        IntOrPercent::Int(count) => write!(text, "{name} is {count}"),
        IntOrPercent::Percent(percent) => {
            let up = (u64::from(all) * u64::from(percent)).div_ceil(100);
            write!(text, "{name} is {percent}% of {all}, rounded up {up}")
        }
    };
    match fewest_healthy(check.limit, all) {
        Err(error) => {
            let _ = write!(text, ": {error}, so that nothing is remediated.");
        }
        Ok(needed) => {
            if !min {
                let _ = write!(text, ", so that {needed} have to be healthy");
            }
            let _ = match (&planned.closed, u64::from(healthy).checked_sub(needed)) {
                (_, None) => write!(
                    text,
                    ": {healthy} is less than {needed}, remediation is NOT allowed."
                ),
                (Some(why), _) => write!(text, ": enough, but {why}."),
                (None, Some(more)) => write!(
                    text,
                    ": remediation is allowed; {more} more may fail before it stops."
                ),
            };
        }
    }
    text
}

/// Where a storm stands.
pub(super) fn storm(state: &str, cooldown: Duration) -> String {
    let cooldown = go_duration(cooldown);
    match state {
        "active" => format!(
            "the limit was reached: nothing is begun until enough Nodes are healthy, and for {cooldown} \
             after it"
        ),
        "cooldown" => "enough Nodes are healthy again: nothing is begun until it is over".into(),
        _ => format!("none; one would end {cooldown} after enough Nodes are healthy again"),
    }
}

/// What changes between now and the next time at which something changes by itself.
pub(super) fn next(
    now: &Plan,
    later: &Plan,
    nodes: &[NodeExplanation],
    then: &[NodeExplanation],
    check: &Check,
) -> String {
    let mut told = Vec::new();
    for after in then {
        let before = nodes.iter().find(|n| n.node == after.node);
        if before.is_some_and(|before| before.verdict != after.verdict) {
            told.push(format!("Node {} becomes {}", after.node, after.verdict));
        }
    }
    match (&now.closed, &later.closed) {
        (None, Some(_)) => told.push("the limit then forbids remediation".into()),
        (Some(_), None) => told.push("remediation is allowed again".into()),
        _ => {}
    }
    let new = later.actions.iter().filter(|a| !now.actions.contains(a));
    let new: Vec<String> = new
        .map(|a| format!("Rackhand {}", action(a, check)))
        .collect();
    told.extend(new);
    match told.is_empty() {
        true => "it looks again".into(),
        false => listed(&told),
    }
}

fn listed(items: &[String]) -> String {
    let first = items.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match items.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
