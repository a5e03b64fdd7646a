//! Names of event logs and other logs, by vendor.

/// Rank of a log as the event log of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::redfish) enum LogRank {
    /// An event log by its name; the lowest rank is best.
    Known(usize),
    /// Unknown name.
    Unknown,
    /// A log of another purpose by its name: never read, never cleared.
    Other,
}

/// Names of event logs, best first: SEL everywhere, IML on HPE, `EventLog` on OpenBMC,
/// `PlatformLog`, `StandardLog` and `ActiveLog` on Lenovo, `Log1` and `Log` on Supermicro and
/// Huawei.
const EVENTS: &[&str] = &[
    "SEL",
    "IML",
    "EventLog",
    "PlatformLog",
    "StandardLog",
    "ActiveLog",
    "Log1",
    "Log",
];

/// Logs of another purpose: Dell's lifecycle log (a hundred thousand entries) and fault list, HPE's
/// BMC and security logs, and audit, crash and console logs of other vendors.
const OTHERS: &[&str] = &[
    "Lclog",
    "FaultList",
    "IEL",
    "SL",
    "AuditLog",
    "Audit",
    "SecurityLog",
    "DiagLog",
    "DiagnosticLog",
    "MaintenanceLog",
    "Dump",
    "FaultLog",
    "Crashdump",
    "PostCodes",
    "HostLogger",
    "Journal",
    "DBusEventLog",
    "Telemetry",
    "CELog",
    "OperateLog",
    "RunLog",
    "BIOS",
];

/// Rank of a log by its name, the last segment of its URI.
pub(in crate::redfish) fn log_rank(name: &str) -> LogRank {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    match EVENTS.iter().position(is) {
        Some(rank) => LogRank::Known(rank),
        None if OTHERS.iter().any(is) => LogRank::Other,
        None => LogRank::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_rank_follows_the_log_name() {
        assert_eq!(log_rank("Sel"), LogRank::Known(0));
        assert!(log_rank("SEL") < log_rank("IML") && log_rank("IML") < log_rank("Log1"));
        assert_eq!(log_rank("Lclog"), LogRank::Other);
        assert_eq!(log_rank("Whatever"), LogRank::Unknown);
        assert!(log_rank("Log1") < LogRank::Unknown);
    }
}
