//! The event log of a BMC (IPMI: SEL).

use jiff::Timestamp;

/// Severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The entry reports normal operation.
    Ok,
    /// The entry reports degraded operation.
    Warning,
    /// A failure.
    Critical,
    /// The BMC reports no severity.
    Unknown,
}

/// An entry of an event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Entry number or name at the BMC.
    pub id: String,
    /// Time of the event by the BMC's clock, which may be wrong. `None`: not reported, or before
    /// the clock was set.
    pub at: Option<Timestamp>,
    /// The severity that the BMC reports.
    pub severity: Severity,
    /// Event text of the BMC or, for IPMI, of the specification.
    pub message: String,
    /// Name of the sensor that reported the event, if any.
    pub sensor: Option<String>,
}

/// The newest entries of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog {
    /// The entries, oldest first.
    pub entries: Vec<LogEntry>,
    /// Number of entries at the BMC, if reported.
    pub total: Option<usize>,
}
