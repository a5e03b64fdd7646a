//! `power status`.

use std::{process::ExitCode, time::Duration};

use futures::{StreamExt, stream};
use rackhand_proto::{
    classify,
    convert::{duration_to_proto, timestamp_from_proto},
    v1::{self, power_client::PowerClient, read_power_response::Result as Read},
};
use serde::Serialize;
use tonic::{Request, transport::Channel};

use super::{AT_ONCE, connect, output::state_word, table, unique};
use crate::cli::{Output, StatusArgs};

/// One host, as `-o json` shows it.
#[derive(Debug, Default, Serialize)]
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
}

pub(super) async fn status(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(&args.common).await?;
    let mut request = Request::new(v1::ListHostsRequest {});
    request.set_timeout(Duration::from_secs(30));
    let known = client
        .list_hosts(request)
        .await
        .map_err(|status| classify(&status))?;
    let known = known.into_inner().hosts;
    let names = if args.all {
        known.iter().map(|host| host.name.clone()).collect()
    } else {
        unique(args.hosts)
    };
    let rows: Vec<Row> = stream::iter(names)
        .map(|name| read(client.clone(), name, args.timeout))
        .buffered(AT_ONCE)
        .map(|row| with_hold(row, &known))
        .collect()
        .await;
    let failed = rows.iter().any(|row| row.error.is_some());
    match args.common.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Output::Table => print(&rows),
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn print(rows: &[Row]) {
    let lines = rows.iter().map(|row| {
        let note = row.error.as_ref().unwrap_or(&row.model);
        vec![
            row.host.clone(),
            row.power.to_owned(),
            row.held_by.clone(),
            row.bmc.clone(),
            note.clone(),
        ]
    });
    print!(
        "{}",
        table(
            &["HOST", "POWER", "HELD BY", "BMC", "NOTE"],
            lines.collect()
        )
    );
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
    let failed = |error: String| Row {
        host: host.clone(),
        power: "unknown",
        error: Some(error),
        ..Row::default()
    };
    match client
        .read_power(request)
        .await
        .map(|response| response.into_inner().result)
    {
        Err(status) => failed(classify(&status).to_string()),
        Ok(None) => failed("the agent gave no answer".to_owned()),
        Ok(Some(Read::Failure(failure))) => failed(failure.message),
        Ok(Some(Read::Reading(reading))) => {
            let power = state_word(reading.state());
            let identity = reading.identity.unwrap_or_default();
            Row {
                power,
                raw: reading.raw,
                bmc: reading.bmc,
                system_uuid: identity.system_uuid,
                serial: identity.serial,
                model: format!("{} {}", identity.vendor, identity.model)
                    .trim()
                    .to_owned(),
                at: reading
                    .at
                    .and_then(|at| timestamp_from_proto(&at).ok())
                    .map(|at| at.to_string()),
                host,
                ..Row::default()
            }
        }
    }
}

fn with_hold(mut row: Row, known: &[v1::Host]) -> Row {
    let is_it = |host: &&v1::Host| {
        [&host.name, &host.node_name, &host.provider_id].contains(&&row.host)
            || host.system_uuid.eq_ignore_ascii_case(&row.host)
    };
    if let Some(host) = known.iter().find(is_it) {
        row.held_by.clone_from(&host.held_by);
        if row.bmc.is_empty() {
            row.bmc.clone_from(&host.bmc);
        }
    }
    row
}
