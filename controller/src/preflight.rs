//! `rackhand-controller preflight`: checks a cluster and its racks, and prints the result.

use std::{
    fmt::{self, Display, Formatter},
    path::PathBuf,
};

use clap::Args;
use rackhand_runtime::{PreflightReport, PreflightStatus, preflight};

use crate::{
    explain::{CommandLine, args::TableOutput},
    kubectl::{self, table},
};

/// From where agents are contacted, and how the result is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct Preflight {
    /// Directory with tls.crt, tls.key and ca.crt of a controller or an operator, with which agents are
    /// contacted from here. Without it, /etc/rackhand/tls if that exists.
    #[arg(long = "agent-tls-dir", value_name = "DIR")]
    tls_dir: Option<PathBuf>,

    /// Show only what is not in order.
    #[arg(long)]
    problems: bool,

    /// How it is shown.
    #[arg(short, long, value_enum, default_value = "table")]
    output: TableOutput,
}

/// Checks and prints.
///
/// # Errors
/// The cluster cannot be reached, or a check has failed.
pub(crate) async fn run(asked: Preflight, line: CommandLine<'_>) -> anyhow::Result<()> {
    kubectl::ensure_reachable(line.args.kubeconfig()).await?;
    let (mut config, _) = line.of_cluster().await;
    if let Some(dir) = asked.tls_dir {
        config.agent_tls_dir = dir;
    }
    let mut report = Box::pin(preflight(&config)).await?;
    let counts = Counts::of(&report);
    if asked.problems {
        let is_problem =
            |status| matches!(status, PreflightStatus::Failed | PreflightStatus::Warning);
        report.rows.retain(|row| is_problem(row.status));
    }
    let text = match asked.output {
        TableOutput::Table => Table(&report, counts).to_string(),
        TableOutput::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        TableOutput::Yaml => serde_saphyr::to_string(&report)?,
    };
    out!("{}", text.trim_start());
    let failed = counts.0[2];
    anyhow::ensure!(failed == 0, "{failed} checks failed");
    Ok(())
}

/// Numbers of rows that are ok, warnings, failed and skipped.
#[derive(Debug, Clone, Copy)]
struct Counts([usize; 4]);

impl Counts {
    fn of(report: &PreflightReport) -> Self {
        let statuses = [
            PreflightStatus::Ok,
            PreflightStatus::Warning,
            PreflightStatus::Failed,
            PreflightStatus::Skipped,
        ];
        Self(statuses.map(|status| report.count(status)))
    }
}

struct Table<'a>(&'a PreflightReport, Counts);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows = self.0.rows.iter().map(|row| {
            [
                row.check.to_owned(),
                row.target.clone(),
                row.status.label().to_owned(),
                row.message.clone(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        table::table(
            f,
            "problems",
            ["CHECK", "TARGET", "STATUS", "MESSAGE"],
            &rows,
        )?;
        let advice = self.0.rows.iter().filter(|row| !row.remedy.is_empty());
        for (number, row) in advice.enumerate() {
            if number == 0 {
                writeln!(f, "\nWhat to do:")?;
            }
            writeln!(f, "  {} {}: {}", row.check, row.target, row.remedy)?;
        }
        let Counts([ok, warnings, failed, skipped]) = self.1;
        writeln!(
            f,
            "\n{ok} ok, {warnings} warnings, {failed} failed, {skipped} skipped"
        )
    }
}

#[cfg(test)]
mod tests {
    use rackhand_core::preflight::{Facts, evaluate};

    use super::*;

    #[test]
    fn the_table_lists_what_to_do_and_counts() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let report = evaluate(&Facts::default(), now);
        let text = Table(&report, Counts::of(&report)).to_string();
        for part in [
            "CHECK",
            "there is no RackAgent: no host can be switched",
            "What to do:\n",
            "  agents all: install an agent in each rack",
            "1 failed",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let none = PreflightReport {
            now,
            rows: Vec::new(),
        };
        let text = Table(&none, Counts::of(&report)).to_string();
        assert!(
            text.contains("There are no problems.") && text.contains("1 failed"),
            "{text}"
        );
    }
}
