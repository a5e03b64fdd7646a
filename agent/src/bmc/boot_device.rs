//! `boot-device show` and `boot-device set`.

use std::process::ExitCode;

use rackhand_proto::v1::{
    self, read_boot_response::Result as Read, set_boot_response::Result as Set,
};
use serde::Serialize;

use super::call::{ChangeRow, Client, NamedChange, answer, dry_run, limit, request, show, target};
use crate::{
    cli::{BootAction, BootArgs, BootDevice, BootSetArgs, ReadArgs},
    client::lease::Lease,
    host::fan_out::{self, HostResult, confirm},
    output::{
        TableRow, brief,
        exit_code::{ExitStatus, Fault},
        print,
    },
    power::{connect, known, meant},
};

/// Boot device of one host.
#[derive(Debug, Serialize)]
struct Row {
    host: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    device: &'static str,
    /// once or persistent; empty without an override.
    #[serde(skip_serializing_if = "str::is_empty")]
    lasts: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mode: &'static str,
    /// read, failed or unreachable.
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip)]
    end: ExitStatus,
}

impl Row {
    fn of(host: String, boot: Result<v1::BootOverride, Fault>) -> Self {
        match boot {
            Ok(boot) => {
                let device = device_word(boot.device());
                let is_set = boot.device() != v1::BootDevice::None;
                let lasts = if boot.persistent {
                    "persistent"
                } else {
                    "once"
                };
                Self {
                    host,
                    device,
                    lasts: if is_set { lasts } else { "" },
                    mode: match boot.mode() {
                        v1::BootMode::Uefi => "uefi",
                        v1::BootMode::Legacy => "legacy",
                        v1::BootMode::Unspecified => "",
                    },
                    result: "read",
                    error: String::new(),
                    end: ExitStatus::Done,
                }
            }
            Err(fault) => Self {
                host,
                device: "",
                lasts: "",
                mode: "",
                result: fault.end.word(),
                error: fault.message,
                end: fault.end,
            },
        }
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &["HOST", "BOOTS FROM", "LASTS", "MODE", "NOTE"];
    const SHORT: usize = 5;

    fn fields(&self) -> Vec<String> {
        vec![
            self.host.clone(),
            self.device.to_owned(),
            self.lasts.to_owned(),
            self.mode.to_owned(),
            brief(&self.host, &self.error).to_owned(),
        ]
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

pub(crate) async fn boot_device(args: BootArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        BootAction::Show(args) => shown(args).await,
        BootAction::Set(args) => set(args).await,
    }
}

async fn shown(args: ReadArgs) -> anyhow::Result<ExitCode> {
    let read = |mut client: Client, host: String| {
        let asked = v1::ReadBootRequest {
            target: target(&host),
            timeout: limit(args.timeout),
        };
        async move {
            let read = answer(client.read_boot(request(asked, args.timeout)).await);
            let boot = read.and_then(|response| match response.result {
                Some(Read::Boot(boot)) => Ok(boot),
                Some(Read::Failure(failure)) => Err(Fault::of_failure(failure)),
                None => Err(Fault::empty()),
            });
            Row::of(host, boot)
        }
    };
    let (rows, _) = fan_out::read_chosen(&args.hosts, &args.common, read).await?;
    print(&rows, args.common.output)?;
    Ok(fan_out::finish(&rows, args.common.output, "read"))
}

async fn set(args: BootSetArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(&args.confirmed.change.common).await?;
    let known = known(&mut client).await?;
    let hosts = meant(&args.hosts, &known)?;
    let boot = wanted(&args);
    let what = format!(
        "set the boot device {}{} of",
        device_word(boot.device()),
        if args.persistent { ", for good," } else { "" }
    );
    if args.confirmed.change.dry_run {
        return Ok(dry_run(&what, &hosts, &known));
    }
    if hosts.len() > 1 && !args.confirmed.yes {
        confirm(&what, &hosts)?;
    }
    let lease = Lease::take(client.clone());
    let change = |host| one(NamedChange::new(client.clone(), host, &lease), boot, &args);
    let rows = fan_out::change(hosts, change).await;
    show(&rows, args.confirmed.change.common.output, "set")
}

async fn one(named: NamedChange, boot: v1::BootOverride, args: &BootSetArgs) -> ChangeRow {
    let timeout = args.confirmed.change.timeout;
    let set = |mut client: Client, call| {
        let asked = v1::SetBootRequest {
            target: target(&named.host),
            timeout: limit(timeout),
            boot: Some(boot),
            force: args.confirmed.change.common.force,
            call,
        };
        async move { client.set_boot(request(asked, timeout)).await }
    };
    let changed = named
        .ask(set)
        .await
        .and_then(|response| match response.result {
            Some(Set::Changed(changed)) => Ok(changed),
            Some(Set::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
    ChangeRow::of(named.host, "set", changed)
}

fn wanted(args: &BootSetArgs) -> v1::BootOverride {
    let device = match args.device {
        Some(BootDevice::None) | None => v1::BootDevice::None,
        Some(BootDevice::Pxe) => v1::BootDevice::Pxe,
        Some(BootDevice::Http) => v1::BootDevice::UefiHttp,
        Some(BootDevice::Disk) => v1::BootDevice::Disk,
        Some(BootDevice::Cd) => v1::BootDevice::Cd,
        Some(BootDevice::Usb) => v1::BootDevice::Usb,
        Some(BootDevice::Bios) => v1::BootDevice::BiosSetup,
        Some(BootDevice::Diag) => v1::BootDevice::Diagnostics,
    };
    let mode = match (args.uefi, args.legacy) {
        (true, _) => v1::BootMode::Uefi,
        (_, true) => v1::BootMode::Legacy,
        _ => v1::BootMode::Unspecified,
    };
    v1::BootOverride {
        device: device.into(),
        persistent: args.persistent,
        mode: mode.into(),
    }
}

/// Spelling as an argument of `boot-device set`.
pub(crate) fn device_word(device: v1::BootDevice) -> &'static str {
    match device {
        v1::BootDevice::None | v1::BootDevice::Unspecified => "none",
        v1::BootDevice::Pxe => "pxe",
        v1::BootDevice::UefiHttp => "http",
        v1::BootDevice::Disk => "disk",
        v1::BootDevice::Cd => "cd",
        v1::BootDevice::Usb => "usb",
        v1::BootDevice::BiosSetup => "bios",
        v1::BootDevice::Diagnostics => "diag",
    }
}
