//! What a BMC reported about its host before the host was switched off, and while it booted again.
//!
//! Plain data for people, bounded in size because it is kept in the remediation object. No decision rests
//! on it, and it never holds a secret or the address of a BMC.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Groups of log entries that are kept.
const GROUPS: usize = 10;
/// Sensors that are kept.
const SENSORS: usize = 8;
/// Parts that could not be read.
const MISSING: usize = 6;
/// Characters of a text that are kept.
const TEXT: usize = 120;

/// How severe an event or the state of a sensor is, as the BMC reports it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum Severity {
    /// Normal operation, or not reported.
    Ok,
    /// The host works in a degraded state.
    Warning,
    /// A part of the host has failed.
    Critical,
}

/// An entry of an event log, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Number or name of the entry at the BMC.
    pub id: String,
    /// Time of the event by the BMC's clock, which may be wrong.
    pub at: Option<Timestamp>,
    /// Severity that the BMC gives the event.
    pub severity: Severity,
    /// The sensor that it is about; empty if none is named.
    pub sensor: String,
    /// The text of the event.
    pub message: String,
}

/// Equal entries of an event log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRecord {
    /// Time of the latest of them, by the BMC's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Severity that the BMC gives the event.
    pub severity: Severity,
    /// The sensor that they are about; empty if none is named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sensor: String,
    /// The text of the event.
    pub message: String,
    /// How many there are among the entries that were read.
    pub count: u32,
}

/// An entry of the event log by which it is found again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogPosition {
    /// Number or name of the entry; empty if the log was empty.
    pub id: String,
    /// Its time by the BMC's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A sensor that is not OK.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SensorAlarm {
    /// Name of the sensor at the BMC.
    pub name: String,
    /// The value with its unit; empty if it has none now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The BMC's judgement.
    pub severity: Severity,
}

/// What the event log recorded between the power-off and the end of the boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootLog {
    /// The entries, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<LogRecord>,
    /// Why they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// What was collected before the power-off of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostEvidence {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When the controller had it, or stopped waiting for it.
    pub at: Timestamp,
    /// The power state as the BMC reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// How far the host had booted, why it last started, and the faults of its chassis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot: Vec<String>,
    /// What became of the diagnostic interrupt, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<String>,
    /// Whether the BMC took that interrupt, so that the host may be writing a dump.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The newest entries of the event log, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogRecord>,
    /// The newest entry; `None` if the log was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<LogPosition>,
    /// The sensors that were not OK.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<SensorAlarm>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What the event log recorded while the host booted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_log: Option<BootLog>,
}

/// What was collected since the last write of the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Collected {
    /// Before the power-off.
    pub evidence: Option<Box<HostEvidence>>,
    /// After the boot.
    pub boot_log: Option<Box<BootLog>>,
}

impl HostEvidence {
    /// Nothing was read yet.
    pub fn new(attempt: u32, at: Timestamp) -> Self {
        Self {
            attempt,
            at,
            power: None,
            boot: Vec::new(),
            interrupt: None,
            interrupted: false,
            log: Vec::new(),
            newest: None,
            sensors: Vec::new(),
            missing: Vec::new(),
            boot_log: None,
        }
    }

    /// Nothing was read, for this reason.
    pub fn not_collected(attempt: u32, at: Timestamp, why: impl Into<String>) -> Self {
        Self {
            missing: vec![why.into()],
            ..Self::new(attempt, at)
        }
    }

    /// Whether a diagnostic interrupt may have been begun. Where none was requested, none is cancelled.
    pub fn may_have_interrupted(&self) -> bool {
        self.interrupt.is_some()
    }

    /// Adds the entries of the event log, the oldest first.
    pub fn set_log(&mut self, entries: &[LogEntry]) {
        self.newest = Some(position(entries.last()));
        self.log = records(entries);
    }

    /// The same, with every list and text within its bound.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.boot.truncate(GROUPS);
        self.missing.truncate(MISSING);
        // A critical sensor first, in case that there are too many.
        self.sensors
            .sort_by(|a, b| (b.severity, &a.name).cmp(&(a.severity, &b.name)));
        self.sensors.truncate(SENSORS);
        let texts = self.boot.iter_mut().chain(&mut self.missing);
        let texts = texts.chain(&mut self.power).chain(&mut self.interrupt);
        for text in texts {
            shorten(text);
        }
        for sensor in &mut self.sensors {
            shorten(&mut sensor.name);
            shorten(&mut sensor.value);
        }
        if let Some(newest) = &mut self.newest {
            shorten(&mut newest.id);
        }
        self
    }
}

fn position(entry: Option<&LogEntry>) -> LogPosition {
    let id = entry.map(|entry| entry.id.clone()).unwrap_or_default();
    LogPosition {
        id,
        at: entry.and_then(|entry| entry.at),
    }
}

/// The entries after `newest`, the oldest first; all of them if it is no longer among them.
pub fn newer_entries<'a>(entries: &'a [LogEntry], newest: &LogPosition) -> &'a [LogEntry] {
    let is_newest = |entry: &LogEntry| {
        let mut known = position(Some(entry));
        shorten(&mut known.id);
        known == *newest
    };
    let after = entries.iter().rposition(is_newest).map_or(0, |at| at + 1);
    entries.get(after..).unwrap_or_default()
}

/// Groups equal entries and keeps the latest groups; groups that are not OK take precedence.
pub fn records(entries: &[LogEntry]) -> Vec<LogRecord> {
    let mut groups: Vec<LogRecord> = Vec::new();
    for entry in entries {
        let mut record = LogRecord {
            at: entry.at,
            severity: entry.severity,
            sensor: entry.sensor.clone(),
            message: entry.message.clone(),
            count: 1,
        };
        shorten(&mut record.sensor);
        shorten(&mut record.message);
        let same = groups.iter().position(|known| {
            (known.severity, &known.sensor, &known.message)
                == (record.severity, &record.sensor, &record.message)
        });
        if let Some(known) = same.map(|at| groups.remove(at)) {
            record.count = known.count.saturating_add(1);
            record.at = record.at.or(known.at);
        }
        groups.push(record);
    }
    while groups.len() > GROUPS {
        let ok = groups.iter().position(|g| g.severity == Severity::Ok);
        groups.remove(ok.unwrap_or(0));
    }
    groups
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests;
