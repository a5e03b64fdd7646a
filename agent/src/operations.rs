//! `operations`: the running and past operations of the agent.

use std::process::ExitCode;

use anyhow::bail;
use jiff::Timestamp;
use rackhand_proto::{convert::timestamp_from_proto, v1};
use serde::Serialize;
use tonic::Request;

use crate::{
    cli::{OperationsAction, OperationsArgs, Output},
    client::connect_error,
    output::{TableRow, outcome_word, print, state_word},
    power::{CALL_TIMEOUT, connect},
};

#[derive(Debug, Serialize)]
struct Row {
    operation: String,
    host: String,
    action: String,
    /// `outlets`: the outlets of the host were switched, not its BMC.
    #[serde(skip_serializing_if = "str::is_empty")]
    device: &'static str,
    result: &'static str,
    begun: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    ended: String,
    by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    /// Times at which commands were about to be sent.
    commands: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// Description of a change other than power.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    /// Whether it was requested with force.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    force: bool,
    /// Owner of the hold that it overrode.
    #[serde(skip_serializing_if = "String::is_empty")]
    overrode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cancelled_by: String,
    /// Latest end of the operation.
    #[serde(skip_serializing_if = "String::is_empty")]
    deadline: String,
    /// Whether it also ends with the program that requested it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    attended: bool,
    /// Readings that confirm the outcome.
    readings: Vec<String>,
}

impl Row {
    fn of(info: v1::OperationInfo) -> Self {
        let time = |at: Option<_>| {
            let at = at.and_then(|at| timestamp_from_proto(&at).ok());
            at.map(shown).unwrap_or_default()
        };
        let device = match info.device() {
            v1::PowerDevice::Outlets => "outlets",
            _ => "",
        };
        let outcome = info.outcome;
        let readings = outcome.iter().flat_map(|outcome| &outcome.readings);
        let readings = readings.map(|reading| {
            let at = time(reading.at);
            format!("{} at {at} by {}", state_word(reading.state()), reading.bmc)
        });
        Self {
            result: outcome.as_ref().map_or("running", outcome_word),
            begun: time(info.begun),
            ended: time(info.ended),
            commands: info.commands.into_iter().map(|at| time(Some(at))).collect(),
            readings: readings.collect(),
            message: outcome
                .as_ref()
                .map(|outcome| outcome.message.clone())
                .unwrap_or_default(),
            device,
            detail: info.detail,
            force: info.force,
            overrode: info.overrode,
            cancelled_by: info.cancelled_by,
            deadline: time(info.deadline),
            attended: info.attended,
            operation: info.operation_id,
            host: info.host,
            action: info.action,
            by: info.by,
            owner: info.owner,
        }
    }
}

impl Row {
    /// Its lifetime without an outcome.
    fn shown_lifetime(&self) -> String {
        match (self.deadline.as_str(), self.attended) {
            (deadline, false) => deadline.to_owned(),
            (deadline, true) => format!("{deadline}, or the end of its caller"),
        }
    }

    /// Whether it was forced, and the owner of the overridden hold.
    fn shown_force(&self) -> String {
        match (self.force, self.overrode.as_str()) {
            (false, _) => String::new(),
            (true, "") => "yes".to_owned(),
            (true, owner) => format!("over the hold of {owner}"),
        }
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &[
        "OPERATION",
        "HOST",
        "ACTION",
        "RESULT",
        "BEGUN",
        "BY",
        "ENDED",
        "COMMANDS",
        "OWNER",
        "MESSAGE",
        "FORCE",
        "CANCELLED",
        "LIVES UNTIL",
    ];
    const SHORT: usize = 6;

    fn fields(&self) -> Vec<String> {
        vec![
            self.operation.clone(),
            self.host.clone(),
            match self.device {
                "" => self.action.clone(),
                device => format!("{} ({device})", self.action),
            },
            self.result.to_owned(),
            self.begun.clone(),
            self.by.clone(),
            self.ended.clone(),
            self.commands.len().to_string(),
            self.owner.clone(),
            self.message.clone(),
            self.shown_force(),
            self.cancelled_by.clone(),
            self.shown_lifetime(),
        ]
    }

    fn name(&self) -> &str {
        &self.operation
    }
}

fn shown(at: Timestamp) -> String {
    format!("{at:.0}")
}

pub(crate) async fn operations(args: OperationsArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        OperationsAction::List(args) => {
            let asked = v1::ListOperationsRequest {
                host: args.host.unwrap_or_default(),
                running_only: args.running,
                limit: args.limit,
                ..v1::ListOperationsRequest::default()
            };
            let rows = list(&args.common, asked).await?;
            print(&rows, args.common.output)?;
            if rows.is_empty() && matches!(args.common.output, Output::Table | Output::Wide) {
                errln!("no such operation is known to this agent; `host list` shows its hosts");
            }
        }
        OperationsAction::Show(args) => {
            let row = one(&args.common, &args.operation).await?;
            match args.common.output {
                Output::Table | Output::Wide => show(&row),
                other => print(&[row], other)?,
            }
        }
        OperationsAction::Cancel(args) => {
            let mut client = connect(&args.common).await?;
            let mut request = Request::new(v1::CancelRequest {
                operation_id: args.operation.clone(),
                force: args.common.force,
                term: None,
            });
            request.set_timeout(CALL_TIMEOUT);
            client
                .cancel(request)
                .await
                .map_err(|status| connect_error::call(&status))?;
            let row = one(&args.common, &args.operation).await?;
            if row.result == "running" {
                errln!("it ends before its next command; commands that were sent are not revoked");
            }
            print(&[row], args.common.output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(
    common: &crate::cli::Common,
    asked: v1::ListOperationsRequest,
) -> anyhow::Result<Vec<Row>> {
    let mut request = Request::new(asked);
    request.set_timeout(CALL_TIMEOUT);
    let listed = connect(common).await?.list_operations(request).await;
    let listed = listed
        .map_err(|status| connect_error::call(&status))?
        .into_inner();
    Ok(listed.operations.into_iter().map(Row::of).collect())
}

async fn one(common: &crate::cli::Common, id: &str) -> anyhow::Result<Row> {
    let asked = v1::ListOperationsRequest {
        operation_id: id.to_owned(),
        ..v1::ListOperationsRequest::default()
    };
    match list(common, asked).await?.pop() {
        Some(row) => Ok(row),
        None => bail!(
            "operation {id} is not known to this agent; it was never begun here, or it was long \
             ago. `operations list` shows the others"
        ),
    }
}

/// Prints one operation as a list of fields.
fn show(row: &Row) {
    for (title, field) in Row::HEAD.iter().zip(row.fields()) {
        if *title != "COMMANDS" {
            outln!("{title:<10} {field}");
        }
    }
    let sent = row
        .commands
        .iter()
        .map(|at| format!("command about to leave at {at}"));
    let read = row.readings.iter().map(|reading| format!("read {reading}"));
    sent.chain(read)
        .for_each(|line| outln!("{:<10} {line}", ""));
}
