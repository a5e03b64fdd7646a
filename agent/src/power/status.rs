//! `power status`.

use std::{process::ExitCode, time::Duration};

use rackhand_proto::{
    convert::{duration_to_proto, timestamp_from_proto},
    v1::{self, power_client::PowerClient, read_power_response::Result as Read},
};
use serde::Serialize;
use tonic::{Request, transport::Channel};

use crate::{
    cli::ReadArgs,
    host::{
        fan_out::{self, HostResult},
        selection::is_called,
    },
    output::{
        TableRow, brief,
        exit_code::{ExitStatus, Fault},
        print, state_word,
    },
};

/// Power status of one host.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    host: String,
    pub(crate) power: &'static str,
    /// read, failed or unreachable.
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    raw: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    held_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    bmc: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) system_uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// What the BMC reports, if that is neither on nor off.
    #[serde(skip)]
    unclear: Option<String>,
    #[serde(skip)]
    end: ExitStatus,
}

impl TableRow for Row {
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
            match &self.error {
                Some(error) => {
                    let bmc = format!("BMC {}: ", self.bmc);
                    let error = brief(&self.host, error);
                    error.strip_prefix(&bmc).unwrap_or(error).to_owned()
                }
                None => self.unclear.as_ref().unwrap_or(&self.model).clone(),
            },
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

impl HostResult for Row {
    /// The power state, or the reason why it is unknown.
    fn result(&self) -> &str {
        match self.end {
            ExitStatus::Done => self.power,
            end => end.word(),
        }
    }

    fn end(&self) -> ExitStatus {
        self.end
    }
}

/// Reads the power of hosts from their BMCs or outlets, and prints it.
///
/// # Errors
///
/// The agent cannot be reached, or the hosts are invalid.
pub(crate) async fn status(args: ReadArgs, device: v1::PowerDevice) -> anyhow::Result<ExitCode> {
    let read = |client, name| read(client, name, device, args.timeout);
    let (mut rows, known) = fan_out::read_chosen(&args.hosts, &args.common, read).await?;
    for row in rows.iter_mut() {
        note_hold(row, &known.hosts, device);
    }
    print(&rows, args.common.output)?;
    Ok(fan_out::finish(&rows, args.common.output, "on"))
}

pub(crate) async fn read(
    mut client: PowerClient<Channel>,
    host: String,
    device: v1::PowerDevice,
    timeout: Duration,
) -> Row {
    let mut request = Request::new(v1::ReadPowerRequest {
        target: Some(v1::Target {
            host: host.clone(),
            endpoint: None,
        }),
        timeout: Some(duration_to_proto(timeout)),
        device: device.into(),
    });
    request.set_timeout(timeout + Duration::from_secs(5));
    let mut row = Row {
        host,
        power: "unknown",
        result: "failed",
        raw: String::new(),
        held_by: String::new(),
        bmc: String::new(),
        system_uuid: String::new(),
        serial: String::new(),
        model: String::new(),
        at: None,
        error: None,
        unclear: None,
        end: ExitStatus::Failed,
    };
    let answer = client.read_power(request).await;
    let answer = match answer.map(|response| response.into_inner().result) {
        Err(status) => Err(Fault::of_status(&status)),
        Ok(None) => Err(Fault::empty()),
        Ok(Some(Read::Failure(failure))) => Err(Fault::of_failure(failure)),
        Ok(Some(Read::Reading(reading))) => Ok(reading),
    };
    match answer {
        Err(fault) => {
            row.end = fault.end;
            row.result = fault.end.word();
            row.error = Some(fault.message);
        }
        Ok(reading) => {
            row.end = ExitStatus::Done;
            row.result = "read";
            row.power = state_word(reading.state());
            let is_unclear =
                reading.state() == v1::PowerState::Unknown && device != v1::PowerDevice::Outlets;
            row.unclear = is_unclear.then(|| {
                format!(
                    "the BMC reports {:?}, which is neither on nor off",
                    reading.raw
                )
            });
            let identity = reading.identity.unwrap_or_default();
            row.raw = reading.raw;
            row.bmc = reading.bmc;
            row.system_uuid = identity.system_uuid;
            row.serial = identity.serial;
            row.model = match device {
                // The outlets with their currents are more informative than their names.
                v1::PowerDevice::Outlets => row.raw.clone(),
                _ => format!("{} {}", identity.vendor, identity.model)
                    .trim()
                    .to_owned(),
            };
            let at = reading.at.and_then(|at| timestamp_from_proto(&at).ok());
            row.at = at.map(|at| at.to_string());
        }
    }
    row
}

fn note_hold(row: &mut Row, known: &[v1::Host], device: v1::PowerDevice) {
    if let Some(host) = known.iter().find(|host| is_called(host, &row.host)) {
        row.held_by.clone_from(&host.held_by);
        if row.bmc.is_empty() && device != v1::PowerDevice::Outlets {
            row.bmc.clone_from(&host.bmc);
        }
    }
}
