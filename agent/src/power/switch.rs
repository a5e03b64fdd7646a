//! `power on`, `off`, `cycle`, `reset` and `nmi`.

use std::{
    io::IsTerminal,
    process::ExitCode,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use rackhand_proto::{
    CallErrorKind, classify,
    convert::duration_to_proto,
    v1::{self, await_response::Event, begin_request::Action, power_client::PowerClient},
};
use serde::Serialize;
use tonic::{Request, transport::Channel};

use super::{
    AT_ONCE, connect,
    output::{outcome_word, state_word},
    table, unique,
};
use crate::cli::{Output, SwitchArgs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    On,
    Off,
    SoftOff { limit: Duration, then_force: bool },
    Cycle { hold_off: Duration },
    Reset,
    Nmi,
}

/// How long an operation may take where nobody says.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time for BMC and host beyond the waits that were asked for.
const AMPLE: Duration = Duration::from_secs(120);

impl To {
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

    fn patience(self) -> Duration {
        let wait = match self {
            Self::SoftOff { limit, .. } => limit,
            Self::Cycle { hold_off } => hold_off,
            Self::On | Self::Off | Self::Reset | Self::Nmi => Duration::ZERO,
        };
        PATIENCE.max(wait.saturating_add(AMPLE))
    }
}

/// How it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Although a remediation holds the host off.
    pub(crate) force: bool,
    /// How long the whole may take.
    pub(crate) timeout: Option<Duration>,
    /// Do not wait for the outcome.
    pub(crate) no_wait: bool,
}

/// One host, as `-o json` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    host: String,
    operation: String,
    pub(crate) result: &'static str,
    pub(crate) message: String,
    pub(crate) commands_sent: u32,
    seconds: f64,
    #[serde(skip)]
    pub(crate) exit: u8,
}

const FAILED: u8 = 1;
const NOT_CONFIRMED: u8 = 3;

pub(super) async fn switch(args: SwitchArgs, to: To) -> anyhow::Result<ExitCode> {
    let client = connect(&args.common).await?;
    let live = std::io::stderr().is_terminal();
    let wish = Wish {
        force: args.force,
        timeout: args.timeout,
        no_wait: args.no_wait,
    };
    let rows = stream::iter(unique(args.hosts))
        .map(|host| one(client.clone(), host, &wish, to, live))
        .buffered(AT_ONCE)
        .collect::<Vec<Row>>();
    let rows = tokio::select! {
        rows = rows => rows,
        _ = tokio::signal::ctrl_c() => {
            eprintln!("not waiting any longer; operations that were begun go on in the agent");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
    };
    match args.common.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Output::Table => {
            let lines = rows.iter().map(|row| {
                let seconds = format!("{:.1}s", row.seconds);
                vec![
                    row.host.clone(),
                    row.result.to_owned(),
                    seconds,
                    row.message.clone(),
                ]
            });
            print!(
                "{}",
                table(&["HOST", "RESULT", "TIME", "MESSAGE"], lines.collect())
            );
        }
    }
    let worst = |exit| rows.iter().any(|row| row.exit == exit);
    Ok(if worst(FAILED) {
        ExitCode::from(FAILED)
    } else if worst(NOT_CONFIRMED) {
        ExitCode::from(NOT_CONFIRMED)
    } else {
        ExitCode::SUCCESS
    })
}

pub(crate) async fn one(
    mut client: PowerClient<Channel>,
    host: String,
    wish: &Wish,
    to: To,
    live: bool,
) -> Row {
    let begun = Instant::now();
    let timeout = wish.timeout.unwrap_or_else(|| to.patience());
    let operation = format!("cli-{}", uuid::Uuid::new_v4());
    let mut row = Row {
        host: host.clone(),
        operation: operation.clone(),
        result: "failed",
        message: String::new(),
        commands_sent: 0,
        seconds: 0.0,
        exit: FAILED,
    };
    let mut request = Request::new(v1::BeginRequest {
        operation_id: operation.clone(),
        target: Some(v1::Target {
            host: host.clone(),
            endpoint: None,
        }),
        action: Some(to.action()),
        deadline: Some(duration_to_proto(timeout)),
        force: wish.force,
        ..v1::BeginRequest::default()
    });
    request.set_timeout(Duration::from_secs(15));
    match client.begin(request).await {
        Err(status) => row.message = classify(&status).to_string(),
        Ok(_) if wish.no_wait => {
            row.result = "begun";
            row.message = format!("operation {operation} goes on in the agent");
            row.exit = 0;
        }
        Ok(_) => {
            let wait = follow(&mut client, &operation, &host, live);
            // The agent keeps the deadline; this is for an agent that is gone.
            let patience = timeout.saturating_add(Duration::from_secs(30));
            match tokio::time::timeout(patience, wait).await {
                Ok(Ok(outcome)) => settle(&mut row, outcome),
                Ok(Err(error)) => {
                    row.result = "not-confirmed";
                    row.message = format!("the outcome is not known: {error}");
                    row.exit = NOT_CONFIRMED;
                }
                Err(_) => {
                    row.result = "not-confirmed";
                    row.message = "the agent did not tell the outcome in time".to_owned();
                    row.exit = NOT_CONFIRMED;
                }
            }
        }
    }
    row.seconds = begun.elapsed().as_secs_f64();
    row
}

fn settle(row: &mut Row, outcome: v1::Outcome) {
    row.result = outcome_word(outcome.code());
    row.exit = match outcome.code() {
        v1::OutcomeCode::Confirmed => 0,
        v1::OutcomeCode::Failed | v1::OutcomeCode::IdentityMismatch => FAILED,
        _ => NOT_CONFIRMED,
    };
    row.commands_sent = outcome.commands_sent;
    row.message = outcome.message;
}

/// Waits for the outcome; a lost connection is taken up again, the operation goes on meanwhile.
async fn follow(
    client: &mut PowerClient<Channel>,
    operation: &str,
    host: &str,
    live: bool,
) -> Result<v1::Outcome, String> {
    let mut shown = 0;
    loop {
        let request = v1::AwaitRequest {
            operation_id: operation.to_owned(),
        };
        let error = match client.r#await(request).await {
            Err(status) => classify(&status),
            Ok(response) => {
                let mut events = response.into_inner();
                let mut number = 0;
                loop {
                    match events.message().await {
                        Ok(Some(event)) => {
                            number += 1;
                            if live && number > shown {
                                shown = number;
                                show(host, &event);
                            }
                            if let Some(Event::Outcome(outcome)) = event.event {
                                return Ok(outcome);
                            }
                        }
                        Ok(None) => return Err("the agent ended the stream early".to_owned()),
                        Err(status) => break classify(&status),
                    }
                }
            }
        };
        if error.kind != CallErrorKind::Retryable {
            return Err(error.message);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn show(host: &str, event: &v1::AwaitResponse) {
    let elapsed = event
        .elapsed
        .as_ref()
        .and_then(|elapsed| rackhand_proto::convert::duration_from_proto(elapsed).ok());
    let elapsed = elapsed.unwrap_or_default().as_secs_f64();
    let text = match &event.event {
        Some(Event::Accepted(_)) => "accepted".to_owned(),
        Some(Event::CommandSent(sent)) if sent.answer.is_empty() => {
            format!("sending {}", sent.command)
        }
        Some(Event::CommandSent(sent)) => format!("{}: BMC answered {}", sent.command, sent.answer),
        Some(Event::Reading(reading)) => format!("BMC says {}", state_word(reading.state())),
        Some(Event::Failure(failure)) => failure.message.clone(),
        Some(Event::Outcome(_)) | None => return,
    };
    eprintln!("{host}: {elapsed:6.1}s  {text}");
}
