//! HTML of running and finished remediations.

use jiff::Timestamp;
use maud::{Markup, html};
use rackhand_core::{
    explanation::RemediationView,
    overview::{FinishedRemediation, RemediationEntry, TimelineEntry},
    remediation::WORDS_IGNORED,
};

use super::html::{age, clock, span};

/// The step that waits for a confirmation by a person.
const AWAITS: &str = "AwaitingConfirmation";

pub(super) fn running(all: &[RemediationEntry], now: Timestamp) -> Markup {
    if all.is_empty() {
        return html! { p class="none" { "No remediation runs." } };
    }
    html! {
        @for entry in all {
            @let view = &entry.view;
            article class={ "remediation " @if view.blocked { "blocked" } @else { "remediating" } } {
                h3 {
                    (entry.node.as_deref().or(entry.host.as_deref()).unwrap_or(&view.remediation))
                    ": " (view.step)
                    small { " for " (age(now, view.since)) }
                    @if view.overdue { " " strong { "overdue" } }
                }
                p { b { (view.reason) } ": " (view.message) }
                @if view.blocked && view.step == AWAITS && !view.message.contains(WORDS_IGNORED) {
                    p { "To confirm that the host has no power: " code { (confirm(view)) } }
                }
                @if !view.blocked {
                    p { "Next: " (view.next.message) }
                }
                p class="details" {
                    (view.remediation)
                    @if let Some(host) = &entry.host { ", host " (host) }
                    @if let Some(by) = &entry.requested_by { ", made by " (by) }
                    ", attempt " (view.attempt) " of " (view.attempts) ". "
                    (explain_link(&view.remediation, "Explain"))
                }
                (timeline(&entry.timeline, None))
            }
        }
    }
}

/// Splits `Kind namespace/name`.
fn parts(remediation: &str) -> Option<(&str, &str, &str)> {
    let (kind, path) = remediation.split_once(' ')?;
    let (namespace, name) = path.split_once('/')?;
    Some((kind, namespace, name))
}

fn confirm(view: &RemediationView) -> String {
    match parts(&view.remediation) {
        Some((_, namespace, name)) => {
            format!("kubectl rackhand confirm-fenced {name} --namespace {namespace}")
        }
        None => "kubectl rackhand confirm-fenced".to_owned(),
    }
}

/// Renders a link to the explanation of a remediation.
pub(super) fn explain_link(remediation: &str, words: &str) -> Markup {
    let query = parts(remediation).and_then(|(kind, namespace, name)| {
        serde_urlencoded::to_string([("kind", kind), ("namespace", namespace), ("name", name)]).ok()
    });
    html! {
        @if let Some(query) = query { a href={ "explain?" (query) } { (words) } }
    }
}

/// Renders each step with its duration.
fn timeline(steps: &[TimelineEntry], finished: Option<Timestamp>) -> Markup {
    let ends = steps
        .iter()
        .skip(1)
        .map(|step| Some(step.at))
        .chain([finished]);
    html! {
        ol class="timeline" {
            @for (step, end) in steps.iter().zip(ends) {
                li {
                    (step.step)
                    @if let Some(end) = end { " " small { (span(step.at, end)) } }
                }
            }
        }
    }
}

pub(super) fn finished(all: &[FinishedRemediation]) -> Markup {
    html! {
        @if all.is_empty() {
            p class="none" { "No remediation has finished within the last day." }
        } @else {
            div class="table" {
                table {
                    thead {
                        tr {
                            th { "Finished" } th { "Node" } th { "Host" } th { "Outcome" }
                            th { "Took" } th { "Steps" }
                        }
                    }
                    tbody {
                        @for entry in all { (finished_row(entry)) }
                    }
                }
            }
        }
    }
}

fn finished_row(entry: &FinishedRemediation) -> Markup {
    let succeeded = matches!(entry.outcome.as_str(), "succeeded" | "withdrawn");
    html! {
        tr class=[(!succeeded).then_some("blocked")] {
            td { (clock(entry.finished)) }
            td { (entry.node.as_deref().unwrap_or("-")) }
            td {
                (entry.host.as_deref().unwrap_or("-"))
                @if let Some(occurrence) = &entry.occurrence { br; small { (occurrence) } }
            }
            td {
                (entry.outcome) br; small { (entry.reason) }
                @if let Some(cause) = &entry.shared_cause { br; small { (cause) } }
            }
            td { (span(entry.created, entry.finished)) }
            td { (timeline(&entry.timeline, Some(entry.finished))) }
        }
    }
}
