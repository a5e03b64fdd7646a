//! The event log of a BMC (IPMI: SEL).

use jiff::Timestamp;

/// How serious an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// For the record.
    Ok,
    /// Worth a look.
    Warning,
    /// A failure.
    Critical,
    /// The BMC does not say.
    Unknown,
}

/// An entry of an event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The BMC's number or name for it.
    pub id: String,
    /// When, by the BMC's clock, which may be wrong. `None`: not said, or before that clock was
    /// set.
    pub at: Option<Timestamp>,
    /// The severity that the BMC reports.
    pub severity: Severity,
    /// What happened, in the BMC's words or, for IPMI, in those of the specification.
    pub message: String,
    /// The sensor that it is about, where one is named.
    pub sensor: Option<String>,
}

/// The newest part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog {
    /// The entries, oldest first.
    pub entries: Vec<LogEntry>,
    /// How many the BMC holds, where it says so.
    pub total: Option<usize>,
}
