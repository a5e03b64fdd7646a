//! Hosts that are remediated again and again, and the event that their logs have in common.

use jiff::Timestamp;
use rackhand_api::kinds::host_history::HostRemediation;
use rackhand_core::{
    limits::recurrence::{SeenEvents, is_recent, ordinal, suspect},
    remediation::LogRecord,
};

use crate::store::host_evidence::evidence_of_api;

/// Which remediation of its host it is and which event its host reports, such as
/// `4th in 9 days: Correctable ECC (DIMM A3), 37 entries`; `None` for the first one in 30 days.
pub(super) fn occurrence(all: &[HostRemediation], entry: &HostRemediation) -> Option<String> {
    let times: Vec<Timestamp> = all.iter().map(|r| r.created_at).collect();
    let ordinal = ordinal(&times, entry.created_at)?;
    let earlier = all
        .iter()
        .filter(|r| is_recent(r.created_at, entry.created_at));
    Some(with_suspect(ordinal, earlier))
}

/// The text with the event that most of these remediations have in common, if there is one.
pub fn with_suspect<'a>(
    text: String,
    remediations: impl Iterator<Item = &'a HostRemediation>,
) -> String {
    let seen: Vec<Vec<LogRecord>> = remediations.map(records).collect();
    let seen: Vec<SeenEvents<'_>> = seen.iter().map(Vec::as_slice).collect();
    match suspect(&seen) {
        Some(event) => format!("{text}: {event}"),
        None => text,
    }
}

/// What the event log reported before and after the power-offs of one remediation.
fn records(remediation: &HostRemediation) -> Vec<LogRecord> {
    let evidence = remediation.evidence.iter().map(evidence_of_api);
    let records = evidence.flat_map(|e| {
        let of_boot = e.boot_log.map(|log| log.records).unwrap_or_default();
        e.log.into_iter().chain(of_boot)
    });
    records.collect()
}
