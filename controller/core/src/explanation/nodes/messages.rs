//! Sentences of the view of a check of Nodes.

use std::{fmt::Write as _, time::Duration};

use jiff::Timestamp;

use crate::{
    checks::nodes::{
        Action, CauseDeadline, Check, ConditionRule, Delay, Limit, Plan, RemediationId, Step,
        fewest_healthy,
    },
    explanation::{TargetView, messages::listed},
    values::duration::go_duration,
    values::int_or_percent::IntOrPercent,
};

/// Timeout of a single template (docs/reference/medik8s.md, Remediation of one Node).
const SINGLE: Duration = Duration::from_secs(1800);

/// Timeout of the remediation of a step.
pub(super) fn step_timeout(step: &Step) -> Duration {
    step.timeout.unwrap_or(SINGLE)
}

/// What makes a Node unhealthy, one rule each.
pub(super) fn rules(check: &Check) -> Vec<String> {
    let rule = |rule: &ConditionRule| {
        let duration = go_duration(rule.timeout);
        format!("{}={} for {duration}", rule.type_, rule.status)
    };
    let startup = check
        .startup_timeout
        .map(|timeout| format!("no report of its kubelet within {}", go_duration(timeout)));
    check.conditions.iter().map(rule).chain(startup).collect()
}

/// The templates, in their order.
pub(super) fn templates(check: &Check) -> Vec<String> {
    let step = |(target, step): (usize, &Step)| {
        let of = &step.template;
        let template = match of.namespace.as_str() {
            "" => of.name.clone(),
            namespace => format!("{namespace}/{}", of.name),
        };
        format!(
            "{}. a {} from template {template} ({}), for {}",
            target + 1,
            of.remediation_kind,
            of.api_version,
            go_duration(step_timeout(step))
        )
    };
    check.steps.iter().enumerate().map(step).collect()
}

/// Kind, namespace and name.
pub(super) fn remediation_name(id: &RemediationId) -> String {
    match id.namespace.as_str() {
        "" => format!("{} {}", id.kind, id.name),
        namespace => format!("{} {namespace}/{}", id.kind, id.name),
    }
}

/// Why a Node is not healthy: the causes whose time is over, or else all.
pub(super) fn cause_messages(times: &[CauseDeadline], now: Timestamp) -> String {
    let over = |onset: &&CauseDeadline| onset.until < now;
    let counting: Vec<&CauseDeadline> = times.iter().filter(over).collect();
    let messages = if counting.is_empty() {
        times.iter().collect()
    } else {
        counting
    };
    let messages: Vec<String> = messages
        .iter()
        .map(|onset| onset.cause.to_string())
        .collect();
    messages.join("; ")
}

/// What an action does.
pub(super) fn action(action: &Action, check: &Check) -> String {
    match action {
        Action::Create { node, step, .. } => {
            let target = check.steps.iter().position(|s| s.template == step.template);
            format!(
                "creates a {} for Node {node} (step {} of {}, template {}), for {}",
                step.template.remediation_kind,
                target.map_or(0, |target| target + 1),
                check.steps.len(),
                step.template.name,
                go_duration(step_timeout(step))
            )
        }
        Action::Delete {
            node, remediation, ..
        } => {
            format!(
                "deletes {}: Node {node} no longer needs it",
                remediation_name(remediation)
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
        Action::TimeOut { remediation, .. } => {
            format!(
                "requests that {} stops: its time is over, or it has failed",
                remediation_name(remediation)
            )
        }
        Action::TellOld { remediation, .. } => {
            format!(
                "reports once that {} is older than two days",
                remediation_name(remediation)
            )
        }
        Action::RenewLease { node, .. } => format!("renews the Lease of Node {node}"),
        Action::ReleaseLease { node } => format!("releases the Lease of Node {node}"),
        Action::Unconfirm { node } => {
            format!("removes from Node {node} the confirmation of a person that it is healthy")
        }
    }
}

/// What is done about a Node now, or why nothing is.
pub(super) fn does<'a>(
    actions: impl Iterator<Item = &'a Action>,
    skipped: Option<&str>,
    running: bool,
    check: &Check,
) -> String {
    let mut messages: Vec<String> = actions.map(|a| action(a, check)).collect();
    if let Some(why) = skipped {
        messages.push(format!("nothing is begun: {why}"));
    }
    match messages.is_empty() {
        true if running => "nothing more: its remediation is under way".into(),
        true => "nothing".into(),
        false => messages.join("; "),
    }
}

/// The calculation of the limit.
pub(super) fn limit(check: &Check, planned: &Plan, nodes: &[TargetView]) -> String {
    let (all, healthy) = (planned.memory.observed, planned.memory.healthy);
    let plural = if all == 1 { "" } else { "s" };
    let mut text = format!("{all} Node{plural} selected, {healthy} healthy");
    let not: Vec<String> = nodes
        .iter()
        .filter(|n| n.counts)
        .map(|n| match n.verdict.as_str() {
            "healthy" => format!("{} (its remediation still exists)", n.name()),
            verdict => format!("{} ({verdict})", n.name()),
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
            let up = share.rounded_up(all);
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

/// What a storm means for remediation.
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
    nodes: &[TargetView],
    then: &[TargetView],
    check: &Check,
) -> String {
    let mut messages = Vec::new();
    for after in then {
        let before = nodes.iter().find(|n| n.name() == after.name());
        if before.is_some_and(|before| before.verdict != after.verdict) {
            messages.push(format!("Node {} becomes {}", after.name(), after.verdict));
        }
    }
    match (&now.closed, &later.closed) {
        (None, Some(_)) => messages.push("the limit then forbids remediation".into()),
        (Some(_), None) => messages.push("remediation is allowed again".into()),
        _ => {}
    }
    let new = later.actions.iter().filter(|a| !now.actions.contains(a));
    let new: Vec<String> = new
        .map(|a| format!("Rackhand {}", action(a, check)))
        .collect();
    messages.extend(new);
    match messages.is_empty() {
        true => "it is evaluated again".into(),
        false => listed(&messages),
    }
}
