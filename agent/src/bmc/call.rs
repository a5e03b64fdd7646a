//! Common parts of the commands other than `power`: requests with a time limit, rows of changed hosts,
//! `--dry-run`.

use std::{process::ExitCode, sync::Arc, time::Duration};

use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, power_client::PowerClient},
};
use serde::Serialize;
use tonic::{Request, Response, Status, transport::Channel};

use crate::{
    cli::{ConfirmedChangeArgs, Output},
    client::{lease::Lease, until_answered::Repeated},
    host::{
        fan_out::{self, HostResult, Rows, confirm},
        selection::is_called,
    },
    output::{
        TableRow, brief,
        exit_code::{ExitStatus, Fault},
        print,
    },
    power::{connect, known, meant},
};

/// Time that the agent may take beyond the time limit of the BMC.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) type Client = PowerClient<Channel>;

/// A request with its time limit.
pub(crate) fn request<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout.saturating_add(GRACE));
    request
}

pub(crate) fn target(host: &str) -> Option<v1::Target> {
    Some(v1::Target {
        host: host.to_owned(),
        endpoint: None,
    })
}

pub(crate) fn limit(timeout: Duration) -> Option<prost_types::Duration> {
    Some(duration_to_proto(timeout))
}

/// A change of one host: its id, and the lease of this process.
#[derive(Debug, Clone)]
pub(crate) struct NamedChange {
    pub(crate) client: Client,
    pub(crate) host: String,
    id: String,
    lease: Arc<Lease>,
}

impl NamedChange {
    /// A change with a new id.
    pub(crate) fn new(client: Client, host: String, lease: &Arc<Lease>) -> Self {
        Self {
            client,
            host,
            id: format!("cli-{}", uuid::Uuid::new_v4()),
            lease: lease.clone(),
        }
    }

    /// Repeats the request until the agent answers. The change is made once.
    ///
    /// # Errors
    ///
    /// Those of [`Repeated::ask`].
    pub(crate) async fn ask<T, F>(
        &self,
        call: impl Fn(Client, Option<v1::ChangeCall>) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let repeated = Repeated {
            id: &self.id,
            lease: Some(&self.lease),
            // Before there were leases, changes had no ids.
            is_known_to_all: false,
        };
        let named = |caller| {
            let named = v1::ChangeCall {
                operation_id: self.id.clone(),
                caller,
            };
            call(self.client.clone(), Some(named))
        };
        repeated.ask(named).await
    }
}

/// The response of a call, or the fault.
pub(crate) fn answer<T>(answer: Result<Response<T>, Status>) -> Result<T, Fault> {
    match answer {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(Fault::of_status(&status)),
    }
}

/// Result row of a changed host.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeRow {
    host: String,
    result: &'static str,
    message: String,
    #[serde(skip)]
    end: ExitStatus,
}

impl ChangeRow {
    pub(crate) fn of(
        host: String,
        done: &'static str,
        changed: Result<v1::Changed, Fault>,
    ) -> Self {
        match changed {
            Ok(changed) => Self {
                host,
                result: done,
                message: format!("{}: BMC answered {}", changed.command, changed.answer),
                end: ExitStatus::Done,
            },
            Err(fault) => Self {
                host,
                result: fault.end.word(),
                message: fault.message,
                end: fault.end,
            },
        }
    }
}

impl TableRow for ChangeRow {
    const HEAD: &'static [&'static str] = &["HOST", "RESULT", "MESSAGE"];
    const SHORT: usize = 3;

    fn fields(&self) -> Vec<String> {
        vec![
            self.host.clone(),
            self.result.to_owned(),
            brief(&self.host, &self.message).to_owned(),
        ]
    }

    fn name(&self) -> &str {
        &self.host
    }
}

impl HostResult for ChangeRow {
    fn result(&self) -> &str {
        self.result
    }

    fn end(&self) -> ExitStatus {
        self.end
    }
}

/// Prints the changes and a summary.
pub(crate) fn show(rows: &Rows<ChangeRow>, output: Output, done: &str) -> anyhow::Result<ExitCode> {
    print(rows, output)?;
    Ok(fan_out::finish(rows, output, done))
}

/// Changes hosts after a confirmation, and prints the results. `what` is for the question, such as "clear the
/// event log of", and `done` for the summary.
///
/// # Errors
/// The agent cannot be reached, a host is not known, or the confirmation was declined.
pub(crate) async fn change_confirmed<F: Future<Output = ChangeRow>>(
    what: &str,
    done: &str,
    hosts: &[String],
    confirmed: &ConfirmedChangeArgs,
    change: impl Fn(NamedChange) -> F,
) -> anyhow::Result<ExitCode> {
    let mut client = connect(&confirmed.change.common).await?;
    let known = known(&mut client).await?;
    let hosts = meant(hosts, &known)?;
    if confirmed.change.dry_run {
        return Ok(dry_run(what, &hosts, &known));
    }
    if !confirmed.yes {
        confirm(what, &hosts)?;
    }
    let lease = Lease::take(client.clone());
    let change = |host| change(NamedChange::new(client.clone(), host, &lease));
    let rows = fan_out::change(hosts, change).await;
    show(&rows, confirmed.change.common.output, done)
}

/// Prints what would be done to which hosts, and their holds. It fails for a host that the agent does not have, as
/// the command itself would.
pub(crate) fn dry_run(what: &str, hosts: &[String], known: &v1::ListHostsResponse) -> ExitCode {
    let ends = hosts.iter().map(|host| {
        let Some(found) = known.hosts.iter().find(|known| is_called(known, host)) else {
            errln!(
                "host {host} is not in the inventory of rack {}; `host list` shows its hosts",
                known.rack
            );
            return ExitStatus::Failed;
        };
        let holder = match found.held_by.as_str() {
            "" => String::new(),
            holder => format!(" (held off by {holder})"),
        };
        outln!("would {what} {host}{holder}");
        ExitStatus::Done
    });
    ExitStatus::of(ends).code()
}

/// Name of a severity; `silent` if the BMC reports none.
pub(crate) fn severity_word(severity: v1::Severity, silent: &'static str) -> &'static str {
    match severity {
        v1::Severity::Ok => "ok",
        v1::Severity::Warning => "warning",
        v1::Severity::Critical => "critical",
        v1::Severity::Unspecified => silent,
    }
}
