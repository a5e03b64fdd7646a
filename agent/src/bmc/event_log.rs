//! `events list` and `events clear`.

use std::process::ExitCode;

use rackhand_proto::{
    convert::timestamp_from_proto,
    v1::{self, clear_events_response::Result as Cleared, read_events_response::Result as Read},
};
use serde::Serialize;

use super::call::{
    ChangeRow, Client, NamedChange, answer, change_confirmed, limit, request, severity_word, target,
};
use crate::{
    cli::{EventsAction, EventsArgs, EventsClearArgs, EventsListArgs, LongReadArgs, Output},
    host::fan_out::{self, HostResult},
    output::{
        TableRow, brief,
        exit_code::{ExitStatus, Fault},
        print, table,
    },
};

/// One entry of a log.
#[derive(Debug, Serialize)]
struct Entry {
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    severity: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    sensor: String,
}

impl Entry {
    fn of(entry: v1::LogEntry) -> Self {
        let at = entry.at.as_ref();
        let at = at.and_then(|at| timestamp_from_proto(at).ok());
        Self {
            severity: severity_word(entry.severity(), "unknown"),
            at: at.map(|at| format!("{at:.0}")).unwrap_or_default(),
            id: entry.id,
            message: entry.message,
            sensor: entry.sensor,
        }
    }
}

/// The log of one host.
#[derive(Debug, Serialize)]
struct Row {
    host: String,
    /// Number of entries at the BMC, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u32>,
    events: Vec<Entry>,
    /// read, failed or unreachable.
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip)]
    end: ExitStatus,
}

impl Row {
    fn of(host: String, log: Result<v1::EventLog, Fault>) -> Self {
        match log {
            Ok(log) => Self {
                host,
                total: log.total,
                events: log.entries.into_iter().map(Entry::of).collect(),
                result: "read",
                error: String::new(),
                end: ExitStatus::Done,
            },
            Err(fault) => Self {
                host,
                total: None,
                events: Vec::new(),
                result: fault.end.word(),
                error: fault.message,
                end: fault.end,
            },
        }
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &["HOST", "EVENTS", "NOTE"];
    const SHORT: usize = 3;

    fn fields(&self) -> Vec<String> {
        vec![
            self.host.clone(),
            self.events.len().to_string(),
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

pub(crate) async fn events(args: EventsArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        EventsAction::List(args) => list(args).await,
        EventsAction::Clear(args) => clear(args).await,
    }
}

async fn list(args: EventsListArgs) -> anyhow::Result<ExitCode> {
    let LongReadArgs { timeout, common } = args.long;
    let read = |mut client: Client, host: String| {
        let asked = v1::ReadEventsRequest {
            target: target(&host),
            timeout: limit(timeout),
            limit: args.limit,
        };
        async move {
            let read = answer(client.read_events(request(asked, timeout)).await);
            let log = read.and_then(|response| match response.result {
                Some(Read::Log(log)) => Ok(log),
                Some(Read::Failure(failure)) => Err(Fault::of_failure(failure)),
                None => Err(Fault::empty()),
            });
            Row::of(host, log)
        }
    };
    let (rows, _) = fan_out::read_chosen(&args.hosts, &common, read).await?;
    match common.output {
        Output::Table => out!("{}", entries(&rows, false)),
        Output::Wide => out!("{}", entries(&rows, true)),
        output => print(&rows, output)?,
    }
    Ok(fan_out::finish(&rows, common.output, "read"))
}

/// One row per entry, and one per host without entries or with an error.
fn entries(rows: &[Row], wide: bool) -> String {
    let mut head = vec!["HOST", "AT", "SEVERITY", "EVENT"];
    if wide {
        head.extend(["SENSOR", "ID"]);
    }
    let mut lines = Vec::new();
    for row in rows {
        let said = |text: &str| {
            vec![
                row.host.clone(),
                String::new(),
                String::new(),
                text.to_owned(),
            ]
        };
        if row.end != ExitStatus::Done {
            lines.push(said(brief(&row.host, &row.error)));
        } else if row.events.is_empty() {
            lines.push(said("no events"));
        }
        for event in &row.events {
            let mut line = vec![
                row.host.clone(),
                event.at.clone(),
                event.severity.to_owned(),
                event.message.clone(),
            ];
            if wide {
                line.extend([event.sensor.clone(), event.id.clone()]);
            }
            lines.push(line);
        }
        let shown = u32::try_from(row.events.len()).unwrap_or(u32::MAX);
        if let Some(more) = row.total.and_then(|total| total.checked_sub(shown))
            && more > 0
        {
            lines.push(said(&format!("({more} older ones; --limit shows more)")));
        }
    }
    table(&head, lines)
}

async fn clear(args: EventsClearArgs) -> anyhow::Result<ExitCode> {
    let change = |named| one(named, &args);
    change_confirmed(
        "clear the event log of",
        "cleared",
        &args.hosts,
        &args.confirmed,
        change,
    )
    .await
}

async fn one(named: NamedChange, args: &EventsClearArgs) -> ChangeRow {
    let timeout = args.confirmed.change.timeout;
    let clear = |mut client: Client, call| {
        let asked = v1::ClearEventsRequest {
            target: target(&named.host),
            timeout: limit(timeout),
            force: args.confirmed.change.common.force,
            call,
        };
        async move { client.clear_events(request(asked, timeout)).await }
    };
    let changed = named
        .ask(clear)
        .await
        .and_then(|response| match response.result {
            Some(Cleared::Changed(changed)) => Ok(changed),
            Some(Cleared::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
    ChangeRow::of(named.host, "cleared", changed)
}
