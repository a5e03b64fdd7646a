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

/// Meaning of an entry for a signal about its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventMeaning {
    /// The host was switched on or off, or started: what the log has before belongs to an earlier start.
    Start,
    /// The operating system stopped.
    Stop(StopKind),
    /// A fault of the hardware.
    Fault(FaultKind),
    /// The end of a fault of this kind at the same sensor.
    FaultEnded(FaultKind),
    /// Anything else.
    Other,
}

/// How an operating system stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopKind {
    /// A panic, or a critical stop while it started or ran.
    OperatingSystem,
    /// The watchdog that the operating system feeds expired.
    Watchdog,
}

/// Kind of a fault of the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// The BMC reports the health of the whole host as critical.
    CriticalHealth,
    /// A memory error that could not be corrected.
    UncorrectableMemory,
    /// A component was stopped, or is about to be, because it is too hot.
    ThermalTrip,
    /// The power supplies are no longer redundant.
    PowerRedundancyLost,
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
    /// What it means for a signal.
    pub meaning: EventMeaning,
}

/// The newest entries of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog {
    /// The entries, oldest first.
    pub entries: Vec<LogEntry>,
    /// Number of entries at the BMC, if reported.
    pub total: Option<usize>,
}
