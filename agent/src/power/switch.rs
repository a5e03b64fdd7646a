//! `power on`, `off`, `cycle`, `reset` and `nmi`.

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, begin_request::Action, power_client::PowerClient},
};
use serde::Serialize;
use tonic::{Request, transport::Channel};

use super::{
    AT_ONCE, connect,
    follow::{OutcomeTimeout, follow},
    known, meant,
};
use crate::{
    bmc::call::dry_run,
    cli::SwitchArgs,
    client::{lease::Lease, until_answered::Repeated},
    host::{
        fan_out::{self, HostResult, confirm},
        selection::is_called,
    },
    output::{TableRow, exit_code::ExitStatus, outcome_word, print, progress::Progress},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerRequest {
    On,
    Off,
    SoftOff { limit: Duration, then_force: bool },
    Cycle { hold_off: Duration },
    Reset,
    Nmi,
}

/// Default time limit of an operation.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(300);
/// Time for BMC and host beyond the requested waits.
const DEADLINE_SLACK: Duration = Duration::from_secs(120);
/// Time limit of one attempt to begin an operation, which involves no BMC.
const CALL: Duration = Duration::from_secs(5);
/// Time after its deadline for which an outcome is awaited.
const OUTCOME_GRACE: Duration = Duration::from_secs(30);

impl PowerRequest {
    fn action(self) -> Action {
        match self {
            Self::On => Action::PowerOn(v1::PowerOn {}),
            Self::Off => Action::PowerOff(v1::PowerOff::default()),
            Self::SoftOff { limit, then_force } => Action::PowerSoftOff(v1::PowerSoftOff {
                limit: Some(duration_to_proto(limit)),
                then_force,
                ..v1::PowerSoftOff::default()
            }),
            Self::Cycle { hold_off } => Action::PowerCycle(v1::PowerCycle {
                hold_off: Some(duration_to_proto(hold_off)),
            }),
            Self::Reset => Action::PowerReset(v1::PowerReset {}),
            Self::Nmi => Action::PowerNmi(v1::PowerNmi {}),
        }
    }

    /// The action in a sentence.
    fn words(self) -> &'static str {
        match self {
            Self::On => "switch on",
            Self::Off => "switch off hard",
            Self::SoftOff { .. } => "shut down",
            Self::Cycle { .. } => "switch off hard and on again",
            Self::Reset => "reset",
            Self::Nmi => "interrupt",
        }
    }

    fn patience(self) -> Duration {
        let wait = match self {
            Self::SoftOff { limit, .. } => limit,
            Self::Cycle { hold_off } => hold_off,
            Self::On | Self::Off | Self::Reset | Self::Nmi => Duration::ZERO,
        };
        DEFAULT_DEADLINE.max(wait.saturating_add(DEADLINE_SLACK))
    }
}

/// What a power operation switches: the BMC of a host, or its outlets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwitchedDevice {
    pub(crate) device: v1::PowerDevice,
    /// Other hosts of the same outlets that may lose their power.
    pub(crate) with_siblings: Vec<String>,
}

impl SwitchedDevice {
    /// The BMCs of the hosts.
    pub(crate) fn bmc() -> Self {
        Self {
            device: v1::PowerDevice::Bmc,
            with_siblings: Vec::new(),
        }
    }

    /// All outlets of the hosts.
    pub(crate) fn outlets(with_siblings: Vec<String>) -> Self {
        Self {
            device: v1::PowerDevice::Outlets,
            with_siblings,
        }
    }
}

/// Options of a power operation.
#[derive(Debug, Clone)]
pub(crate) struct SwitchOptions {
    /// Whether a hold of a remediation is overridden.
    pub(crate) force: bool,
    /// Whether the host is switched although an update of firmware runs.
    pub(crate) during_firmware_update: bool,
    /// Time limit of the operation.
    pub(crate) timeout: Option<Duration>,
    /// Do not wait for the outcome.
    pub(crate) no_wait: bool,
    /// Whether the BMC or the outlets switch the host.
    pub(crate) device: SwitchedDevice,
    /// System UUID that the host must have.
    pub(crate) system_uuid: Option<String>,
    /// The lease that the operation depends on; `None`: it lasts until its deadline.
    pub(crate) lease: Option<Arc<Lease>>,
}

/// Result for one host, as `-o json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    host: String,
    operation: String,
    pub(crate) result: &'static str,
    pub(crate) message: String,
    pub(crate) commands_sent: u32,
    pub(crate) seconds: f64,
    /// The outcome with its evidence, once the agent has reported it.
    #[serde(skip)]
    pub(crate) outcome: Option<v1::Outcome>,
    #[serde(skip)]
    pub(crate) end: ExitStatus,
    /// Whether the agent or the connection to it caused the failure, in which case the request may be repeated.
    #[serde(skip)]
    pub(crate) may_repeat: bool,
}

impl Row {
    /// A row of a host whose operation has not ended.
    fn new(host: String, operation: String) -> Self {
        Self {
            host,
            operation,
            result: "failed",
            message: String::new(),
            commands_sent: 0,
            seconds: 0.0,
            outcome: None,
            end: ExitStatus::Failed,
            may_repeat: false,
        }
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] =
        &["HOST", "RESULT", "TIME", "MESSAGE", "COMMANDS", "OPERATION"];
    const SHORT: usize = 4;

    fn fields(&self) -> Vec<String> {
        vec![
            self.host.clone(),
            self.result.to_owned(),
            format!("{:.1}s", self.seconds),
            self.message.clone(),
            self.commands_sent.to_string(),
            self.operation.clone(),
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

/// Switches hosts by their BMCs or outlets, and prints the outcomes.
///
/// # Errors
///
/// The agent cannot be reached, the hosts are invalid, or the confirmation was declined.
pub(crate) async fn switch(
    args: SwitchArgs,
    to: PowerRequest,
    device: SwitchedDevice,
) -> anyhow::Result<ExitCode> {
    let mut client = connect(&args.common).await?;
    let known = known(&mut client).await?;
    let hosts = meant(&args.hosts, &known)?;
    let held = |host: &String| {
        let found = known.hosts.iter().find(|known| is_called(known, host));
        let holder = found.map(|found| found.held_by.as_str());
        holder.filter(|holder| !holder.is_empty())
    };
    if args.dry_run {
        let what = format!("{}{}", to.words(), of(&device));
        return Ok(dry_run(&what, &hosts, &known));
    }
    if to != PowerRequest::On && hosts.len() > 1 && !args.yes {
        confirm(&format!("{}{}", to.words(), of(&device)), &hosts)?;
    }
    if args.common.force {
        for host in &hosts {
            if let Some(holder) = held(host) {
                errln!("{host}: held off by {holder}, which is overridden");
            }
        }
    }
    let options = SwitchOptions {
        force: args.common.force,
        during_firmware_update: args.during_firmware_update,
        timeout: args.timeout,
        no_wait: args.no_wait,
        device,
        system_uuid: None,
        lease: (!args.no_wait).then(|| Lease::take(client.clone())),
    };
    let progress = Progress::new(hosts.len());
    let live = progress.tells_events();
    let ended = |row: &Row| progress.ended(&row.host, row.result, row.end == ExitStatus::Done);
    let one = |host| one(client.clone(), host, &options, to, live);
    let mut rows = fan_out::each(hosts, AT_ONCE, one, ended).await;
    rows.complete(|host| Row {
        result: "unknown",
        message: "the command was interrupted: read the state with `power status`".to_owned(),
        ..Row::new(host.to_owned(), String::new())
    });
    progress.clear();
    if rows.is_interrupted() {
        let is_attended = options
            .lease
            .as_ref()
            .is_some_and(|lease| lease.is_supported());
        if is_attended {
            errln!(
                "stopped: no more is switched off, and commands that were sent are not revoked; a cycle that has \
                 switched off is finished with a power-on. `power status` shows the state of the hosts"
            );
        } else {
            errln!(
                "not waiting any longer; operations that were begun go on in the agent: `operations list \
                 --running` shows them"
            );
        }
    }
    print(&rows, args.common.output)?;
    Ok(fan_out::finish(&rows, args.common.output, "confirmed"))
}

pub(crate) async fn one(
    mut client: PowerClient<Channel>,
    host: String,
    options: &SwitchOptions,
    to: PowerRequest,
    live: bool,
) -> Row {
    let begun = Instant::now();
    let timeout = options.timeout.unwrap_or_else(|| to.patience());
    let operation = format!("cli-{}", uuid::Uuid::new_v4());
    let mut row = Row::new(host.clone(), operation.clone());
    let request = v1::BeginRequest {
        operation_id: operation.clone(),
        target: Some(v1::Target {
            host: host.clone(),
            endpoint: None,
        }),
        action: Some(to.action()),
        deadline: Some(duration_to_proto(timeout)),
        force: options.force,
        during_firmware_update: options.during_firmware_update,
        device: options.device.device.into(),
        with_siblings: options.device.with_siblings.clone(),
        expect: options
            .system_uuid
            .clone()
            .map(|system_uuid| v1::SystemIdentity {
                system_uuid,
                ..v1::SystemIdentity::default()
            }),
        ..v1::BeginRequest::default()
    };
    let repeated = Repeated {
        id: &operation,
        lease: options.lease.as_deref(),
        is_known_to_all: true,
    };
    let begin = |caller| {
        let mut request = Request::new(v1::BeginRequest {
            caller,
            ..request.clone()
        });
        request.set_timeout(CALL);
        let mut client = client.clone();
        async move { client.begin(request).await }
    };
    match repeated.ask(begin).await {
        Err(fault) => {
            row.may_repeat = fault.end == ExitStatus::Unreachable;
            row.end = fault.end;
            row.result = fault.end.word();
            row.message = fault.message;
        }
        Ok(_) if options.no_wait => {
            row.result = "begun";
            row.message = format!(
                "operation {operation} goes on in the agent, for {} s at the longest",
                timeout.as_secs()
            );
            row.end = ExitStatus::Done;
        }
        Ok(_) => {
            let patience = OutcomeTimeout::new(timeout.saturating_add(OUTCOME_GRACE));
            match follow(
                &mut client,
                &operation,
                (&host, options.device.device),
                patience,
                live,
            )
            .await
            {
                Ok(outcome) => {
                    let is_cut = outcome.code() == v1::OutcomeCode::Interrupted;
                    settle(&mut row, to, outcome);
                    if is_cut && matches!(to, PowerRequest::Cycle { .. }) {
                        let patience = OutcomeTimeout::new(DEFAULT_DEADLINE);
                        let on = format!("{operation}/on/1");
                        let of = (host.as_str(), options.device.device);
                        if let Ok(on) = follow(&mut client, &on, of, patience, live).await {
                            row.message =
                                format!("{}; after its restart: {}", row.message, on.message);
                        }
                    }
                }
                Err(error) => {
                    row.may_repeat = true;
                    row.result = "not-confirmed";
                    row.message = format!(
                        "the outcome is not known: {error}; `operations show {operation}` tells \
                         it once the agent answers"
                    );
                }
            }
        }
    }
    row.seconds = begun.elapsed().as_secs_f64();
    row
}

/// The device in a sentence, such as `switch on the outlets of`.
fn of(device: &SwitchedDevice) -> &'static str {
    match device.device {
        v1::PowerDevice::Outlets => " the outlets of",
        _ => "",
    }
}

/// F1: off is confirmed only by readings after the BMC took a power-off, and by a proof that it knows the state. A
/// cycle needs no proof: nothing relies on the time for which the host was off.
fn is_proven(to: PowerRequest, outcome: &v1::Outcome) -> bool {
    match to {
        PowerRequest::Off | PowerRequest::SoftOff { .. } => {
            outcome.power_off_taken.is_some() && outcome.off_proof() != v1::OffProof::Unspecified
        }
        PowerRequest::Cycle { .. } => outcome.power_off_taken.is_some(),
        _ => true,
    }
}

fn settle(row: &mut Row, to: PowerRequest, outcome: v1::Outcome) {
    row.outcome = Some(outcome.clone());
    row.result = outcome_word(&outcome);
    row.may_repeat = outcome.code() == v1::OutcomeCode::Interrupted
        || outcome.detail() == v1::OutcomeDetail::CallerGone;
    row.end = match (outcome.code(), &outcome.failure) {
        (v1::OutcomeCode::Confirmed, _) if !is_proven(to, &outcome) => {
            row.result = "not-confirmed";
            row.commands_sent = outcome.commands_sent;
            row.message =
                "the agent does not report that the BMC took a power-off command, or what proves the off: \
                 update rackhand-agent"
                    .to_owned();
            row.end = ExitStatus::Failed;
            return;
        }
        (v1::OutcomeCode::Confirmed, _) => ExitStatus::Done,
        (_, Some(failure)) => ExitStatus::of_failure(failure.kind()),
        _ => ExitStatus::Failed,
    };
    row.commands_sent = outcome.commands_sent;
    row.message = outcome.message;
}
