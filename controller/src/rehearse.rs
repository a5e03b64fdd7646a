//! `rackhand-controller rehearse` and `record`.

use std::{
    fmt::{self, Display, Formatter},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use rackhand_runtime::{
    AssumedUpdate, RehearsalInput, RehearsalReport, Rehearsed, RehearsedRemediation,
};

use crate::{
    args::seconds,
    explain::{self, args::TableOutput},
    kubectl::table,
};

/// Inputs and options of a rehearsal.
#[derive(Debug, Clone, Args)]
pub(crate) struct Rehearse {
    /// File with MachineHealthChecks of Cluster API or OpenShift, the Clusters, NodeHealthChecks of medik8s,
    /// PowerPolicies, and HostHistories from before the recording; may be repeated.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// File with the history: a recording of `record`, an audit log of an API server, the answer of Prometheus to
    /// a range query of kube_node_status_condition, or a failure trace in CSV (node,down,up); may be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    history: Vec<PathBuf>,

    /// File for a second rehearsal that uses it instead of the --file files, to compare the two; may be repeated.
    #[arg(long, value_name = "FILE")]
    compare_with: Vec<PathBuf>,

    /// How long each remediation is assumed to take. After it the Node counts as Ready until the history shows
    /// another change of it.
    #[arg(long, default_value = "5m", value_parser = seconds)]
    remediation_takes: Duration,

    /// Assumes that firmware of the host of a Node is updated at a time, such as
    /// worker-3=2026-03-01T10:00:00Z/40m, or without an end: worker-3=2026-03-01T10:00:00Z. A history contains no
    /// updates; may be repeated.
    #[arg(long, value_name = "NODE=FROM[/TIME]", value_parser = assumed_update)]
    assume_update: Vec<AssumedUpdate>,

    /// How it is shown.
    #[arg(short, long, value_enum, default_value = "table")]
    output: TableOutput,
}

fn assumed_update(text: &str) -> Result<AssumedUpdate, String> {
    let (node, time) = text
        .split_once('=')
        .filter(|(node, _)| !node.is_empty())
        .ok_or("expected NODE=FROM or NODE=FROM/TIME")?;
    let (from, takes) = match time.split_once('/') {
        Some((from, takes)) => (from, Some(seconds(takes)?)),
        None => (time, None),
    };
    let from: Timestamp = from.parse().map_err(|error| format!("{from}: {error}"))?;
    let to = takes.map(|takes| from.checked_add(takes));
    Ok(AssumedUpdate {
        node: node.to_owned(),
        from,
        to: to.transpose().map_err(|error| error.to_string())?,
    })
}

/// What is recorded.
#[derive(Debug, Clone, Args)]
pub(crate) struct Record {
    /// Kubeconfig of the workload cluster whose Nodes are recorded; without it the Nodes of the cluster of
    /// --kubeconfig.
    #[arg(long, value_name = "FILE")]
    workload_kubeconfig: Option<PathBuf>,

    /// How long to record; by default until interrupted.
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    time: Option<Duration>,

    /// The file to append to; without it the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Rehearses and prints.
///
/// # Errors
/// A file cannot be read or parsed.
pub(crate) fn run(asked: &Rehearse) -> anyhow::Result<()> {
    let rehearsed = rackhand_runtime::rehearse(&RehearsalInput {
        files: read_all(&asked.files)?,
        compared: read_all(&asked.compare_with)?,
        history: read_all(&asked.history)?,
        takes: asked.remediation_takes,
        updates: asked.assume_update.clone(),
    })?;
    let text = match asked.output {
        TableOutput::Table => Table(&rehearsed).to_string(),
        TableOutput::Json => format!("{}\n", serde_json::to_string_pretty(&rehearsed)?),
        TableOutput::Yaml => serde_saphyr::to_string(&rehearsed)?,
    };
    out!("{text}");
    Ok(())
}

/// Records.
///
/// # Errors
/// The cluster cannot be reached, or the file cannot be written.
pub(crate) async fn record(asked: Record, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let mut output: Box<dyn Write + Send> = match &asked.output {
        None => Box::new(std::io::stdout()),
        Some(path) => {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path);
            Box::new(file.with_context(|| format!("cannot write {}", path.display()))?)
        }
    };
    let workload = asked.workload_kubeconfig.as_deref();
    let recording = rackhand_runtime::record(kubeconfig, workload, asked.time, &mut *output);
    let lines = tokio::select! {
        lines = recording => lines?,
        interrupted = tokio::signal::ctrl_c() => return interrupted.context("waiting for a signal"),
    };
    errln!("recorded {lines} changes");
    Ok(())
}

fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    let read = |path: &PathBuf| Ok((path.display().to_string(), explain::read(path)?));
    paths.iter().map(read).collect()
}

struct Table<'a>(&'a Rehearsed);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = &self.0.report;
        writeln!(f, "History from {:.0} to {:.0}", report.start, report.end)?;
        remediations(f, &report.remediations)?;
        if !report.limits.is_empty() {
            let rows = report.limits.iter().map(|span| {
                let to = span.to.unwrap_or(report.end);
                [
                    format!("{:.0}", span.from),
                    took(to.duration_since(span.from)),
                    span.check.clone(),
                    span.message.clone(),
                ]
            });
            let rows: Vec<_> = rows.collect();
            table::table(f, "limits", ["LIMIT SINCE", "FOR", "CHECK", "WHY"], &rows)?;
        }
        shared_causes(f, report)?;
        totals(f, report)?;
        if let Some(other) = &self.0.compared {
            let rows = self.0.differences.iter().map(|difference| {
                [
                    difference.machine.clone(),
                    short(difference.first.as_ref()),
                    short(difference.second.as_ref()),
                ]
            });
            let rows: Vec<_> = rows.collect();
            let head = ["MACHINE", "WITH --file", "WITH --compare-with"];
            table::table(f, "differences", head, &rows)?;
            shared_causes(f, other)?;
            totals(f, other)?;
        }
        for note in &self.0.notes {
            writeln!(f, "Note: {note}")?;
        }
        Ok(())
    }
}

fn remediations(f: &mut Formatter<'_>, all: &[RehearsedRemediation]) -> fmt::Result {
    let rows = all.iter().map(|r| {
        let waited = r.begun.map(|begun| took(begun.duration_since(r.requested)));
        let last_hold = r.held.last().map(|held| match held.policy.as_str() {
            "" => held.message.clone(),
            policy => format!("PowerPolicy {policy}: {}", held.message),
        });
        [
            format!("{:.0}", r.requested),
            r.machine.clone(),
            r.node.clone().unwrap_or_default(),
            waited.unwrap_or_else(|| "-".to_owned()),
            r.outcome.to_string(),
            last_hold.unwrap_or_else(|| r.causes.join("; ")),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let head = [
        "REQUESTED",
        "MACHINE",
        "NODE",
        "OFF AFTER",
        "OUTCOME",
        "HELD BY, OR CAUSE",
    ];
    table::table(f, "remediations", head, &rows)
}

fn shared_causes(f: &mut Formatter<'_>, report: &RehearsalReport) -> fmt::Result {
    if report.shared_causes.is_empty() {
        return Ok(());
    }
    let rows = report.shared_causes.iter().map(|span| {
        let to = span.to.unwrap_or(report.end);
        [
            format!("{:.0}", span.from),
            took(to.duration_since(span.from)),
            span.policy.clone(),
            span.held.to_string(),
            span.message.clone(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let head = ["SHARED CAUSE SINCE", "FOR", "POLICY", "HELD", "WHY"];
    table::table(f, "shared causes", head, &rows)
}

fn totals(f: &mut Formatter<'_>, report: &RehearsalReport) -> fmt::Result {
    let totals = report.totals;
    writeln!(
        f,
        "\n{} requested, {} switched off, {} ended without that, {} waiting; at most {} at one time; \
         longest wait {}",
        totals.requested,
        totals.begun,
        totals.not_begun,
        totals.waiting,
        totals.most_concurrent,
        took(SignedDuration::from_secs(totals.longest_wait_seconds)),
    )?;
    match totals.held_by_shared_causes {
        0 => Ok(()),
        held => writeln!(f, "{held} held for a shared cause"),
    }
}

/// A remediation in a few words.
fn short(remediation: Option<&RehearsedRemediation>) -> String {
    match remediation {
        None => "none".to_owned(),
        Some(r) => {
            let mut text = match r.begun {
                Some(begun) => format!("off at {begun:.0}, {}", r.outcome),
                None => format!("requested at {:.0}, {}", r.requested, r.outcome),
            };
            for cause in r.shared_causes() {
                text += &format!(", held for {cause}");
            }
            text
        }
    }
}

fn took(time: SignedDuration) -> String {
    rackhand_runtime::time_span(Duration::try_from(time).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumed_update_has_a_node_a_begin_and_perhaps_a_time() {
        let from: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let of = |to| AssumedUpdate {
            node: "n1".to_owned(),
            from,
            to,
        };
        let ends = from + SignedDuration::from_mins(40);
        assert_eq!(
            assumed_update("n1=2026-03-01T10:00:00Z/40m"),
            Ok(of(Some(ends)))
        );
        assert_eq!(assumed_update("n1=2026-03-01T10:00:00Z"), Ok(of(None)));
        for wrong in [
            "n1",
            "=2026-03-01T10:00:00Z",
            "n1=now",
            "n1=2026-03-01T10:00:00Z/x",
        ] {
            assert!(assumed_update(wrong).is_err(), "{wrong}");
        }
    }
}
