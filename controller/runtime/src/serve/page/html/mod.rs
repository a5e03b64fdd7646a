//! HTML of the status page.

use std::time::Duration;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use rackhand_core::{
    overview::{
        AgentView, CheckSummary, HostState, HostView, MaintenanceEntry, Overview, RackView,
        SharedCauseEntry,
    },
    values::duration::time_span,
};

use super::remediations::{explain_link, finished, running};

/// Renders the whole page.
pub(super) fn page(overview: &Overview) -> Markup {
    document(
        "Rackhand",
        &html! {
            main id="content" { (content(overview)) }
            script src="page.js" {}
        },
    )
}

/// Renders an explanation.
pub(super) fn explanation(text: &str) -> Markup {
    document(
        "Rackhand: explanation",
        &html! {
            main {
                p { a href="./" { "Overview" } }
                pre { (text) }
            }
        },
    )
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href="page.css";
            }
            body { (body) }
        }
    }
}

fn content(overview: &Overview) -> Markup {
    let now = overview.now;
    html! {
        header {
            h1 { "Rackhand" }
            p {
                "Leader " b { (overview.leader.name) } ", term " (overview.leader.term) ", for "
                (age(now, Some(overview.leader.since))) ". As of " (clock(now)) "."
            }
        }
        (summary(overview))
        @if !overview.unreachable_clusters.is_empty() {
            section {
                h2 { "Not watched now" }
                ul {
                    @for (cluster, why) in &overview.unreachable_clusters {
                        li { b { (cluster) } ": " (why) }
                    }
                }
            }
        }
        @if !overview.shared_causes.is_empty() {
            section {
                h2 { "Shared causes" }
                (shared_causes(&overview.shared_causes, now))
            }
        }
        section {
            h2 { "Remediations" }
            (running(&overview.remediations, now))
        }
        @if !overview.maintenances.is_empty() {
            section {
                h2 { "Planned work" }
                (maintenances(&overview.maintenances, now))
            }
        }
        section {
            h2 { "Racks" }
            @if overview.racks.is_empty() {
                p class="none" { "No RackAgent and no BareMetalHost exists." }
            }
            div class="racks" {
                @for rack in &overview.racks { (rack_view(rack, now)) }
            }
        }
        section {
            h2 { "Health checks" }
            (checks(&overview.checks))
        }
        section {
            h2 { "Finished within a day" }
            (finished(&overview.finished))
        }
    }
}

fn maintenances(all: &[MaintenanceEntry], now: Timestamp) -> Markup {
    html! {
        ul {
            @for one in all {
                li class={ @if one.blocked { "blocked" } } {
                    b { (one.host) ": " (one.phase) }
                    " for " (age(now, one.since)) ", " (one.reason)
                    @if let Some(by) = &one.by { " (" (by) ")" }
                    @if let Some(ends) = one.ends { ", until " (clock(ends)) }
                    ". " (one.message) ". HostMaintenance " (one.name) "."
                }
            }
        }
    }
}

fn shared_causes(causes: &[SharedCauseEntry], now: Timestamp) -> Markup {
    html! {
        ul {
            @for cause in causes {
                li class="blocked" {
                    b { (cause.domain) } ", for " (age(now, Some(cause.since))) ": " (cause.message) ". "
                    (hosts(cause.still_failed.try_into().unwrap_or(usize::MAX))) " still failed. "
                    @match cause.held_until {
                        Some(until) if until <= now => { "Remediations are held no longer." }
                        Some(until) => { "Remediations are held until " (clock(until)) "." }
                        None => { "Remediations that have not begun are held." }
                    }
                }
            }
        }
    }
}

fn summary(overview: &Overview) -> Markup {
    let counts = overview.counts;
    let silent = overview
        .racks
        .iter()
        .flat_map(|rack| &rack.agents)
        .filter(|agent| !agent.connected)
        .count();
    let numbers = [
        (counts.all, "hosts", ""),
        (counts.ready, "ready", "ready"),
        (counts.not_ready, "not ready", "not-ready"),
        (counts.remediating, "in remediation", "remediating"),
        (counts.blocked, "blocked", "blocked"),
        (counts.without_node, "without a Node", "without-node"),
        (
            counts.fencing_unavailable,
            "without a working BMC",
            "not-ready",
        ),
        (silent, "agents out of reach", "blocked"),
    ];
    html! {
        ul class="summary" {
            @for (number, what, class) in numbers {
                li class=[(number > 0).then_some(class)] { b { (number) } " " (what) }
            }
        }
    }
}

fn rack_view(rack: &RackView, now: Timestamp) -> Markup {
    html! {
        article class="rack" {
            h3 {
                @if rack.name.is_empty() { "No rack" } @else { (rack.name) }
                small { " " (hosts(rack.hosts.len())) }
            }
            @for agent in &rack.agents { (agent_view(agent, now)) }
            ol {
                @for host in &rack.hosts { (host_view(host, now)) }
            }
        }
    }
}

fn hosts(count: usize) -> String {
    match count {
        1 => "1 host".to_owned(),
        n => format!("{n} hosts"),
    }
}

fn agent_view(agent: &AgentView, now: Timestamp) -> Markup {
    let state = match (agent.connected, agent.standby) {
        (true, false) => "connected",
        (true, true) => "standby",
        (false, _) => "out of reach",
    };
    html! {
        p class={ "agent" @if !agent.connected { " blocked" } } {
            "Agent " b { (agent.name) } ": " (state)
            @if !agent.connected {
                @if agent.last_seen.is_some() {
                    ", connected last " (age(now, agent.last_seen)) " ago"
                }
                ". " (agent.message)
            }
        }
    }
}

fn host_view(host: &HostView, now: Timestamp) -> Markup {
    let (class, state) = match host.state {
        HostState::Ready => ("ready", "ready"),
        HostState::NotReady => ("not-ready", "not ready"),
        HostState::Remediating => ("remediating", "remediation"),
        HostState::Blocked => ("blocked", "blocked"),
        HostState::WithoutNode => ("without-node", "no Node"),
    };
    html! {
        li class=(class) {
            @if !host.position.is_empty() { span class="position" { (host.position) } }
            b { (host.name) }
            @if let Some(node) = host.node.as_ref().filter(|node| last(node) != last(&host.name)) {
                span { (node) }
            }
            span class="state" {
                @match &host.step { Some(step) => (step), None => (state) }
                @if host.state != HostState::Ready && host.since.is_some() {
                    " " (age(now, host.since))
                }
                @if let Some(power) = &host.power { ", power " (power) }
                @if !host.held_by.is_empty() { ", held off" }
                @if let Some(why) = &host.fencing_unavailable {
                    ", " b title=(why) { "BMC does not answer" }
                }
            }
            @if let Some(remediation) = &host.remediation {
                (explain_link(remediation, "why"))
            }
        }
    }
}

/// The last component of a path.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn checks(checks: &[CheckSummary]) -> Markup {
    if checks.is_empty() {
        return html! { p class="none" { "There is no health check." } };
    }
    html! {
        div class="table" {
            table {
                thead {
                    tr {
                        th { "Check" } th { "Healthy" } th { "Limit" }
                        th { "More may fail" } th { "State" }
                    }
                }
                tbody {
                    @for check in checks { (check_row(check)) }
                }
            }
        }
    }
}

fn check_row(check: &CheckSummary) -> Markup {
    let number = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
    let closed = check.remediations_allowed == Some(0) || !check.problem.is_empty();
    let path = match check.namespace.as_str() {
        "" => check.name.clone(),
        namespace => format!("{namespace}/{}", check.name),
    };
    html! {
        tr class=[closed.then_some("blocked")] {
            td { b { (path) } br; small { (check.kind) "." (check.group) } }
            td { (number(check.healthy)) " of " (number(check.expected)) }
            td { (check.limit) }
            td { (number(check.remediations_allowed)) }
            td {
                @if check.problem.is_empty() { "remediation allowed" } @else { (check.problem) }
            }
        }
    }
}

/// The time since a moment, formatted as in `explain`.
pub(super) fn age(now: Timestamp, since: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(since) = since {
            time datetime=(since) { (span(since, now)) }
        }
    }
}

/// The time between two moments, formatted as in `explain`.
pub(super) fn span(from: Timestamp, to: Timestamp) -> String {
    time_span(Duration::try_from(to.duration_since(from)).unwrap_or_default())
}

/// The time of day in UTC.
pub(super) fn clock(at: Timestamp) -> Markup {
    let shown = at.strftime("%H:%M:%S UTC").to_string();
    html! { time datetime=(at) { (shown) } }
}

#[cfg(test)]
mod tests;
