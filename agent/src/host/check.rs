//! `host check`: diagnosis of the power control of hosts.

use std::process::ExitCode;

use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, power_client::PowerClient},
};
use rackhand_transport::classify;
use serde::Serialize;
use tonic::{Request, transport::Channel};

use super::fan_out::{self, HostResult};
use crate::{
    cli::{HostCheckArgs, Output},
    output::{
        TableRow,
        exit_code::{ExitStatus, Fault},
        print, table,
    },
};

/// Result of one check.
#[derive(Debug, Serialize)]
struct Check {
    check: String,
    verdict: &'static str,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    bmc: String,
}

#[derive(Debug, Serialize)]
struct Row {
    host: String,
    /// The worst of its checks: ok, warning or failed.
    result: &'static str,
    checks: Vec<Check>,
    #[serde(skip)]
    end: ExitStatus,
}

impl Row {
    fn of(host: String, checks: Vec<v1::Check>) -> Self {
        let has = |verdict| checks.iter().any(|check| check.verdict() == verdict);
        let (result, end) = if has(v1::Verdict::Failed) || checks.is_empty() {
            ("failed", ExitStatus::Failed)
        } else if has(v1::Verdict::Warning) {
            ("warning", ExitStatus::Done)
        } else {
            ("ok", ExitStatus::Done)
        };
        let checks = checks.into_iter().map(|check| Check {
            verdict: word(check.verdict()),
            check: check.check,
            found: check.found,
            next: check.advice,
            bmc: check.bmc,
        });
        Self {
            checks: checks.collect(),
            host,
            result,
            end,
        }
    }

    /// The agent itself returned an error.
    fn unasked(host: String, fault: Fault) -> Self {
        let check = Check {
            check: "agent".to_owned(),
            verdict: "failed",
            found: fault.message,
            next: "`host list` lists the hosts of the agent".to_owned(),
            bmc: String::new(),
        };
        Self {
            host,
            result: "failed",
            checks: vec![check],
            end: fault.end,
        }
    }
}

/// Name of a verdict.
pub(super) fn word(verdict: v1::Verdict) -> &'static str {
    match verdict {
        v1::Verdict::Ok => "ok",
        v1::Verdict::Warning => "warning",
        v1::Verdict::Failed => "failed",
        v1::Verdict::Skipped | v1::Verdict::Unspecified => "skipped",
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &["HOST", "RESULT"];
    const SHORT: usize = 2;

    fn fields(&self) -> Vec<String> {
        vec![self.host.clone(), self.result.to_owned()]
    }

    fn name(&self) -> &str {
        &self.host
    }
}

impl HostResult for Row {
    fn result(&self) -> &str {
        self.result
    }

    fn end(&self) -> ExitStatus {
        self.end
    }
}

pub(crate) async fn check(args: HostCheckArgs) -> anyhow::Result<ExitCode> {
    let read = |client, host| one(client, host, &args);
    let (rows, _) = fan_out::read_chosen(&args.hosts, &args.common, read).await?;
    match args.common.output {
        Output::Table => out!("{}", lines(&rows, false)),
        Output::Wide => out!("{}", lines(&rows, true)),
        output => print(&rows, output)?,
    }
    Ok(fan_out::finish(&rows, args.common.output, "ok"))
}

async fn one(mut client: PowerClient<Channel>, host: String, args: &HostCheckArgs) -> Row {
    let mut request = Request::new(v1::CheckHostRequest {
        target: Some(v1::Target {
            host: host.clone(),
            endpoint: None,
        }),
        timeout: Some(duration_to_proto(args.timeout)),
    });
    request.set_timeout(args.timeout + std::time::Duration::from_secs(5));
    match client.check_host(request).await {
        Ok(response) => Row::of(host, response.into_inner().checks),
        Err(status) => {
            let fault = Fault {
                message: classify(&status).to_string(),
                ..Fault::of_status(&status)
            };
            Row::unasked(host, fault)
        }
    }
}

/// One row per check.
fn lines(rows: &[Row], wide: bool) -> String {
    let mut head = vec!["HOST", "CHECK", "RESULT", "FOUND", "NEXT"];
    if wide {
        head.push("BMC");
    }
    let mut lines = Vec::new();
    for row in rows {
        for check in &row.checks {
            let mut line = vec![
                row.host.clone(),
                check.check.clone(),
                check.verdict.to_owned(),
                check.found.clone(),
                check.next.clone(),
            ];
            if wide {
                line.push(check.bmc.clone());
            }
            lines.push(line);
        }
    }
    table(&head, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_result_is_its_worst_check() {
        let check = |verdict: v1::Verdict| v1::Check {
            verdict: verdict.into(),
            ..v1::Check::default()
        };
        for (verdicts, result, end) in [
            (vec![v1::Verdict::Ok], "ok", ExitStatus::Done),
            (
                vec![v1::Verdict::Ok, v1::Verdict::Warning],
                "warning",
                ExitStatus::Done,
            ),
            (
                vec![v1::Verdict::Failed, v1::Verdict::Skipped],
                "failed",
                ExitStatus::Failed,
            ),
            (vec![], "failed", ExitStatus::Failed),
        ] {
            let checks = verdicts.into_iter().map(check).collect();
            let row = Row::of("n1".to_owned(), checks);
            assert_eq!((row.result, row.end), (result, end));
        }
    }
}
