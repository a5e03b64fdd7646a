//! `power status`.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use futures::{StreamExt, stream};
use rackhand_proto::{
    CallErrorKind, classify,
    convert::{duration_to_proto, timestamp_from_proto},
    v1::{self, power_client::PowerClient, read_power_response::Result as Read},
};
use serde::Serialize;
use tonic::{Request, transport::Channel};

use super::{AT_ONCE, connect, known, meant};
use crate::{
    cli::{Output, StatusArgs},
    ending::End,
    output::{Shown, print, state_word, summary},
    select::is_called,
};

/// One host, as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    host: String,
    pub(crate) power: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    raw: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    held_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    bmc: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    system_uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip)]
    end: End,
}

impl Shown for Row {
    const HEAD: &'static [&'static str] = &[
        "HOST",
        "POWER",
        "HELD BY",
        "BMC",
        "NOTE",
        "RAW",
        "SYSTEM UUID",
        "SERIAL",
        "READ AT",
    ];
    const SHORT: usize = 5;

    fn fields(&self) -> Vec<String> {
        vec![
            self.host.clone(),
            self.power.to_owned(),
            self.held_by.clone(),
            self.bmc.clone(),
            self.error.clone().unwrap_or_else(|| self.model.clone()),
            self.raw.clone(),
            self.system_uuid.clone(),
            self.serial.clone(),
            self.at.clone().unwrap_or_default(),
        ]
    }

    fn name(&self) -> &str {
        &self.host
    }
}

pub(super) async fn status(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(&args.common).await?;
    let known = known(&mut client).await?;
    let names = if args.all {
        known.hosts.iter().map(|host| host.name.clone()).collect()
    } else {
        meant(&args.hosts, &known)?
    };
    let rows: Vec<Row> = stream::iter(names)
        .map(|name| read(client.clone(), name, args.timeout))
        .buffered(AT_ONCE)
        .map(|row| with_hold(row, &known.hosts))
        .collect()
        .await;
    print(&rows, args.common.output)?;
    let is_table = matches!(args.common.output, Output::Table | Output::Wide);
    if rows.len() > 1 && is_table && std::io::stdout().is_terminal() {
        let outcomes: Vec<(&str, &str)> = rows
            .iter()
            .map(|row| (row.power, row.host.as_str()))
            .collect();
        eprintln!("{}", summary(&outcomes, "on"));
    }
    Ok(End::of(rows.iter().map(|row| row.end)).code())
}

pub(crate) async fn read(mut client: PowerClient<Channel>, host: String, timeout: Duration) -> Row {
    let mut request = Request::new(v1::ReadPowerRequest {
        target: Some(v1::Target {
            host: host.clone(),
            endpoint: None,
        }),
        timeout: Some(duration_to_proto(timeout)),
    });
    request.set_timeout(timeout + Duration::from_secs(5));
    let mut row = Row {
        host,
        power: "unknown",
        raw: String::new(),
        held_by: String::new(),
        bmc: String::new(),
        system_uuid: String::new(),
        serial: String::new(),
        model: String::new(),
        at: None,
        error: None,
        end: End::Failed,
    };
    let answer = client.read_power(request).await;
    match answer.map(|response| response.into_inner().result) {
        Err(status) => {
            let error = classify(&status);
            if error.kind == CallErrorKind::Retryable {
                row.end = End::Unreachable;
            }
            row.error = Some(error.to_string());
        }
        Ok(None) => row.error = Some("the agent gave no answer".to_owned()),
        Ok(Some(Read::Failure(failure))) => {
            row.end = end_of(failure.kind());
            row.error = Some(failure.message);
        }
        Ok(Some(Read::Reading(reading))) => {
            row.end = End::Done;
            row.power = state_word(reading.state());
            let identity = reading.identity.unwrap_or_default();
            row.raw = reading.raw;
            row.bmc = reading.bmc;
            row.system_uuid = identity.system_uuid;
            row.serial = identity.serial;
            row.model = format!("{} {}", identity.vendor, identity.model)
                .trim()
                .to_owned();
            let at = reading.at.and_then(|at| timestamp_from_proto(&at).ok());
            row.at = at.map(|at| at.to_string());
        }
    }
    row
}

/// What a failure of the BMC comes to.
pub(super) fn end_of(kind: v1::FailureKind) -> End {
    match kind {
        v1::FailureKind::Unreachable | v1::FailureKind::Timeout => End::Unreachable,
        _ => End::Failed,
    }
}

fn with_hold(mut row: Row, known: &[v1::Host]) -> Row {
    if let Some(host) = known.iter().find(|host| is_called(host, &row.host)) {
        row.held_by.clone_from(&host.held_by);
        if row.bmc.is_empty() {
            row.bmc.clone_from(&host.bmc);
        }
    }
    row
}
