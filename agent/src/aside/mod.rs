//! What else hosts are asked by hand: boot device, identify LED, sensors, event log.
//!
//! Must never: speak to a BMC by itself; the agent does, in its turn.

mod boot;
mod events;
mod identify;
mod sensors;

use std::{process::ExitCode, time::Duration};

use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, power_client::PowerClient},
};
use serde::Serialize;
use tonic::{Request, Response, Status, transport::Channel};

pub(crate) use boot::boot;
pub(crate) use events::events;
pub(crate) use identify::identify;
pub(crate) use sensors::sensors;

use crate::{
    cli::Output,
    each::{self, Ended},
    ending::{End, Fault},
    output::{Shown, brief, print},
    select::is_called,
};

/// What the agent may take beyond the time of the BMC.
const GRACE: Duration = Duration::from_secs(5);

type Client = PowerClient<Channel>;

/// A request with its limit of time.
fn request<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout.saturating_add(GRACE));
    request
}

fn target(host: &str) -> Option<v1::Target> {
    Some(v1::Target {
        host: host.to_owned(),
        endpoint: None,
    })
}

fn limit(timeout: Duration) -> Option<prost_types::Duration> {
    Some(duration_to_proto(timeout))
}

/// The answer of a call, or why there is none.
fn answer<T>(answer: Result<Response<T>, Status>) -> Result<T, Fault> {
    match answer {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(Fault::of_status(&status)),
    }
}

/// One host that was changed.
#[derive(Debug, Serialize)]
struct Change {
    host: String,
    result: &'static str,
    message: String,
    #[serde(skip)]
    end: End,
}

impl Change {
    fn of(host: String, done: &'static str, changed: Result<v1::Changed, Fault>) -> Self {
        match changed {
            Ok(changed) => Self {
                host,
                result: done,
                message: format!("{}: BMC answered {}", changed.command, changed.answer),
                end: End::Done,
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

impl Shown for Change {
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

impl Ended for Change {
    fn result(&self) -> &str {
        self.result
    }

    fn end(&self) -> End {
        self.end
    }
}

/// Shows what was changed, and sums it up.
fn show(rows: &[Change], output: Output, done: &str) -> anyhow::Result<ExitCode> {
    print(rows, output)?;
    Ok(each::finish(rows, output, done))
}

/// Says what would be done, to whom, and who holds them.
fn dry_run(what: &str, hosts: &[String], known: &[v1::Host]) -> ExitCode {
    for host in hosts {
        let found = known.iter().find(|known| is_called(known, host));
        let holder = found.map(|found| found.held_by.as_str());
        let holder = holder.filter(|holder| !holder.is_empty());
        let holder = holder.map(|holder| format!(" (held off by {holder})"));
        outln!("would {what} {host}{}", holder.unwrap_or_default());
    }
    ExitCode::SUCCESS
}

/// A severity of the BMC in one word; `silent` where it does not say.
fn severity_word(severity: v1::Severity, silent: &'static str) -> &'static str {
    match severity {
        v1::Severity::Ok => "ok",
        v1::Severity::Warning => "warning",
        v1::Severity::Critical => "critical",
        v1::Severity::Unspecified => silent,
    }
}
