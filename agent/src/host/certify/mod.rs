//! `host certify`: everything that fencing needs of a host, tried on it, and a report of it.
//!
//! ```text
//! plan  the order of the steps        run       carries them out through the agent
//! record  what was done and read      redact    removes what identifies the site
//! verdict  what that shows            report    JSON and Markdown
//! leftover  the state of the host at the end
//! ```
//!
//! Must never: switch a host that somebody else holds, or switch anything without consent.

mod leftover;
mod plan;
mod record;
mod redact;
mod report;
mod run;
mod verdict;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use jiff::Timestamp;
use rackhand_proto::v1;
use tonic::Request;

use super::fan_out::confirm;
use crate::{
    bmc::call::Client,
    cli::{HostCertifyArgs, Output},
    client::{connect_error, lease::Lease},
    output::{
        exit_code::{ExitStatus, Refused, Usage},
        private_files,
    },
    power::{CALL_TIMEOUT, SwitchOptions, SwitchedDevice, connect, known, meant},
    signals::EndSignals,
};
use leftover::leftover;
use record::{Power, Record, Step};
use redact::Redactor;
use report::Report;
use run::Run;
use verdict::Grade;

const WHAT: &str = "switch off and on several times, reset and interrupt";
/// Time limit of the reading after the end, for which a person waits.
const LAST_READ: Duration = Duration::from_secs(10);

pub(super) async fn certify(args: HostCertifyArgs) -> anyhow::Result<ExitCode> {
    if args.common.force {
        let why =
            "`host certify` accepts no --force: a host that a remediation uses is not certified";
        return Err(Usage(why.to_owned()).into());
    }
    let files = args.dir.as_deref().map(files).transpose()?;
    let mut client = connect(&args.common).await?;
    let known = known(&mut client).await?;
    let names = meant(std::slice::from_ref(&args.host), &known)?;
    let [name] = names.as_slice() else {
        return Err(Usage(format!(
            "{:?} is more than one host; certify one at a time",
            args.host
        ))
        .into());
    };
    let Some(host) = known.hosts.iter().find(|host| host.name == *name) else {
        anyhow::bail!(
            "host {name} is not in the inventory of rack {}; `host list` shows its hosts",
            known.rack
        );
    };
    refuse_used(&mut client, host).await?;
    if args.dry_run {
        for step in Step::ALL {
            outln!("would, with host {name}: {}", step.words());
        }
        return Ok(ExitCode::SUCCESS);
    }
    errln!(
        "host {name}: everything that runs on it will be cut off{}",
        node(host)
    );
    if !args.yes {
        confirm(WHAT, std::slice::from_ref(name))?;
    }

    let mut signals = EndSignals::catch().context("cannot catch signals")?;
    let mut record = Record {
        without_nmi: args.without_nmi,
        ..Record::default()
    };
    let mut run = Run {
        host: name.clone(),
        options: SwitchOptions {
            force: false,
            during_firmware_update: false,
            timeout: args.timeout,
            no_wait: false,
            device: SwitchedDevice::bmc(),
            system_uuid: None,
            lease: Some(Lease::take(client.clone())),
        },
        client,
        soft_off_limit: args.soft_off_limit,
        off_for: args.off_for,
        redactor: redactor(&known.rack, host),
        begun: Instant::now(),
        live: std::io::stderr().is_terminal(),
    };
    tokio::select! {
        () = run.carry_out(&mut record) => {}
        signal = signals.next() => {
            record.is_interrupted = true;
            // No further power-off is sent without the lease (F17).
            run.options.lease = None;
            let last = record.steps.last().map_or("read the BMC", |done| done.step.words());
            errln!("{name}: ended by {signal} at: {last}; a command that was sent is not revoked");
        }
    }
    let report = Report::new(&record, Timestamp::now().strftime("%Y-%m-%d").to_string());
    if matches!(record.found(), Some(Power::On | Power::Off)) {
        print(&report, name, args.common.output)?;
        if let Some((markdown, json)) = files {
            write(&markdown, &report.markdown())?;
            write(
                &json,
                &format!("{}\n", serde_json::to_string_pretty(&report)?),
            )?;
            errln!(
                "{name}: the report is in {} and {}",
                markdown.display(),
                json.display()
            );
        }
    }
    let now = run.read_power(LAST_READ).await;
    errln!("{}", leftover(name, &record, &now));
    let end = match (&now, report.overall) {
        (Err(fault), _) => fault.end,
        (Ok(_), Grade::Failed) => ExitStatus::Failed,
        (Ok(_), _) => ExitStatus::Done,
    };
    Ok(end.code())
}

/// Refuses a host that a remediation holds, or on which an operation runs.
async fn refuse_used(client: &mut Client, host: &v1::Host) -> anyhow::Result<()> {
    let name = &host.name;
    if !host.held_by.is_empty() {
        let why = format!(
            "host {name} is held off by {}: certify it once its remediation has ended",
            host.held_by
        );
        return Err(Refused(why).into());
    }
    let mut request = Request::new(v1::ListOperationsRequest {
        host: name.clone(),
        running_only: true,
        ..v1::ListOperationsRequest::default()
    });
    request.set_timeout(CALL_TIMEOUT);
    let listed = client.list_operations(request).await;
    let listed = listed
        .map_err(|status| connect_error::call(&status))?
        .into_inner();
    let Some(running) = listed.operations.first() else {
        return Ok(());
    };
    let why = format!(
        "host {name}: the operation {} ({}) of {} runs on it; certify it once that has ended",
        running.operation_id, running.action, running.by
    );
    Err(Refused(why).into())
}

/// Reminds of the Node, as far as the inventory names it.
fn node(host: &v1::Host) -> String {
    match host.node_name.as_str() {
        "" => "; if a Node runs on it, drain it first".to_owned(),
        node => format!("; drain its Node {node} first, and keep health checks away from it"),
    }
}

/// What identifies the host and its site in texts.
fn redactor(rack: &str, host: &v1::Host) -> Redactor {
    let mut redactor = Redactor::default();
    for address in host.bmc.split(", ") {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let authority = rest.split(['/', '?']).next().unwrap_or(rest);
        redactor.add(authority, "<bmc>");
        let (name, _) = authority.rsplit_once(':').unwrap_or((authority, ""));
        redactor.add(name, "<bmc>");
    }
    for (identifier, placeholder) in [
        (&host.name, "<host>"),
        (&host.node_name, "<node>"),
        (&host.provider_id, "<provider-id>"),
        (&host.system_uuid, "<uuid>"),
        (&host.serial, "<serial>"),
        (&host.position, "<position>"),
        (&host.pdu, "<pdu>"),
        (&host.cluster, "<cluster>"),
    ] {
        redactor.add(identifier, placeholder);
    }
    for outlet in &host.outlets {
        redactor.add(&outlet.pdu, "<pdu>");
    }
    redactor.add(rack, "<rack>");
    redactor
}

/// The files of the report, which must not exist yet.
fn files(dir: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    private_files::dir(dir)?;
    let files = (dir.join("report.md"), dir.join("report.json"));
    for file in [&files.0, &files.1] {
        if file.exists() {
            let why = format!("{} is there already; name another --dir", file.display());
            return Err(Usage(why).into());
        }
    }
    Ok(files)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    private_files::file(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn print(report: &Report<'_>, name: &str, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Table | Output::Wide => out!("{}", report.markdown()),
        Output::Json => outln!("{}", serde_json::to_string_pretty(report)?),
        Output::Yaml => out!("{}", serde_saphyr::to_string(report)?),
        Output::Name => outln!("{name}"),
    }
    Ok(())
}
