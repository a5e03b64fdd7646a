//! The words of an explanation of a health check: for a person who was woken by it.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use rackhand_api::views::{MachineHealthCheckView, MachineView, OwnerRef, TemplateRef};
use rackhand_core::health::{
    Action, Check, ConditionRule, IntOrPercent, Limit, Plan, RequestView, Target, Verdict,
    go_duration,
};

use super::health::{CheckScene, MachineExplanation, under_way};

/// How many names a line gives; the rest is a number.
const NAMED: usize = 8;

/// What makes a machine unhealthy, one rule each.
pub(super) fn rules(check: &Check) -> Vec<String> {
    let machine = check.machine_conditions.iter().map(|r| rule("Machine", r));
    let node = check.node_conditions.iter().map(|r| rule("Node", r));
    machine
        .chain(node)
        .chain([startup(check.startup_timeout)])
        .collect()
}

/// One rule on a condition.
pub(super) fn rule(whose: &str, rule: &ConditionRule) -> String {
    let timeout = go_duration(rule.timeout);
    format!("{whose} {}={} for {timeout}", rule.type_, rule.status)
}

/// The startup timeout.
pub(super) fn startup(timeout: Option<Duration>) -> String {
    match timeout {
        Some(timeout) => format!("no Node within {}", go_duration(timeout)),
        None => "no Node: never".into(),
    }
}

/// Who brings an unhealthy machine back.
pub(super) fn remediation(view: &MachineHealthCheckView) -> String {
    match &view.remediation_template {
        Some(template) => from_template(template),
        None => "its owner, which replaces it (no template is named)".into(),
    }
}

/// A request from a template.
pub(super) fn from_template(template: &TemplateRef) -> String {
    format!(
        "a {} from {} {} ({})",
        template.request_kind(),
        template.kind,
        template.name,
        template.api_version
    )
}

/// A reason in brackets, if there is one.
pub(super) fn bracketed(reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!(" ({reason})"),
        _ => String::new(),
    }
}

/// Why the verdict is what it is; a healthy machine needs no reason.
pub(super) fn why(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Healthy => String::new(),
        Verdict::Skipped(reason) => reason.to_string(),
        Verdict::Unknown(reason) | Verdict::NotEvaluated(reason) => reason.to_string(),
        Verdict::Suspect { causes, .. } | Verdict::Unhealthy { causes } => causes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; "),
    }
}

pub(super) fn request(
    request: &RequestView,
    view: &MachineHealthCheckView,
    machine: &str,
) -> Option<String> {
    let kind = view.remediation_template.as_ref()?.request_kind();
    request_words(request, kind, machine)
}

/// The request of a machine, if there is one.
pub(super) fn request_words(request: &RequestView, kind: &str, machine: &str) -> Option<String> {
    match request {
        RequestView::None => None,
        RequestView::Open => Some(format!("{kind} {machine}")),
        RequestView::Deleting => Some(format!("{kind} {machine} (being deleted)")),
        RequestView::Foreign { owner } => Some(format!("{kind} {machine} of {owner}")),
    }
}

/// What an action does.
pub(super) fn action(action: &Action, view: &MachineHealthCheckView) -> String {
    let kind = view
        .remediation_template
        .as_ref()
        .map_or("request", |template| template.request_kind());
    match action {
        Action::CreateRequest { machine, .. } => format!("creates {kind} {machine}"),
        Action::DeleteRequest { machine } => {
            format!("deletes {kind} {machine}: the machine is healthy again")
        }
        Action::MarkOwnerRemediated { machine } => {
            format!("sets OwnerRemediated=False on Machine {machine}: its owner shall replace it")
        }
        Action::UnmarkOwnerRemediated { machine } => {
            format!("takes OwnerRemediated off Machine {machine}: the machine is healthy again")
        }
        Action::ReportForeignRequest { machine, owner } => {
            format!("says on Machine {machine} that {kind} {machine} belongs to {owner}")
        }
    }
}

fn owner(view: &MachineView) -> String {
    let controller = |o: &&OwnerRef| o.controller;
    match view.meta.owners.iter().find(controller) {
        Some(owner) => format!("{} {}", owner.kind, owner.name),
        None => "nobody: it has no owner that replaces it".into(),
    }
}

/// What is done about one machine now, or why nothing is.
pub(super) fn does(
    scene: &CheckScene,
    view: &MachineView,
    target: &Target,
    verdict: &Verdict,
    action: Option<&Action>,
    open: bool,
) -> String {
    if let Some(action) = action {
        return match action {
            Action::MarkOwnerRemediated { .. } => format!("hands it to {}", owner(view)),
            other => self::action(other, &scene.view),
        };
    }
    if let Some(other) = scene.acted_for.get(&view.meta.name) {
        return format!("nothing: MachineHealthCheck {other} acts for it");
    }
    if let Some(why) = held_up(verdict, &target.request, target.machine.deleting, open) {
        return why.into();
    }
    match verdict {
        Verdict::Unhealthy { .. } if !scene.rules.external => {
            format!("nothing more: it was handed to {}", owner(view))
        }
        Verdict::Skipped(_) => "nothing: it is left out".into(),
        _ => "nothing".into(),
    }
}

/// Why nothing is done about a machine for which nothing is due, whatever group its check is of.
pub(super) fn held_up(
    verdict: &Verdict,
    request: &RequestView,
    deleting: bool,
    open: bool,
) -> Option<&'static str> {
    match verdict {
        Verdict::Unhealthy { .. } if under_way(request) => {
            Some("nothing more: its remediation is under way")
        }
        Verdict::Unhealthy { .. } if deleting => Some("nothing: it is being deleted"),
        Verdict::Unhealthy { .. } if !open => Some("nothing: the limit forbids it"),
        Verdict::Healthy if *request == RequestView::Deleting => {
            Some("waits for its remediation to end")
        }
        _ => None,
    }
}

/// The arithmetic of the limit, as a person would do it.
pub(super) fn limit(
    check: &Check,
    view: &MachineHealthCheckView,
    planned: &Plan,
    machines: &[MachineExplanation],
) -> String {
    let gate = &planned.gate;
    let n = gate.not_healthy;
    let mut text = counted(gate.expected, n, machines);
    let unset = view.max_unhealthy.is_none() && view.unhealthy_range.is_none();
    let _ = write!(text, " {}. ", written(check.limit, gate.expected, unset));
    let more = gate.remediations_allowed;
    text.push_str(&compared(check.limit, gate.expected, n, more));
    text
}

/// How many machines there are, and which of them count against the limit.
pub(super) fn counted(expected: u32, n: u32, machines: &[MachineExplanation]) -> String {
    let mut text = format!("{}: {}.", count(expected, "machine"), buckets(machines));
    let counting: Vec<String> = machines
        .iter()
        .filter(|m| m.counts)
        .map(|m| match (m.verdict, &m.request) {
            ("healthy", Some(_)) => format!("{} (its remediation is not over)", m.machine),
            (verdict, _) => format!("{} ({verdict})", m.machine),
        })
        .collect();
    let does = if n == 1 { "counts" } else { "count" };
    let _ = write!(text, " {n} {does} against the limit");
    if !counting.is_empty() {
        let _ = write!(text, ": {}", listed(&counting));
    }
    text.push('.');
    text
}

fn count(n: u32, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn buckets(machines: &[MachineExplanation]) -> String {
    let labels = [
        ("healthy", "healthy"),
        ("not_evaluated", "not evaluated and counted as healthy"),
        ("unhealthy", "unhealthy"),
        ("suspect", "suspect"),
        ("unknown", "unknown"),
        ("skipped", "skipped and left out"),
    ];
    let parts: Vec<String> = labels
        .into_iter()
        .filter_map(|(label, words)| {
            let n = machines.iter().filter(|m| m.verdict == label).count();
            (n > 0).then(|| format!("{n} {words}"))
        })
        .collect();
    match parts.is_empty() {
        true => "the selector fits none".into(),
        false => parts.join(", "),
    }
}

/// The limit as it was written, and what a share comes to.
pub(super) fn written(limit: Limit, expected: u32, unset: bool) -> String {
    let unset = if unset { " (the default)" } else { "" };
    match limit {
        Limit::AtMost(share @ IntOrPercent::Percent(_)) => format!(
            "The limit is {share} of {expected}{unset}, rounded down {}",
            share.of(expected)
        ),
        Limit::AtMost(count @ IntOrPercent::Int(_)) => format!("The limit is {count}"),
        Limit::Range { min, max } => format!("The limit is from {min} to {max}"),
    }
}

/// The number that counts beside the limit.
pub(super) fn compared(limit: Limit, expected: u32, n: u32, more: u32) -> String {
    if expected == 0 {
        return "There is nothing to remediate.".into();
    }
    let allowed = limit.allowance(expected, n).is_some();
    let comparison = match limit {
        Limit::AtMost(limit) => {
            let most = limit.of(expected);
            let word = if allowed {
                "is not more than"
            } else {
                "is more than"
            };
            format!("{n} {word} {most}")
        }
        Limit::Range { min, .. } if n < min => format!("{n} is less than {min}"),
        Limit::Range { max, .. } if n > max => format!("{n} is more than {max}"),
        Limit::Range { .. } => format!("{n} lies within"),
    };
    if allowed {
        format!("{comparison}: remediation is allowed; {more} more may fail before it stops.")
    } else {
        format!("{comparison}: remediation is NOT allowed.")
    }
}

/// What changes between now and the next time at which a verdict changes by itself.
pub(super) fn next(
    machines: &[String],
    now: &Plan,
    later: &Plan,
    view: &MachineHealthCheckView,
) -> String {
    let actions: Vec<String> = later
        .actions
        .iter()
        .filter(|a| !now.actions.contains(a))
        .map(|a| action(a, view))
        .collect();
    let turned = turned(machines, &now.verdicts, &later.verdicts);
    changes(&turned, (now.gate.open, later.gate.open), &actions)
}

/// What becomes of these machines.
pub(super) fn turned(
    machines: &[String],
    now: &BTreeMap<String, Verdict>,
    later: &BTreeMap<String, Verdict>,
) -> Vec<String> {
    let label = |name: &str, verdicts: &BTreeMap<String, Verdict>| {
        verdicts.get(name).map_or("", Verdict::label)
    };
    machines
        .iter()
        .map(|name| match (label(name, now), label(name, later)) {
            (before, after) if before == after => {
                format!("one more rule of {name} fails, or another time begins to run")
            }
            (_, after) => format!("{name} becomes {after}"),
        })
        .collect()
}

/// The same, with what follows: `open` is whether the limit allows remediation before and after.
pub(super) fn changes(turned: &[String], open: (bool, bool), actions: &[String]) -> String {
    let mut text = listed(turned);
    match open {
        (true, false) => text.push_str("; the limit then forbids remediation"),
        (false, true) => text.push_str("; the limit then allows remediation"),
        _ => {}
    }
    if !actions.is_empty() {
        let _ = write!(text, "; then Rackhand {}", listed(actions));
    } else if !open.1 && turned.iter().any(|t| t.ends_with("unhealthy")) {
        text.push_str("; nothing is done about it, since the limit forbids it");
    }
    text
}

/// The first few.
pub(super) fn listed(items: &[String]) -> String {
    let first = items.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match items.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
