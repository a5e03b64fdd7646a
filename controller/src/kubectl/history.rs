//! The latest remediations of each host.

use std::fmt::{self, Display, Formatter};

use anyhow::Context;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, ResourceExt, api::ListParams};
use rackhand_api::kinds::{
    host_history::{HostHistory, HostRemediation},
    power_record::Attempt,
};
use rackhand_core::{
    explanation::evidence_lines,
    limits::recurrence::{Recurrence, recurrence},
};
use rackhand_runtime::{cause_line, evidence_of_api, with_suspect};
use serde::Serialize;

use super::table::{named, table};
use crate::explain::args::TableOutput;

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Which remediations are shown, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct History {
    /// A Node, a host, or rack/host; by default all hosts.
    name: Option<String>,

    /// Only remediations that began within this time, such as 12h or 7d.
    #[arg(long, value_name = "TIME", value_parser = period)]
    since: Option<SignedDuration>,

    /// How it is shown.
    #[arg(short, long, value_enum, default_value = "table")]
    output: TableOutput,
}

fn period(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{text:?} is not like 90s, 30m, 12h or 7d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: i64 = text
        .strip_suffix(unit)
        .filter(|digits| digits.chars().all(|c| c.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(factor).ok_or_else(wrong)?;
    Ok(SignedDuration::from_secs(seconds))
}

/// The hosts, the most often remediated first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Report {
    hosts: Vec<Host>,
    now: Timestamp,
    /// Whether the text shows the evidence: one host is asked for.
    #[serde(skip)]
    shows_evidence: bool,
}

/// A host with its remediations, the latest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    rack: String,
    host: String,
    /// The Node of its latest remediation.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Such as `4 remediations in 9 days`, for a host that was remediated more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<String>,
    remediations: Vec<HostRemediation>,
}

/// Shows them.
///
/// # Errors
/// They cannot be read, or no host of that name has a history.
pub(super) async fn run(args: &History, client: &Client, now: Timestamp) -> anyhow::Result<()> {
    let report = report(&read(client).await?, args, now);
    if report.hosts.is_empty()
        && let Some(name) = &args.name
    {
        anyhow::bail!(
            "no remediation of {name} is recorded{}",
            match args.since {
                Some(_) => " for this time",
                None => "",
            }
        );
    }
    match args.output {
        TableOutput::Table => out!("{}", report.to_string().trim_start()),
        TableOutput::Json => outln!("{}", serde_json::to_string_pretty(&report)?),
        TableOutput::Yaml => out!("{}", serde_saphyr::to_string(&report)?),
    }
    Ok(())
}

async fn read(client: &Client) -> anyhow::Result<Vec<HostHistory>> {
    let objects: Api<HostHistory> = Api::all(client.clone());
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = objects.list(&params).await.context("HostHistories")?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

fn report(all: &[HostHistory], args: &History, now: Timestamp) -> Report {
    let mut hosts: Vec<Host> = all
        .iter()
        .filter(|object| args.name.as_deref().is_none_or(|name| is_of(object, name)))
        .filter_map(|object| host(object, args.since, now))
        .collect();
    hosts.sort_by(|a, b| {
        let last = |host: &Host| host.remediations.first().map(|r| r.created_at);
        (b.remediations.len(), last(b)).cmp(&(a.remediations.len(), last(a)))
    });
    Report {
        hosts,
        now,
        shows_evidence: args.name.is_some(),
    }
}

/// Whether a history is that of a host or Node of this name.
fn is_of(object: &HostHistory, name: &str) -> bool {
    let HostHistory { spec, status, .. } = object;
    let of_node = || {
        let mut remediations = status.iter().flat_map(|s| &s.remediations);
        remediations.any(|r| r.node.as_deref() == Some(name))
    };
    object.name_any() == name
        || spec.host == name
        || name.split_once('/') == Some((&spec.rack, &spec.host))
        || of_node()
}

fn host(object: &HostHistory, since: Option<SignedDuration>, now: Timestamp) -> Option<Host> {
    let remediations = &object.status.as_ref()?.remediations;
    let is_shown =
        |r: &&HostRemediation| since.is_none_or(|since| now.duration_since(r.created_at) <= since);
    let remediations: Vec<HostRemediation> =
        remediations.iter().filter(is_shown).cloned().collect();
    let times: Vec<Timestamp> = remediations.iter().map(|r| r.created_at).collect();
    let first = remediations.first()?;
    Some(Host {
        rack: object.spec.rack.clone(),
        host: object.spec.host.clone(),
        node: first.node.clone(),
        repeated: recurrence(&times, now)
            .as_ref()
            .map(|r: &Recurrence| with_suspect(r.to_string(), remediations.iter())),
        remediations,
    })
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<(&Host, &HostRemediation)> = self
            .hosts
            .iter()
            .flat_map(|host| host.remediations.iter().map(move |r| (host, r)))
            .collect();
        rows.sort_by_key(|(_, r)| std::cmp::Reverse(r.created_at));
        let cells: Vec<_> = rows.into_iter().map(|(host, r)| row(host, r)).collect();
        let head = [
            "BEGAN",
            "HOST",
            "NODE",
            "OUTCOME",
            "TOOK",
            "ATTEMPTS",
            "REASON",
            "REMEDIATION",
            "CAUSE",
        ];
        table(f, "recorded remediations", head, &cells)?;
        let repeated = self.hosts.iter().filter_map(|host| {
            let text = host.repeated.as_ref()?;
            let path = named(&host.rack, &host.host);
            Some(match &host.node {
                Some(node) => format!("  {node} ({path}): {text}"),
                None => format!("  {path}: {text}"),
            })
        });
        let repeated: Vec<String> = repeated.collect();
        if !repeated.is_empty() {
            writeln!(f, "\nRemediated more than once:\n{}", repeated.join("\n"))?;
        }
        shared_causes(f, &self.hosts)?;
        if self.shows_evidence {
            for host in &self.hosts {
                evidence(f, host)?;
            }
        }
        Ok(())
    }
}

/// What failed together with hosts, the latest remediation first. Many hosts of one cause differ by little, and
/// each line names its host.
fn shared_causes(f: &mut Formatter<'_>, hosts: &[Host]) -> fmt::Result {
    let of_host = |host: &Host| {
        let path = named(&host.rack, &host.host);
        let remediations = host.remediations.clone().into_iter();
        remediations.filter_map(move |r| {
            let began = r.created_at.strftime("%Y-%m-%d %H:%M:%SZ");
            let line = cause_line(r.shared_cause.as_ref()?);
            Some((r.created_at, format!("  {path} {began}: {line}")))
        })
    };
    let mut lines: Vec<(Timestamp, String)> = hosts.iter().flat_map(of_host).collect();
    if lines.is_empty() {
        return Ok(());
    }
    lines.sort_by(|a, b| b.cmp(a));
    writeln!(f, "\nFailed together with other hosts:")?;
    lines.iter().try_for_each(|(_, line)| writeln!(f, "{line}"))
}

/// What the BMC reported before and after the power-offs, and which pods were moved, the latest remediation first.
fn evidence(f: &mut Formatter<'_>, host: &Host) -> fmt::Result {
    for r in &host.remediations {
        let evidence = r.evidence.iter();
        let mut lines: Vec<String> = evidence
            .flat_map(|e| evidence_lines(&evidence_of_api(e)))
            .collect();
        lines.extend(r.attempts.iter().flat_map(moved_pods));
        if lines.is_empty() {
            continue;
        }
        let began = r.created_at.strftime("%Y-%m-%d %H:%M:%SZ");
        writeln!(f, "\n{} {began}:", named(&host.rack, &host.host))?;
        for line in lines {
            writeln!(f, "  {line}")?;
        }
    }
    Ok(())
}

/// Which pods an attempt has evicted, and deleted.
fn moved_pods(attempt: &Attempt) -> impl Iterator<Item = String> {
    let number = attempt.number;
    let line = |pods: Option<i32>, names: &[String], what: &str| {
        let pods = pods.and_then(|pods| usize::try_from(pods).ok())?;
        let more = match pods.saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.join(", ");
        Some(format!(
            "attempt {number}: pods {what}: {pods} ({names}{more})"
        ))
    };
    let evicted = line(
        attempt.pods_evicted,
        &attempt.evicted_pod_names,
        "evicted before anything was switched",
    );
    let deleted = line(
        attempt.pods_deleted,
        &attempt.deleted_pod_names,
        "deleted once the host was off",
    );
    [evicted, deleted].into_iter().flatten()
}

fn row(host: &Host, r: &HostRemediation) -> [String; 9] {
    let dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let took = r.finished_at.map(|end| {
        let seconds = end.duration_since(r.created_at).as_secs();
        match seconds {
            0..600 => format!("{seconds} s"),
            600..36_000 => format!("{} min", seconds / 60),
            _ => format!("{} h", seconds / 3_600),
        }
    });
    [
        r.created_at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        named(&host.rack, &host.host),
        dash(r.node.as_deref()),
        r.outcome.clone().unwrap_or_else(|| "running".to_owned()),
        dash(took.as_deref()),
        r.attempts.len().to_string(),
        dash(r.reason.as_deref()),
        format!("{} {}", r.kind, named(&r.namespace, &r.name)),
        dash(r.cause.as_deref()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history(host: &str, days: &[i64]) -> HostHistory {
        let remediations: Vec<_> = days
            .iter()
            .map(|day| {
                let at = |second: i64| Timestamp::from_second(day * 86_400 + second).unwrap();
                json!({
                    "uid": format!("u{day}"), "kind": "PowerRemediation", "namespace": "ns",
                    "name": "r", "node": format!("node-{host}"), "createdAt": at(0),
                    "finishedAt": at(75), "outcome": "succeeded", "reason": "NodeHealthy",
                    "cause": "Ready is False",
                })
            })
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostHistory",
            "metadata": { "name": format!("rack-a.{host}") },
            "spec": { "rack": "rack-a", "host": host },
            "status": { "total": days.len(), "remediations": remediations },
        }))
        .unwrap()
    }

    #[test]
    fn history_of_one_host_names_the_pods_that_were_moved() {
        let mut object = history("b1", &[9]);
        let attempt = json!({
            "number": 1, "startedAt": "2026-08-01T02:14:07Z", "podsEvicted": 7,
            "evictedPodNames": ["a/b", "a/c"], "podsDeleted": 1, "deletedPodNames": ["a/d"],
        });
        let remediations = &mut object.status.as_mut().unwrap().remediations;
        remediations[0].attempts = vec![serde_json::from_value(attempt).unwrap()];
        let now = Timestamp::from_second(10 * 86_400).unwrap();
        let text = report(&[object.clone()], &args(Some("b1"), None), now).to_string();
        for line in [
            "attempt 1: pods evicted before anything was switched: 7 (a/b, a/c and 5 more)",
            "attempt 1: pods deleted once the host was off: 1 (a/d)",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let all = report(&[object], &args(None, None), now).to_string();
        assert!(!all.contains("evicted"), "{all}");
    }

    fn args(name: Option<&str>, since: Option<&str>) -> History {
        History {
            name: name.map(str::to_owned),
            since: since.map(|text| period(text).unwrap()),
            output: TableOutput::Table,
        }
    }

    #[test]
    fn repeated_offenders_are_named_and_come_first() {
        let all = [history("b1", &[9]), history("b7", &[9, 8, 3, 1])];
        let now = Timestamp::from_second(10 * 86_400).unwrap();
        let shown = report(&all, &args(None, None), now);
        assert_eq!(shown.hosts[0].host, "b7");
        let text = shown.to_string();
        assert!(
            text.contains("node-b7 (rack-a/b7): 4 remediations in 9 days"),
            "{text}"
        );
        assert!(!text.contains("node-b1 (rack-a"), "{text}");
        assert_eq!(text.matches("75 s").count(), 5, "{text}");
        let recent = report(&all, &args(None, Some("36h")), now);
        let listed: Vec<usize> = recent.hosts.iter().map(|h| h.remediations.len()).collect();
        assert_eq!(listed, [1, 1]);
        assert_eq!(recent.hosts[0].repeated, None);
    }

    #[test]
    fn shared_cause_is_shown_with_its_arithmetic_and_until_when_it_held() {
        let mut all = [history("b1", &[9])];
        let first = &mut all[0].status.as_mut().unwrap().remediations[0];
        first.shared_cause = serde_json::from_value(json!({
            "domain": "Rack", "name": "rack-a", "likely": "Network",
            "message": "7 of 8 hosts of rack rack-a failed within 40s",
            "heldBy": "together", "heldSince": "1970-01-10T00:00:01Z",
            "heldUntil": "1970-01-10T00:15:01Z",
        }))
        .unwrap();
        let now = Timestamp::from_second(10 * 86_400).unwrap();
        let text = report(&all, &args(None, None), now).to_string();
        assert!(
            text.contains(
                "rack-a/b1 1970-01-10 00:00:00Z: 7 of 8 hosts of rack rack-a failed within 40s; held by \
                 PowerPolicy together until 1970-01-10T00:15:01Z at most"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_host_is_found_by_each_of_its_names() {
        let all = [history("b1", &[9]), history("b7", &[9])];
        let now = Timestamp::from_second(10 * 86_400).unwrap();
        for name in ["b7", "rack-a/b7", "rack-a.b7", "node-b7"] {
            let found = report(&all, &args(Some(name), None), now);
            assert_eq!(found.hosts.len(), 1, "{name}");
            assert_eq!(found.hosts[0].host, "b7");
        }
        assert!(report(&all, &args(Some("b2"), None), now).hosts.is_empty());
        let none = report(&[], &args(None, None), now).to_string();
        assert_eq!(none, "\nThere are no recorded remediations.\n");
    }

    #[test]
    fn a_period_has_one_of_four_units() {
        assert_eq!(period("7d").unwrap(), SignedDuration::from_hours(168));
        assert_eq!(period("90s").unwrap(), SignedDuration::from_secs(90));
        for wrong in [
            "",
            "d",
            "7",
            "-1d",
            "1w",
            "1.5h",
            "7dä",
            "99999999999999999999d",
        ] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }
}
