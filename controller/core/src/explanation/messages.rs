//! Sentences that the explanations of all dialects share.

use std::{fmt::Write as _, time::Duration};

use super::check::TargetView;
use crate::{
    checks::machines::{ConditionRule, Limit, MachineRemediation, Verdict},
    values::duration::go_duration,
    values::int_or_percent::IntOrPercent,
};

/// Number of names in a line; the others are only counted.
const NAMED: usize = 8;

/// The first items, and the number of the others.
pub(super) fn listed(items: &[String]) -> String {
    let first = items.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match items.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// A rule on a condition of a Machine or a Node.
pub(super) fn condition_rule(whose: &str, rule: &ConditionRule) -> String {
    let timeout = go_duration(rule.timeout);
    format!("{whose} {}={} for {timeout}", rule.type_, rule.status)
}

/// The rule on Machines without a Node.
pub(super) fn startup_rule(timeout: Option<Duration>) -> String {
    match timeout {
        Some(timeout) => format!("no Node within {}", go_duration(timeout)),
        None => "no Node: never".into(),
    }
}

/// Why the verdict is what it is; empty for a healthy machine.
pub(super) fn verdict_reason(verdict: &Verdict) -> String {
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

/// Whether a remediation of this Machine exists.
pub(super) fn is_under_way(remediation: &MachineRemediation) -> bool {
    matches!(
        remediation,
        MachineRemediation::Open | MachineRemediation::Deleting
    )
}

/// Why nothing is done about a machine for which nothing is due; `None`: it depends on the dialect.
pub(super) fn waiting_reason(
    verdict: &Verdict,
    remediation: &MachineRemediation,
    deleting: bool,
    open: bool,
) -> Option<&'static str> {
    match verdict {
        Verdict::Unhealthy { .. } if is_under_way(remediation) => {
            Some("nothing more: its remediation is under way")
        }
        Verdict::Unhealthy { .. } if deleting => Some("nothing: it is being deleted"),
        Verdict::Unhealthy { .. } if !open => Some("nothing: the limit forbids it"),
        Verdict::Healthy if *remediation == MachineRemediation::Deleting => {
            Some("waits for its remediation to end")
        }
        Verdict::Skipped(_) => Some("nothing: it is left out"),
        _ => None,
    }
}

/// Number and noun, in the singular or the plural.
pub(super) fn count(n: u32, noun: &str) -> String {
    match n {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// How many machines there are by verdict, and which of them count against the limit.
pub(super) fn counted(expected: u32, n: u32, machines: &[TargetView]) -> String {
    let by_verdict = by_verdict(machines);
    let mut text = format!("{}: {by_verdict}.", count(expected, "machine"));
    let counting: Vec<String> = machines
        .iter()
        .filter(|m| m.counts)
        .map(|m| match m.verdict.as_str() {
            "healthy" if !m.remediations.is_empty() => {
                format!("{} (its remediation is not over)", m.name())
            }
            verdict => format!("{} ({verdict})", m.name()),
        })
        .collect();
    let verb = if n == 1 { "counts" } else { "count" };
    let _ = write!(text, " {n} {verb} against the limit");
    if !counting.is_empty() {
        let _ = write!(text, ": {}", listed(&counting));
    }
    text.push('.');
    text
}

fn by_verdict(machines: &[TargetView]) -> String {
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

/// The limit as the check gives it, and what a percentage results in.
pub(super) fn limit_value(limit: Limit, expected: u32, is_default: bool) -> String {
    let unset = if is_default { " (the default)" } else { "" };
    match limit {
        Limit::AtMost(share @ IntOrPercent::Percent(_)) => format!(
            "The limit is {share} of {expected}{unset}, rounded down {}",
            share.of(expected)
        ),
        Limit::AtMost(count @ IntOrPercent::Int(_)) => format!("The limit is {count}"),
        Limit::Range { min, max } => format!("The limit is from {min} to {max}"),
        Limit::Unreadable => "The limit cannot be parsed".into(),
    }
}

/// Whether `n` targets that count are within the limit, and how many more may fail.
pub(super) fn limit_result(limit: Limit, expected: u32, n: u32, more: u32) -> String {
    if expected == 0 {
        return "There is nothing to remediate.".into();
    }
    let allowed = limit.allowance(expected, n).is_some();
    let comparison = match limit {
        Limit::AtMost(limit) => {
            let most = limit.of(expected).max(0);
            let word = if allowed {
                "is not more than"
            } else {
                "is more than"
            };
            format!("{n} {word} {most}")
        }
        Limit::Range { min, .. } if n < min => format!("{n} is less than {min}"),
        Limit::Range { max, .. } if n > max => format!("{n} is more than {max}"),
        Limit::Range { .. } => format!("{n} is within the limit"),
        Limit::Unreadable => format!("no limit is known for {n}"),
    };
    if allowed {
        format!("{comparison}: remediation is allowed; {more} more may fail before it stops.")
    } else {
        format!("{comparison}: remediation is NOT allowed.")
    }
}

/// How the verdicts of these machines change; `labels`: the verdict before and after.
pub(super) fn verdict_changes(
    machines: &[String],
    labels: impl Fn(&str) -> (&'static str, &'static str),
) -> Vec<String> {
    let change = |name: &String| match labels(name) {
        (before, after) if before == after => {
            format!("one more rule of {name} fails, or another timeout begins")
        }
        (_, after) => format!("{name} becomes {after}"),
    };
    machines.iter().map(change).collect()
}

/// The changes and what follows; `open`: whether the limit allows remediation before and after.
pub(super) fn next_change(changes: &[String], open: (bool, bool), actions: &[String]) -> String {
    let mut text = listed(changes);
    match open {
        (true, false) => text.push_str("; the limit then forbids remediation"),
        (false, true) => text.push_str("; the limit then allows remediation"),
        _ => {}
    }
    if !actions.is_empty() {
        let _ = write!(text, "; then Rackhand {}", listed(actions));
    } else if !open.1 && changes.iter().any(|t| t.ends_with("unhealthy")) {
        text.push_str("; nothing is done about it, since the limit forbids it");
    }
    text
}
