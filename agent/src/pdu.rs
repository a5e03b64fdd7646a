//! `pdu`: the outlets that feed hosts, through the running agent.

use std::process::ExitCode;

use futures::future::join_all;
use rackhand_proto::v1::{self, read_pdu_response::Result as Read};
use serde::Serialize;
use tonic::Request;

use crate::{
    bmc::call::{Client, answer, limit, request},
    cli::{PduAction, PduArgs, PduListArgs, PduOutletsArgs},
    client::connect_error,
    output::{
        TableRow,
        exit_code::{ExitStatus, Fault},
        print,
    },
    power::{self, CALL_TIMEOUT, PowerRequest, SwitchedDevice, connect},
};

pub(crate) async fn pdu(args: PduArgs) -> anyhow::Result<ExitCode> {
    let outlets = v1::PowerDevice::Outlets;
    match args.action {
        PduAction::List(args) => list(args).await,
        PduAction::Outlets(args) => show_outlets(args).await,
        PduAction::Status(args) => power::status(args, outlets).await,
        PduAction::On(args) => {
            let device = SwitchedDevice::outlets(Vec::new());
            power::switch(args, PowerRequest::On, device).await
        }
        PduAction::Off(args) => {
            let device = SwitchedDevice::outlets(args.siblings.with_siblings);
            power::switch(args.switch, PowerRequest::Off, device).await
        }
        PduAction::Cycle(args) => {
            let to = PowerRequest::Cycle {
                hold_off: args.cycle.hold_off,
            };
            let device = SwitchedDevice::outlets(args.siblings.with_siblings);
            power::switch(args.cycle.switch, to, device).await
        }
    }
}

/// A PDU of the agent.
#[derive(Debug, Serialize)]
struct PduRow {
    pdu: String,
    address: String,
    /// read, failed or unreachable.
    result: &'static str,
    /// Number of its outlets; `None`: it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    outlets: Option<usize>,
    /// Number of outlets that feed a host.
    used: u32,
    hosts: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip)]
    end: ExitStatus,
}

impl TableRow for PduRow {
    const HEAD: &'static [&'static str] = &[
        "PDU", "RESULT", "OUTLETS", "USED", "HOSTS", "NOTE", "ADDRESS", "NAMES",
    ];
    const SHORT: usize = 6;

    fn fields(&self) -> Vec<String> {
        let outlets = self.outlets.map(|outlets| outlets.to_string());
        vec![
            self.pdu.clone(),
            self.result.to_owned(),
            outlets.unwrap_or_else(|| "-".to_owned()),
            self.used.to_string(),
            self.hosts.len().to_string(),
            note(&self.pdu, &self.error),
            self.address.clone(),
            self.hosts.join(","),
        ]
    }

    fn name(&self) -> &str {
        &self.pdu
    }
}

/// The error without the name of its PDU.
fn note(pdu: &str, error: &str) -> String {
    let error = error.strip_prefix(&format!("PDU {pdu}: ")).unwrap_or(error);
    error.to_owned()
}

async fn list(args: PduListArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(&args.common).await?;
    let mut request = Request::new(v1::ListPdusRequest {});
    request.set_timeout(CALL_TIMEOUT);
    let listed = client.list_pdus(request).await;
    let listed = listed.map_err(|status| connect_error::call(&status))?;
    let rows = listed.into_inner().pdus.into_iter().map(|pdu| {
        let client = client.clone();
        async move {
            let read = read(client, pdu.name.clone(), args.timeout).await;
            let (end, outlets, error) = match read {
                Ok(readings) => (ExitStatus::Done, Some(readings.len()), String::new()),
                Err(fault) => (fault.end, None, fault.message),
            };
            PduRow {
                pdu: pdu.name,
                address: pdu.address,
                result: match end {
                    ExitStatus::Done => "read",
                    end => end.word(),
                },
                outlets,
                used: pdu.outlets,
                hosts: pdu.hosts,
                error,
                end,
            }
        }
    });
    let rows = join_all(rows).await;
    print(&rows, args.common.output)?;
    if rows.is_empty() {
        errln!("no PDU of the agent has an address; docs/pdu.md shows the configuration");
    }
    Ok(ExitStatus::of(rows.iter().map(|row| row.end)).code())
}

/// An outlet of a PDU.
#[derive(Debug, Serialize)]
struct OutletRow {
    outlet: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    amperes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watts: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    raw: String,
}

impl OutletRow {
    fn of(reading: v1::OutletReading) -> Self {
        Self {
            state: match reading.state() {
                v1::OutletState::On => "on",
                v1::OutletState::Off => "off",
                v1::OutletState::Switching => "switching",
                v1::OutletState::Unspecified => "unknown",
            },
            outlet: reading.outlet,
            amperes: reading.amperes,
            watts: reading.watts,
            host: reading.host,
            label: reading.label,
            raw: reading.raw,
        }
    }
}

impl TableRow for OutletRow {
    const HEAD: &'static [&'static str] = &[
        "OUTLET", "STATE", "CURRENT", "POWER", "HOST", "LABEL", "RAW",
    ];
    const SHORT: usize = 6;

    fn fields(&self) -> Vec<String> {
        let measured = |value: Option<f64>, unit: &str| {
            let text = value.map(|value| format!("{value:.1} {unit}"));
            text.unwrap_or_else(|| "-".to_owned())
        };
        vec![
            self.outlet.clone(),
            self.state.to_owned(),
            measured(self.amperes, "A"),
            measured(self.watts, "W"),
            self.host.clone(),
            self.label.clone(),
            self.raw.clone(),
        ]
    }

    fn name(&self) -> &str {
        &self.outlet
    }
}

async fn show_outlets(args: PduOutletsArgs) -> anyhow::Result<ExitCode> {
    let client = connect(&args.common).await?;
    match read(client, args.pdu.clone(), args.timeout).await {
        Ok(readings) => {
            let rows: Vec<OutletRow> = readings.into_iter().map(OutletRow::of).collect();
            print(&rows, args.common.output)?;
            Ok(ExitStatus::Done.code())
        }
        Err(fault) => {
            errln!("error: {}", fault.message);
            Ok(fault.end.code())
        }
    }
}

/// Reads every outlet of a PDU.
async fn read(
    mut client: Client,
    pdu: String,
    timeout: std::time::Duration,
) -> Result<Vec<v1::OutletReading>, Fault> {
    let message = v1::ReadPduRequest {
        pdu,
        timeout: limit(timeout),
    };
    let response = answer(client.read_pdu(request(message, timeout)).await)?;
    match response.result {
        None => Err(Fault::empty()),
        Some(Read::Failure(failure)) => Err(Fault::of_failure(failure)),
        Some(Read::Outlets(readings)) => Ok(readings.outlets),
    }
}
